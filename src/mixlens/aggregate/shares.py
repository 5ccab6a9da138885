"""Rows of scores as shares."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def normalize_rows(scores: Float[Tensor, "*axes key"]) -> Float[Tensor, "*axes key"]:
    """Each row divided by its sum; a row that is all zero stays so."""
    total = scores.sum(-1, keepdim=True)
    return scores / total.masked_fill(total == 0, 1.0)
