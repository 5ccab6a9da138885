"""A lens on a small random model of any family, and what results are held against."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import mixlens
from models import families
from models.words import tokenizer

TEXT = "w11 w12 w13 w12 w60"
PRESETS = ("attention", "attention_rollout", "norm_rollout", "globenc", "alti", "value_zeroing")


@cache
def lens(name: str = "bert", head: str = "sequence", special: bool = True, **settings: Any) -> mixlens.Lens:
    return mixlens.load(families.model(name, head, **settings), tokenizer(special))


def shares(row: torch.Tensor) -> torch.Tensor:
    return row / row.sum()


def close(got: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-12) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance


def plain_answer(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].softmax(-1)
