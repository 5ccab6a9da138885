"""Whether a part of a row holds more of it than its size would by chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

_BLOCK = 4_000_000  # numbers at a time: 32 MB


class Shares(NamedTuple):
    """Of each group: its share of the row, the share of its size, and the p of holding so much by chance."""

    share: Float[np.ndarray, " group"]
    expected: Float[np.ndarray, " group"]
    p: Float[np.ndarray, " group"]


def shares(
    values: Float[np.ndarray, " n"], groups: Int[np.ndarray, " n"], *, samples: int = 999, seed: int = 0
) -> Shares:
    """Shares of groups of a row's values (0 or more), tested against the same values in another order.

    The statistic of a group of k of n values is z = (share - k/n) / sd, sd the exact standard deviation of its share
    over all orders. p = (1 + orders whose LARGEST z of any group reaches this z) / (1 + orders), `samples` orders drawn
    with `seed`: so the chance that any group of an exchangeable row has p <= a is at most a, however many groups
    there are. Equal values, or one group, give p = 1. A row of zeros has shares of 0.
    """
    n, count = len(values), int(groups.max()) + 1
    sizes = np.bincount(groups, minlength=count)
    total = values.sum()
    x = values / total if total > 0 else np.zeros(n)
    share = np.bincount(groups, weights=x, minlength=count)
    expected = sizes / n
    deviation = np.sqrt(sizes * (n - sizes) / max(n - 1, 1) * x.var())
    flat = deviation <= 1e-12
    scaled = np.where(flat, np.inf, deviation)
    z = np.where(flat, 0.0, (share - expected) / scaled)
    if flat.all():
        return Shares(share, expected, np.ones(count))
    edges = np.concatenate([[0], np.cumsum(sizes)[:-1]])  # a random order needs no more than the sizes
    rng, hits, drawn = np.random.default_rng(seed), np.zeros(count), 0
    while drawn < samples:
        rows = min(samples - drawn, max(1, _BLOCK // n))
        orders = rng.permuted(np.tile(x, (rows, 1)), axis=1)
        largest = ((np.add.reduceat(orders, edges, axis=1) - expected) / scaled).max(1)
        hits += (largest[:, None] >= z - 1e-9).sum(0)
        drawn += rows
    return Shares(share, expected, (1 + hits) / (1 + samples))
