"""How alike are the vectors of different texts? Anisotropy, as an exact mean instead of a sample of pairs."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Shaped

from mixlens.measure.measure import Spread
from mixlens.measure.statistics import interval, two_sided, weights

_BLOCK = 4096  # texts at a time: of many, no copy of all is made
_NAN = float("nan")


def unit_sum(vectors: Float[np.ndarray, "vector dim"]) -> tuple[Float[np.ndarray, " dim"], int]:
    """What anisotropy needs of a text: the sum of its vectors, each scaled to length 1, and how many they are.

    Vectors that are all zero have no direction and are left out.
    """
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    nonzero = lengths > 0
    return (vectors[nonzero] / lengths[nonzero, None]).sum(0, dtype=np.float64), int(nonzero.sum())


def anisotropy(
    sums: Float[np.ndarray, "text dim"],
    counts: Int[np.ndarray, " text"],
    weights: Shaped[np.ndarray, " text"] | None = None,
) -> float:
    """Mean cosine of two random vectors of different texts, -1 to 1 (Ethayarajh 2019; Ferrando 2022, Figure 3).

    Not sampled: over all pairs of vectors of different texts the mean is (|S|^2 - sum_t |s_t|^2) / (N^2 - sum_t n_t^2),
    with s_t the text's sum of unit vectors, n_t their number, S and N the totals. `weights`: how often each text was
    drawn (bootstrap over texts); a text never pairs with itself. NaN: fewer than two texts with a vector.
    """
    w = np.ones(len(counts)) if weights is None else np.asarray(weights, dtype=np.float64)
    n = w * counts
    pairs = n.sum() ** 2 - n @ n
    if pairs <= 0.5:
        return float("nan")
    s = w[:, None] * sums
    total = s.sum(0)
    return float((total @ total - np.einsum("td,td->", s, s)) / pairs)


def anisotropy_draws(
    sums: Float[np.ndarray, "text dim"], counts: Int[np.ndarray, " text"], drawn: Float[np.ndarray, "draw text"]
) -> Float[np.ndarray, " draw"]:
    """`anisotropy` of several draws of texts at once; NaN where a draw has no pair."""
    n = drawn @ counts
    pairs = n**2 - drawn**2 @ counts.astype(np.float64) ** 2
    total = np.zeros((len(drawn), sums.shape[1]))
    diagonal = np.zeros(len(drawn))
    for start in range(0, len(counts), _BLOCK):
        block = np.asarray(sums[start : start + _BLOCK], dtype=np.float64)
        w = drawn[:, start : start + _BLOCK]
        total += w @ block
        diagonal += w**2 @ np.einsum("td,td->t", block, block)
    defined = pairs > 0.5
    out = np.full(len(drawn), _NAN)
    out[defined] = (np.einsum("rd,rd->r", total, total) - diagonal)[defined] / pairs[defined]
    return out


def anisotropy_spread(
    sums: Float[np.ndarray, "text dim"],
    counts: Int[np.ndarray, " text"],
    *,
    level: float = 0.95,
    resamples: int = 1000,
    draw_seed: int = 0,
) -> Spread:
    """`anisotropy` with its interval over draws of texts; the null, vectors of random directions, is 0."""
    nonempty = np.asarray(counts) > 0
    n = int(nonempty.sum())
    value = float(anisotropy_draws(sums, counts, np.ones((1, len(counts))))[0]) if n else _NAN
    if np.isnan(value):
        return Spread(0, _NAN, _NAN, _NAN, _NAN, _NAN)
    blocks = weights(len(counts), resamples, draw_seed)
    draws = np.concatenate([anisotropy_draws(sums, counts, block) for block in blocks])
    return Spread(n, value, *interval(draws, level), 0.0, two_sided(draws[~np.isnan(draws)], n))
