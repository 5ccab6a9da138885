"""p values of differences between two methods, and what is left of them when many are looked at together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from statistics import NormalDist

import numpy as np
from jaxtyping import Float

from mixlens.errors import UnknownOption

_EXACT = 16  # texts: 2^16 = 65,536 choices of signs
_BLOCK = 4_000_000  # signs at a time: 32 MB


def sign_flip(
    differences: Float[np.ndarray, "example comparison"], *, samples: int = 100_000, seed: int = 0
) -> Float[np.ndarray, " comparison"]:
    """Two-sided permutation p of each column, as if the two methods might have been swapped in any text.

    The share of choices of signs whose sum is at least as far from 0 as the real one: all 2^n choices for up to 16
    texts, else (1 + hits) / (samples + 1) of `samples` random ones. NaN: undefined in that text, left out; a column
    without a number gives NaN. Raises UnknownOption.
    """
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise UnknownOption(f"samples: expected a whole number of at least 1, got {samples!r}")
    values = np.nan_to_num(differences, nan=0.0)
    reached = np.abs(values.sum(0)) - 1e-12 * np.abs(values).sum(0)  # the same sum in another order is the same sum
    n, hits, drawn = len(values), np.zeros(values.shape[1]), 0
    for signs in _signs(n, samples, seed):
        hits += (np.abs(signs @ values) >= reached).sum(0)
        drawn += len(signs)
    p = hits / drawn if n <= _EXACT else (1 + hits) / (drawn + 1)
    p[np.isnan(differences).all(0)] = np.nan
    return p


def _signs(n: int, samples: int, seed: int) -> Iterator[Float[np.ndarray, "choice example"]]:
    if n <= _EXACT:
        yield np.array(list(product((1.0, -1.0), repeat=n))).reshape(2**n, n)
        return
    rng = np.random.default_rng((seed, n))
    size = max(1, _BLOCK // n)
    for start in range(0, samples, size):
        rows = min(size, samples - start)
        bits = np.unpackbits(np.frombuffer(rng.bytes(rows * n // 8 + 1), np.uint8), count=rows * n)
        yield 1.0 - 2.0 * bits.reshape(rows, n)


def sign_floor(n: int) -> float:
    """The smallest p that `sign_flip` could give on n texts: 2 / 2^n; 1 for none."""
    return min(1.0, 2.0 ** (1 - n))


def interval_p(difference: float, low: float, high: float, *, level: float = 0.95, rounding: float = 0.0) -> float:
    """Two-sided p that a number is 0, from its interval alone, as of a normal distribution: 2 Phi(-|z|).

    `rounding`: how far each of the three may be off; the number is taken nearer to 0 and the interval wider by it, so
    p is never too small for it. NaN where there is no interval.
    """
    if math.isnan(low) or math.isnan(high) or math.isnan(difference):
        return math.nan
    error = (high - low + 2 * rounding) / (2 * NormalDist().inv_cdf((1 + level) / 2))
    distance = max(0.0, abs(difference) - rounding)
    if error == 0:
        return 0.0 if distance else 1.0
    return math.erfc(distance / error / math.sqrt(2))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p values: each is at most alpha where Holm's step-down test at alpha rejects it.

    The k-th smallest of m is the largest of (m - i + 1) p_(i) over i <= k, at most 1. NaN is no test, and stays.
    """
    tests = sorted((value, at) for at, value in enumerate(p) if not math.isnan(value))
    out, largest = list(p), 0.0
    for rank, (value, at) in enumerate(tests):
        largest = max(largest, min(1.0, (len(tests) - rank) * value))
        out[at] = largest
    return out
