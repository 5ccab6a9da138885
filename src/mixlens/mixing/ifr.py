"""Information flow routes: how near each head's term comes to the residual sum (Ferrando & Voita 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from mixlens.decompose import Block, Terms
from mixlens.errors import UnknownOption
from mixlens.mixing.steps import Map, normalize_rows, only_visible


def ifr(
    block: Block,
    *,
    heads: Literal["each", "sum"] = "each",
    threshold: float = 0.0,
    with_residual: bool = True,
) -> Map:
    """e_ij = sum_h max(0, ||a_i||_1 - ||a_i - t_ij^h||_1), the residual's own at i = j too; rows divided by their sum.

    a_i is the real vector behind the residual sum, output bias in; t_ij^h = alpha_ij^h W_O^h v_j^h. `heads="sum"`: one
    edge for the sum of the heads' terms. `threshold`: edges below it, as shares of their row, are dropped and the rest
    divided anew. `with_residual=False` leaves the residual's edge out, as the authors' code does where it sums layers.
    Raises UnknownOption, Undefined between two streams.
    """
    if heads not in ("each", "sum"):
        raise UnknownOption(f"expected heads='each' or 'sum' for ifr, got {heads!r}")
    if not 0 <= threshold < 1:
        raise UnknownOption(f"expected threshold= a share of 0 or more, below 1, for ifr, got {threshold!r}")
    block.require_one_stream("ifr")
    terms, a = replace(block.terms("residual"), residual=None), block.result("residual")
    size = a.abs().sum(-1)
    parts = [terms] if heads == "sum" else by_head(terms)
    shape = (len(a), terms.queries, terms.shape[2])
    edges, stays = a.new_zeros(shape), (size - (a - block.x).abs().sum(-1)).clamp_min(0)
    total = a.new_zeros(shape[:2]) + (stays if with_residual else 0)
    kept = []
    for part in parts:
        near = only_visible(block, (size[..., None] - part.distances(a, 1)).clamp_min(0))
        edges += near
        if threshold:
            kept.append(near)
    total = total + edges.sum(-1)
    if threshold:
        floor = (threshold * total)[..., None]
        edges = torch.stack([near.masked_fill(near < floor, 0.0) for near in kept]).sum(0)
        stays = stays.masked_fill(stays < floor[..., 0], 0.0)
    if with_residual:
        _add_at_itself(block, edges, stays)
    return normalize_rows(edges)


def by_head(terms: Terms) -> Iterator[Terms]:
    """The terms of each head alone, without a residual."""
    values = terms.values
    for h in range(terms.shape[1]):
        kv = h // terms.call.groups
        yield replace(
            terms,
            call=terms.call.head(h),
            values=values[:, kv : kv + 1],
            projection=terms.projection[h : h + 1],
            residual=None,
        )


def _add_at_itself(block: Block, edges: Tensor, stays: Tensor) -> None:
    if block.place is None:
        edges.diagonal(dim1=1, dim2=2).add_(stays)
    else:
        edges.scatter_add_(2, block.place[..., None], stays[..., None])
