"""What may be said of many texts' values: intervals, comparisons and rankings by bootstrap, exact permutation tests.

Everything is seeded and draws the same texts for the same number of values: two methods meet the same resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import factorial

import numpy as np
from jaxtyping import Float

from mixlens.errors import InputError, Undefined, UnknownOption
from mixlens.measure.ranks import average_ranks
from mixlens.measure.significance import holm

Values = Float[np.ndarray, " example"]
Others = Float[np.ndarray, " other"]  # as many, which is checked with an error of its own
_NAN = float("nan")
_CACHED = 4_000_000  # draws: 32 MB
_EXACT = 8  # values: 8! = 40,320 orders


@dataclass(frozen=True)
class Summary:
    """`n` defined values, `n_undefined` NaNs; the mean of the former, their population deviation, the mean's interval.

    All NaN where n is 0.
    """

    n: int
    n_undefined: int
    mean: float
    std: float
    low: float
    high: float


@dataclass(frozen=True)
class Paired:
    """Mean of a - b over the n texts that both are defined on, its interval, and its two-sided bootstrap p."""

    n: int
    difference: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Correlation:
    """A correlation over few values and its two-sided permutation p; `exact`: of all orders, not of a sample."""

    n: int
    value: float
    p: float
    exact: bool


@dataclass(frozen=True)
class Ranking:
    """Methods from best to worst; `groups`: largest runs of neighbours none distinguishable from another.

    A method stands in one group at least, alone if need be. `pairs`: (better, worse) by mean -> their comparison.
    """

    names: tuple[str, ...]
    means: tuple[float, ...]
    groups: tuple[tuple[str, ...], ...]
    pairs: Mapping[tuple[str, str], Paired]


def weights(n: int, resamples: int = 1000, seed: int = 0) -> Iterator[Float[np.ndarray, "draw example"]]:
    """Bootstrap draws in blocks: how often each of n texts was drawn. Raises UnknownOption."""
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 1:
        raise UnknownOption(f"resamples: expected a whole number of at least 1, got {resamples!r}")
    if n * resamples <= _CACHED:
        yield _drawn(n, resamples, seed)
        return
    rng = np.random.default_rng((seed, n))
    size = max(1, _CACHED // n)
    for start in range(0, resamples, size):
        yield _counts(rng, n, min(size, resamples - start))


@lru_cache(maxsize=4)
def _drawn(n: int, resamples: int, seed: int) -> Float[np.ndarray, "draw example"]:
    drawn = _counts(np.random.default_rng((seed, n)), n, resamples)
    drawn.flags.writeable = False
    return drawn


def _counts(rng: np.random.Generator, n: int, rows: int) -> Float[np.ndarray, "draw example"]:
    places = rng.integers(n, size=(rows, n)) + np.arange(rows)[:, None] * n
    return np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def resampled(
    function: Callable[[Values], float], n: int, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of a function of the draws' weights, (example,): for what is no mean over texts.

    NaN for no text; a draw for which the function is NaN is left out. Raises UnknownOption.
    """
    draws = (function(draw) for block in weights(n, resamples, seed) for draw in block) if n else ()
    return interval(np.array(list(draws)), level)


def interval(draws: Float[np.ndarray, " draw"], level: float = 0.95) -> tuple[float, float]:
    """The middle share `level` of what was drawn, NaN left out; NaN for nothing. Raises UnknownOption."""
    tails = _tails(level)
    defined = draws[~np.isnan(draws)]
    low, high = np.quantile(defined, tails) if len(defined) else (_NAN, _NAN)
    return float(low), float(high)


