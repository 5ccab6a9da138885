"""Value Zeroing (Mohebbi 2023)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from mixlens.decompose import Block
from mixlens.decompose.zeroing import zeroed
from mixlens.errors import UnknownOption
from mixlens.mixing.steps import Map, normalize_rows, only_visible

Distance = Literal["cosine", "euclidean", "spearman"]


def value_zeroing(
    block: Block,
    *,
    distance: Distance = "cosine",
    normalize: bool = True,
    standardize: tuple[Tensor, Tensor] | None = None,
) -> Map:
    """C: the distance between the layer's output of token i and the output with the value of token j zeroed (Eq. 10).

    The whole layer behind the values is run again, the diagonal included. `distance`: cosine (paper), euclidean, or
    spearman (1 - rho over the dimensions, average ranks). `normalize`: rows divided by their sum; a row that is all
    zero stays zero. `standardize`: (mean, deviation), each (layer, dim), taken out of the outputs first (the paper's
    A.1, after Timkey & van Schijndel 2021; `Lens.output_statistics` fits them). Raises UnknownOption.
    """
    if distance not in DISTANCES:
        raise UnknownOption(f"expected a distance of {', '.join(DISTANCES)}, got {distance!r}")
    between = DISTANCES[distance]
    mean, deviation = _statistics(standardize, block)
    # What a half-precision model gave is rounded, and a zeroed token may move it less than that.
    y = block.finish(block.attn) if block.half else block.y
    real = (y - mean) / deviation
    scores = y.new_zeros(*y.shape[:2], block.values.shape[2])
    for rows, keys, outputs in zeroed(block):
        if standardize is not None:
            outputs = (outputs - mean) / deviation
        scores[:, rows, keys] = between(outputs, real[:, rows, None])
    quiet = scores.amax(-1, keepdim=True) <= _rounding(distance, y, deviation, real)
    scores = only_visible(block, scores).masked_fill(quiet, 0.0)
    return normalize_rows(scores) if normalize else scores


def _rounding(distance: Distance, y: Tensor, deviation: Tensor | float, real: Tensor) -> Tensor | float:
    """What a distance may be though nothing moved, (batch, query, 1): a row of nothing else is a row of zeros."""
    if distance == "spearman":
        return 1e-12  # two ranks that change places are 12 / d^3
    size = 16 * torch.finfo(y.dtype).eps * (y / deviation).norm(dim=-1, keepdim=True)
    if distance == "euclidean":
        return size
    return 0.5 * (size / real.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(y.dtype).tiny)) ** 2


def _statistics(standardize: tuple[Tensor, Tensor] | None, block: Block) -> tuple[Tensor | float, Tensor | float]:
    if standardize is None:
        return 0.0, 1.0
    mean, deviation = (torch.as_tensor(t, dtype=block.y.dtype, device=block.y.device) for t in standardize)
    dim = block.y.shape[-1]
    if mean.ndim != 2 or mean.shape != deviation.shape or mean.shape[1] != dim or block.index >= mean.shape[0]:
        raise UnknownOption(
            f"expected standardize=(mean, deviation), each of shape (layer, {dim}), got {tuple(mean.shape)} and "
            f"{tuple(deviation.shape)}; Lens.output_statistics makes them"
        )
    if not bool((deviation > 0).all()):
        raise UnknownOption("expected positive deviations in standardize=, got some of 0 or less; fit on more texts")
    return mean[block.index], deviation[block.index]


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """1 - cos, as half the squared distance of the unit vectors: the textbook form rounds near-equal ones away."""
    return 0.5 * _unit(a).sub_(_unit(b)).norm(dim=-1).pow(2)


def _unit(a: Tensor) -> Tensor:
    return a / a.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(a.dtype).tiny)


def euclidean(a: Tensor, b: Tensor) -> Tensor:
    """||a - b||_2."""
    return (a - b).norm(dim=-1)


def spearman(a: Tensor, b: Tensor) -> Tensor:
    """1 - Spearman's rho over the dimensions, ties with average ranks."""
    from scipy.stats import rankdata

    def ranks(t: Tensor) -> Tensor:
        r = torch.from_numpy(rankdata(t.cpu().numpy(), axis=-1)).to(t.device)
        return r - r.mean(-1, keepdim=True)

    ra, rb = ranks(a), ranks(b)
    norms = ra.norm(dim=-1) * rb.norm(dim=-1)
    rho = (ra * rb).sum(-1) / norms.clamp_min(torch.finfo(norms.dtype).tiny)
    return (1 - rho).clamp_min(0).to(a.dtype)


DISTANCES = {"cosine": cosine, "euclidean": euclidean, "spearman": spearman}
