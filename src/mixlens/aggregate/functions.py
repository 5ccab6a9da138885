"""Aggregations as pure functions of maps (layer, query, key): layer l of the result stands for layers 0 to l."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.aggregate.flow import flow
from mixlens.aggregate.streams import rollout_streams
from mixlens.progress import Progress

Maps = Float[Tensor, "layer query key"]
AnyMaps = Float[Tensor, "layer *heads query key"]


def add_residual(
    maps: Float[Tensor, "*axes query key"], share: float, rows: Sequence[int] | None = None
) -> Float[Tensor, "*axes query key"]:
    """(1 - share) M + share I; `rows`: which query rows are there, where not all."""
    if share == 0:
        return maps
    eye = torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)
    eye = eye if rows is None else eye[list(rows)]
    return (1 - share) * maps + share * eye


def rollout(maps: Maps) -> Maps:
    """R^l = M^l R^(l-1), R^0 = M^0 (Abnar & Zuidema 2020, Eq. 1), in float64."""
    return rollout_scaled(maps, rescale=False)[0]


def rollout_scaled(maps: Maps, rescale: bool = True) -> tuple[Maps, Float[Tensor, " layer"]]:
    """`rollout`, each layer divided by ONE number, its largest entry, and the logarithm of what it was divided by.

    Maps whose rows do not sum to 1 grow without bound (1e19 over 12 layers). One number a layer changes no ranking
    and no share of a row; row-wise rescaling would.
    """
    rolled, logs = rollout_streams({("", ""): maps}, rescale=rescale)
    return rolled["", ""], logs


def head_rollout(heads: Float[Tensor, "layer head query key"], head: int, share: float) -> Maps:
    """The layer's own head-k map times the rollout of the layers below with heads averaged (A.1)."""
    below = rollout(add_residual(heads.mean(1), share))
    top = add_residual(heads[:, head], share).double()
    return torch.stack([top[0], *(top[layer] @ below[layer - 1] for layer in range(1, len(top)))])


def head_flow(
    heads: Float[Tensor, "layer head query key"],
    head: int,
    share: float,
    queries: Sequence[int] | None = None,
    layers: Sequence[int] | None = None,
    *,
    normalize: bool = True,
    progress: Progress | None = None,
) -> Float[Tensor, "layers queries key"]:
    """Flow where the source's edges are the layer's own head-k map, over the layers below with heads averaged (A.1)."""
    below, top = (add_residual(m, share) for m in (heads.mean(1), heads[:, head]))
    return flow(below, queries, layers, normalize=normalize, leaving=top, progress=progress)


def mean(maps: AnyMaps) -> AnyMaps:
    """The mean of the maps of layers 0 to l."""
    count = torch.arange(1, len(maps) + 1, dtype=maps.dtype, device=maps.device)
    return maps.cumsum(0) / count.view(-1, *[1] * (maps.ndim - 1))


def total(maps: AnyMaps) -> AnyMaps:
    """The sum of the maps of layers 0 to l."""
    return maps.cumsum(0)


def layer(maps: AnyMaps, k: int) -> Float[Tensor, "1 *heads query key"]:
    """Layer k alone, as maps of one layer."""
    return maps[k][None]


def uniform(windows: Sequence[int | None], n: int, rows: Sequence[int] | None = None) -> Maps:
    """Uniform causal attention: each row spreads evenly over what it may see (`window` tokens back; None: all)."""
    j = torch.arange(n, dtype=torch.int64, device="cpu")
    i = (j if rows is None else j[list(rows)])[:, None]
    out = []
    for window in windows:
        seen = (j <= i) & (j > i - (window or n))
        out.append(seen.double() / seen.sum(-1, keepdim=True))
    return torch.stack(out)


def relative_to(maps: Float[Tensor, "layer query key"], reference: Maps) -> Float[Tensor, "layer query key"]:
    """Entrywise maps / reference (0 where nothing can be seen), rows divided by their sum.

    The receptive-field normalisation: uniform attention gives 1 everywhere before the rows are divided, and tokens
    appended to a text change no earlier row.
    """
    reference = reference.to(maps)
    ratio = torch.where(reference > 0, maps / reference.clamp_min(torch.finfo(maps.dtype).tiny), 0.0)
    sums = ratio.sum(-1, keepdim=True)
    return torch.where(sums > 0, ratio / sums.clamp_min(torch.finfo(maps.dtype).tiny), 0.0)
