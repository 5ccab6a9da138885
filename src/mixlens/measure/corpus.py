"""How alike are the vectors of different texts? Anisotropy, as an exact mean instead of a sample of pairs."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Shaped


def unit_sum(vectors: Float[np.ndarray, "vector dim"]) -> tuple[Float[np.ndarray, " dim"], int]:
    """What anisotropy needs of a text: the sum of its vectors, each scaled to length 1, and how many they are.

    Vectors that are all zero have no direction and are left out.
    """
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    there = lengths > 0
    return (vectors[there] / lengths[there, None]).sum(0, dtype=np.float64), int(there.sum())


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
