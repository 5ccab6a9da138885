"""What a text has by itself: scores of one call, probabilities of the model's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import mixlens

TEXTS = ["a deep film .", "not bad", "a very slow and bad film .", "meaningful and deep ."]


def scores(lens: mixlens.Lens, text: Any, method: str, target: Any = None, **options: Any) -> Any:
    return lens.attribute(text, method, target, **options).scores.double().numpy()


def probability(lens: mixlens.Lens, ids: list[int], label: int, mask: list[int] | None = None, **more: Any) -> float:
    """By the model itself."""
    inputs = {"input_ids": torch.tensor([ids])} | ({} if mask is None else {"attention_mask": torch.tensor([mask])})
    with torch.no_grad():
        return float(lens.model(**inputs, **more).logits[0].double().softmax(-1)[label])


def curve(
    lens: mixlens.Lens,
    text: str,
    method: str,
    without: Callable[[list[int], list[int], int], float],
    levels: Any = None,
) -> np.ndarray:
    """The probability at each level, with the tokens taken out that score highest."""
    attr = lens.attribute(text, method)
    ids, label = list(attr.source.ids), attr.target.index
    order = [i for i in np.argsort(-attr.scores.double().numpy(), kind="stable") if not attr.special[i]]
    counts = [int(np.ceil(k / 10 * len(order) - 1e-9)) for k in range(11)]
    return np.array([without(ids, [int(i) for i in order[:c]], label) for c in counts])
