"""How much of a text's scores is the tokens' places: what a rollout through many causal layers ends as."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Readout
from mixlens.measure.ranks import rank_correlation

MOST = 0.5  # of the variance of the scores' ranks is what a line over the places explains, rho^2
SURE = 2.576  # standard deviations of rho where the order is by chance, 1 / sqrt(n - 1): one text in a hundred by luck


def position_rho(scores: Float[Tensor, " token"]) -> float | None:
    """Spearman's rho of scores with the places of their tokens; None of fewer than two, or where all are equal."""
    rho = rank_correlation(scores.detach().cpu().double().numpy(), np.arange(len(scores), dtype=np.float64))
    return None if np.isnan(rho) else rho


def mostly_position(rho: float | None, count: int) -> bool:
    """Whether the places explain most of the order of `count` scores, and not by chance."""
    return rho is not None and rho * rho > MOST and abs(rho) * sqrt(count - 1) > SURE


def position_meta(scores: Float[Tensor, " token"], row: Readout) -> dict[str, Any]:
    """`position_rho` of scores of the tokens that a read-out row sees; and a warning where it says it all."""
    seen = scores[: row + 1] if isinstance(row, int) else scores
    rho = position_rho(seen)
    return {} if rho is None else {"position_rho": rho, **warned(rho, len(seen))}


def warned(rho: float, count: int) -> dict[str, Any]:
    """A warning where scores of `count` tokens are mostly their places."""
    if not mostly_position(rho, count):
        return {}
    return {
        "warnings": (
            f"the order of the scores is mostly that of the tokens' places (Spearman's rho {rho:.2f}), so they say "
            "little of this text; leave method= out for one that reads it",
        )
    }