def summarise(values: Values, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> Summary:
    """Mean, deviation and percentile bootstrap interval of one method's values; NaN = undefined. Raises UnknownOption.

    The sum over texts does not depend on the order of values beyond rounding; the interval does, through the draws.
    """
    tails = _tails(level)
    defined = values[~np.isnan(values)]
    n = len(defined)
    if n == 0:
        return Summary(0, len(values), _NAN, _NAN, _NAN, _NAN)
    low, high = np.quantile(_means(defined, resamples, seed), tails)
    return Summary(n, len(values) - n, float(defined.mean()), float(defined.std()), float(low), float(high))


def paired(a: Values, b: Others, *, level: float = 0.95, resamples: int = 1000, seed: int = 0) -> Paired:
    """Compares two methods' values on the same texts, in the same order, by bootstrap over texts.

    p: see `two_sided`. Raises InputError, UnknownOption.
    """
    if len(a) != len(b):
        raise InputError(f"expected values of the same texts, got {len(a)} and {len(b)}")
    tails = _tails(level)
    difference = (a - b)[~(np.isnan(a) | np.isnan(b))]
    n = len(difference)
    if n == 0:
        return Paired(0, _NAN, _NAN, _NAN, _NAN)
    means = _means(difference, resamples, seed)
    low, high = np.quantile(means, tails)
    return Paired(n, float(difference.mean()), float(low), float(high), two_sided(means, n))


def two_sided(draws: Float[np.ndarray, " draw"], n: int) -> float:
    """p that what was drawn is 0: 2 (1 + the fewer of the draws at or beyond 0 on either side) / (draws + 1).

    At most 1, and never below what a sign test could reach on n texts, 2 / 2^n.
    """
    beyond = min((draws <= 0).sum(), (draws >= 0).sum())
    return min(1.0, max(2 * (1 + int(beyond)) / (len(draws) + 1), 2.0 ** (1 - n)))


def permutation(
    x: Values,
    y: Others,
    *,
    statistic: str = "pearson",
    samples: int = 100_000,
    seed: int = 0,
) -> Correlation:
    """Correlation of two short series (layers), with the share of orders of y that correlate at least as strongly.

    Exact for up to 8 pairs, from `samples` random orders above. Pairs with a NaN are left out; NaN for fewer than two
    pairs or a constant series. With 6 layers no p is below 1/720, and nothing more should be claimed. Raises
    InputError, UnknownOption.
    """
    if statistic not in ("pearson", "spearman"):
        raise UnknownOption(f"statistic: expected pearson or spearman, got {statistic!r}")
    if len(x) != len(y):
        raise InputError(f"expected two series of the same length, got {len(x)} and {len(y)}")
    defined = ~(np.isnan(x) | np.isnan(y))
    x, y = x[defined], y[defined]
    n = len(x)
    if n < 2 or (x == x[0]).all() or (y == y[0]).all():
        return Correlation(n, _NAN, _NAN, n <= _EXACT)
    if statistic == "spearman":
        x, y = average_ranks(x), average_ranks(y)
    x, y = (v / np.abs(v).max() for v in (x - x.mean(), y - y.mean()))
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    value = float(np.clip(x @ y, -1, 1))
    reached = abs(value) - 1e-12  # the same order summed in another way is the same order
    if n <= _EXACT:
        hits = int((np.abs(y[_orders(n)] @ x) >= reached).sum())
        return Correlation(n, value, hits / factorial(n), True)
    drawn = np.random.default_rng((seed, n)).permuted(np.tile(y, (samples, 1)), axis=1)
    hits = int((np.abs(drawn @ x) >= reached).sum())
    return Correlation(n, value, (1 + hits) / (samples + 1), False)


@lru_cache(maxsize=_EXACT)
def _orders(n: int) -> np.ndarray:
    return np.array(list(permutations(range(n))))


def ranking(
    values: Mapping[str, Values],
    higher_is_better: bool | None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    correction: str = "none",
) -> Ranking:
    """Orders methods by mean and says which are distinguishable: a paired bootstrap's p is at most 1 - level.

    Means are over the texts that a method is defined on, pairs over those that both are: where these two disagree about
    a pair's order, it is indistinguishable.

    `correction="holm"` holds the level over all pairs together; it needs more resamples. A method without a defined
    value comes last and is distinguishable from none. Raises InputError, UnknownOption, Undefined (no direction,
    or too few resamples for Holm).
    """
    _tails(level)
    if higher_is_better is None:
        raise Undefined("this measure has no direction: no method is better than another")
    if correction not in ("none", "holm"):
        raise UnknownOption(f"correction: expected none or holm, got {correction!r}")
    mean = {name: summarise(v, level=level, resamples=1, seed=seed).mean for name, v in values.items()}
    sign = -1 if higher_is_better else 1
    names = sorted(values, key=lambda name: (np.isnan(mean[name]), sign * mean[name]))
    pairs = {
        (a, b): paired(values[a], values[b], level=level, resamples=resamples, seed=seed)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
    }
    alpha = 1 - level
    if correction == "holm" and pairs and 2 * len(pairs) > alpha * (resamples + 1):
        needed = int(np.ceil(2 * len(pairs) / alpha))
        raise Undefined(
            f"Holm's correction of {len(pairs)} pairs at {level:g} needs resamples={needed}, got {resamples}"
        )
    p = [test.p for test in pairs.values()]
    limit = alpha * (1 + 1e-12)
    apart = {
        pair
        for (pair, test), held in zip(pairs.items(), holm(p) if correction == "holm" else p, strict=True)
        if held <= limit and sign * test.difference < 0
    }
    return Ranking(tuple(names), tuple(mean[name] for name in names), tuple(_runs(names, apart)), pairs)


def _runs(names: list[str], apart: set[tuple[str, str]]) -> Iterator[tuple[str, ...]]:
    """Largest runs of neighbours in which no pair is distinguishable."""
    reached = 0
    for start in range(len(names)):
        end = start + 1
        while end < len(names) and not any((a, names[end]) in apart for a in names[start:end]):
            end += 1
        if end > reached:
            yield tuple(names[start:end])
            reached = end


def _tails(level: float) -> tuple[float, float]:
    if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0 < level < 1:
        raise UnknownOption(f"level: expected a share between 0 and 1, got {level!r}")
    return (1 - level) / 2, (1 + level) / 2


def _means(values: Values, resamples: int, seed: int) -> Float[np.ndarray, " draw"]:
    """The mean of each draw; of equal values exactly that value."""
    first = values[0]
    return first + np.concatenate([block @ (values - first) for block in weights(len(values), resamples, seed)]) / len(
        values
    )
