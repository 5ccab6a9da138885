"""Inner products of terms with a vector a row, without the terms: what each source writes in one direction."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.attention import repeat_heads
from mixlens.decompose.terms import Terms


def dots(terms: Terms, vectors: Float[Tensor, "batch row dim"]) -> Float[Tensor, "batch head row key"]:
    """scale_i alpha_ij^h (v_j^h projection^h) . u_i for every row i, head h and source j (without the residual's part).

    The vector goes through the projection once a row and head, so the work is that of attention itself:
    O(row key head (head dim)). Sums over heads, and the residual's x_i . u_i at i = j, are the caller's.
    """
    values = repeat_heads(terms.values, terms.call.groups)
    return terms.call.weights() * (directions(terms, vectors) @ values.transpose(2, 3))


def directions(terms: Terms, vectors: Float[Tensor, "batch row dim"]) -> Float[Tensor, "batch head row width"]:
    """The vector of each row as every head's values see it: scale_i projection^h u_i."""
    out = torch.einsum("hwd,brd->bhrw", terms.projection, vectors)
    return out if terms.scale is None else out * terms.scale[:, None, :, None]
