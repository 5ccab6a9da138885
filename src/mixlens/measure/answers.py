"""What is left of a whole answer without parts of its prompt: RISE, MAS, the top k units, ContextCite's LDS.

Sources: RISE and MAS as FlashTrace's authors measure them (Pan 2026); LDS and the top-k drop, Cohen-Wang 2024
(ContextCite). All read `Case.curve`: ln p of the answer, of the untouched text first.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from mixlens.errors import InputError, UnknownOption
from mixlens.measure.case import Case
from mixlens.measure.perturb import Levels, counts, order
from mixlens.measure.ranks import rank_correlation
from mixlens.measure.sources import totals, units_of

Vector = Float[np.ndarray, " level"]
STEPS = tuple(k / 20 for k in range(1, 21))
_NAN = float("nan")


def rise(case: Case) -> float:
    """Area under the answer's curve as the highest tokens go, 0 to 1; the lower the better the order.

    (s_t - s_K) / |s_0 - s_K|, clipped to 0 to 1, never rising; trapezoids. NaN: nothing is removable, the answer cannot
    be read without all of it, or is as likely without.
    """
    curve = _falling(case)
    return _NAN if curve is None else _area(curve)


def mas(case: Case, *, levels: Levels = STEPS) -> float:
    """RISE with a penalty where the curve and what is left of the scores differ, 0 to 1; the lower the better.

    To each level |curve - share of the positive scores that is still there| is added; the sum is clipped to 0 to 1
    where the untouched text is 1 and the last level 0. NaN as `rise`, and where no removable token scores above 0.
    """
    curve = _falling(case)
    if curve is None:
        return _NAN
    ranked = [int(i) for i in order(case.scores) if case.removable[i]]
    positive = np.maximum(case.scores[ranked], 0)
    if not positive.any():
        return _NAN
    positive = positive / positive.max()
    taken = (0, *counts(len(ranked), levels))
    if len(taken) != len(curve):
        raise InputError(f"expected a curve of {len(taken)} points, one more than there are levels, got {len(curve)}")
    remaining = 1 - np.array([positive[:count].sum() for count in taken]) / positive.sum()
    penalised = curve + np.abs(curve - remaining)
    low, high = penalised[-1], penalised[0]
    return _NAN if high <= low else _area(np.clip((penalised - low) / (high - low), 0, 1))


def _falling(case: Case) -> Vector | None:
    """The curve as RISE has it; None where it means nothing."""
    assert case.curve is not None
    s = case.curve
    if len(s) < 2 or np.isnan(s).any() or s[0] == s[-1]:
        return None
    with np.errstate(over="ignore"):
        shares = (s - s[-1]) / abs(s[0] - s[-1])
    return np.minimum.accumulate(np.clip(shares, 0, 1))


def _area(curve: Vector) -> float:
    return float(((curve[1:] + curve[:-1]) / 2).mean())


# --- units ---


def top_k_drop(case: Case, *, k: int = 3) -> float:
    """ln p of the answer less ln p without the k units that score highest; NaN where no unit is removable."""
    assert case.curve is not None
    return float(case.curve[0] - case.curve[1]) if len(case.curve) > 1 else _NAN


def top_units(case: Case, *, k: int = 3) -> list[tuple[int, ...]]:
    """The tokens of the k units with the highest sums of scores, ties in reading order. Raises UnknownOption."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise UnknownOption(f"k: expected a whole number from 1, got {k!r}")
    units, numbers = _removable(case)
    if not len(numbers):
        return []
    chosen = numbers[order(totals(case.scores, units, numbers))[:k]]
    return [tuple(int(i) for i in np.flatnonzero(np.isin(units, chosen)))]


def lds(case: Case, *, ablations: int = 32, seed: int = 0) -> float:
    """Spearman's rho of what random ablations leave of the answer and what the scores say they would, -1 to 1.

    Each unit is kept with probability 1/2; the scores say the sum over the units kept, the model ln p / (1 - p) of the
    answer. NaN: fewer than two units, scores that are all the same, ablations that change nothing.
    """
    assert case.curve is not None
    units, numbers = _removable(case)
    if len(numbers) < 2:
        return _NAN
    kept = _draws(len(numbers), ablations, seed)
    if len(case.curve) != 1 + len(kept):
        raise InputError(f"expected a curve of {1 + len(kept)} points, one more than ablations, got {len(case.curve)}")
    sums = totals(case.scores, units, numbers)
    sums = sums / max(np.abs(sums).max(), np.finfo(np.float64).tiny)
    predicted, actual = kept @ sums, _log_odds(case.curve[1:])
    there = ~np.isnan(actual)
    return rank_correlation(np.round(predicted[there], 12), actual[there])  # sums that differ by rounding are one


def random_units(case: Case, *, ablations: int = 32, seed: int = 0) -> list[tuple[int, ...]]:
    """The tokens of the units that each ablation takes out: the same whatever the scores. Raises UnknownOption."""
    if isinstance(ablations, bool) or not isinstance(ablations, int) or ablations < 2:
        raise UnknownOption(f"ablations: expected a whole number from 2, got {ablations!r}")
    units, numbers = _removable(case)
    if len(numbers) < 2:
        return []
    gone = ~_draws(len(numbers), ablations, seed)
    return [tuple(int(i) for i in np.flatnonzero(np.isin(units, numbers[row]))) for row in gone]


def _removable(case: Case) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " unit"]]:
    """The unit of each token that may go, -1 elsewhere; and their numbers."""
    units = np.where(case.removable, units_of(case), -1)
    return units, np.unique(units[units >= 0])


def _draws(units: int, ablations: int, seed: int) -> Bool[np.ndarray, "ablation unit"]:
    return np.random.default_rng([seed, units]).random((ablations, units)) < 0.5


def _log_odds(log_p: Vector) -> Vector:
    """ln p / (1 - p) of ln p."""
    with np.errstate(divide="ignore"):
        return log_p - np.log(-np.expm1(np.minimum(log_p, -1e-15)))
