"""How much of a text's scores is the tokens' places: what a rollout through many causal layers ends as."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
from jaxtyping import Float
from torch import Tensor

from mixlens.measure.ranks import rank_correlation
from mixlens.results import Attribution

MOST = 0.5  # of the variance of the scores' ranks is what a line over the places explains, rho^2
SURE = 2.576  # standard deviations of rho where the order is by chance, 1 / sqrt(n - 1): one text in a hundred by luck


def position_rho(scores: Float[Tensor, " token"]) -> float | None:
    """Spearman's rho of scores with the places of their tokens; None of fewer than two, or where all are equal."""
    rho = rank_correlation(scores.detach().cpu().double().numpy(), np.arange(len(scores), dtype=np.float64))
    return None if np.isnan(rho) else rho


def mostly_position(rho: float | None, count: int) -> bool:
    """Whether the places explain most of the order of `count` scores, and not by chance."""
    return rho is not None and rho * rho > MOST and abs(rho) * sqrt(count - 1) > SURE


def placed(attr: Attribution) -> Attribution:
    """The same with `position_rho` of the scores of the tokens that its row sees, and a warning where that is most."""
    row = attr.meta["readout"]
    seen = attr.scores[: row + 1] if isinstance(row, int) else attr.scores
    rho = position_rho(seen)
    if rho is None:
        return attr
    warnings = (*attr.meta.get("warnings", ()), *warned(rho, len(seen)))
    return replace(attr, meta={**attr.meta, "position_rho": rho, **({"warnings": warnings} if warnings else {})})


def warned(rho: float, count: int) -> tuple[str, ...]:
    """A warning where scores of `count` tokens are mostly their places."""
    if not mostly_position(rho, count):
        return ()
    return (
        f"the order of the scores is mostly that of the tokens' places (Spearman's rho {rho:.2f}), so they say little "
        "of this text; leave method= out for one that reads it",
    )
