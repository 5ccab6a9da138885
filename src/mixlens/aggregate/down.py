"""Rows of a rollout from the top layer down: rows times maps, so that no product of two maps is ever made."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

Rows = slice | list[int]
Part = tuple[Rows, Float[Tensor, "_ _"]]  # some query rows of a map, and which they are
PIECE_BYTES = 32 << 20  # of a map in float64, at a time


def down(reached: Float[Tensor, "row query"], parts: Iterable[Part], share: float = 0.0) -> Float[Tensor, "row key"]:
    """R ((1 - share) M + share I), in R's dtype. M comes in blocks of rows; those that do not come count as zeros."""
    out = share * reached
    for rows, part in parts:
        left, step = reached[:, rows], max(1, PIECE_BYTES // (part.shape[-1] * reached.element_size()))
        for start in range(0, len(part), step):
            piece = part[start : start + step].to(reached)
            out.addmm_(left[:, start : start + step], piece, alpha=1 - share)
    return out


def down_uniform(
    reached: Float[Tensor, "row query"], window: int | None, share: float = 0.0
) -> Float[Tensor, "row key"]:
    """`down` for uniform causal attention over the last `window` tokens (None: all), in closed form.

    U_ij = 1 / c_i with c_i the tokens that row i sees, so (R U)_j = sum of R_i / c_i over the i that see j.
    """
    n = reached.shape[-1]
    width = min(window or n, n)
    seen = torch.arange(1, n + 1, dtype=reached.dtype, device=reached.device).clamp_max(width)
    return share * reached + (1 - share) * _forward_sums(reached / seen, width)


def _forward_sums(x: Float[Tensor, "row n"], width: int) -> Float[Tensor, "row n"]:
    """sum of x_j to x_(j + width - 1), by additions alone: a difference of sums would lose what is small.

    Two sums that meet at a multiple of `width`: what is left of j's own block, and the next block's beginning.
    """
    rows, n = x.shape
    blocks = -(-n // width) + 1
    padded = torch.cat([x, x.new_zeros(rows, blocks * width - n)], 1).view(rows, blocks, width)
    rest = padded.flip(-1).cumsum(-1).flip(-1)[:, :-1]
    begun = padded.cumsum(-1)[:, 1:, :-1]
    sums = torch.cat([rest[..., :1], rest[..., 1:] + begun], -1)
    return sums.reshape(rows, -1)[:, :n]
