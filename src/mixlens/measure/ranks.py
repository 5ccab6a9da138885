"""Do two vectors put the tokens in the same order? Correlations, and the ranks of special tokens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from mixlens.errors import UnknownOption
from mixlens.measure.case import Case

Vector = Float[np.ndarray, " token"]
_NAN = float("nan")
_FEW = 200  # tokens: comparing all pairs is faster than scipy, which also makes a p, up to here
_MARKS = ("##", "Ġ", "▁", "Ċ")  # how tokenizers write that a piece goes on or begins a word
_ROLES = {"comma": {",", "、", "\uff0c"}, "full_stop": {".", "。", "\uff0e"}}


def correlation(a: Vector, b: Vector) -> float:
    """Pearson's r; NaN for fewer than two tokens or a constant vector."""
    if constant(a) or constant(b):
        return _NAN
    x, y = _centred(a), _centred(b)
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def rank_correlation(a: Vector, b: Vector) -> float:
    """Spearman's rho, ties with their average rank (scipy's); NaN for fewer than two tokens or a constant vector."""
    return correlation(average_ranks(a), average_ranks(b))


def tau_b(a: Vector, b: Vector) -> float:
    """Kendall's tau-b; NaN for fewer than two tokens or a constant vector."""
    if constant(a) or constant(b):
        return _NAN
    if len(a) > _FEW:
        return float(stats.kendalltau(a, b, variant="b").statistic)
    x, y = _signs(a), _signs(b)
    return float(np.clip((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()), -1, 1))


def average_ranks(values: Vector) -> Vector:
    """1 for the lowest value, n for the highest, ties with their average rank; scipy's `rankdata`, but faster."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _signs(values: Vector) -> Float[np.ndarray, "token token"]:
    """1 where a token's value is above another's, -1 where below; differences could overflow."""
    return (values[:, None] > values).astype(np.float64) - (values[:, None] < values)


def constant(values: Vector) -> bool:
    """Whether there is no order: no two different values, exactly."""
    return len(values) < 2 or bool((values == values[0]).all())


def spearman(case: Case, *, special: bool = True) -> float:
    """Spearman's rho with the reference, -1 to 1; `special=False` leaves special tokens out. NaN: a constant vector."""
    return _with(rank_correlation, case, case.reference, special)


def kendall_tau(case: Case, *, special: bool = True) -> float:
    """Kendall's tau-b with the reference, -1 to 1. NaN: a constant vector."""
    return _with(tau_b, case, case.reference, special)


def pearson(case: Case, *, special: bool = True) -> float:
    """Pearson's r with the reference, -1 to 1. NaN: a constant vector."""
    return _with(correlation, case, case.reference, special)


def consistency(case: Case, *, special: bool = True) -> float:
    """Spearman's rho with the same method's scores in a second model (Ferrando 2022, Figure 7), -1 to 1.

    The texts should be those that both models label alike. NaN: a constant vector.
    """
    return _with(rank_correlation, case, case.second, special)


def special_rank(case: Case, *, of: str = "special") -> float:
    """Rank / n of a token, 1 for the highest score and 1/n for the lowest, ties with their average rank.

    `of`: "cls" (the first token, where it is special), "sep" (the other special ones), "special" (all), "comma",
    "full_stop", or a piece as it is written; the mean over all such tokens. NaN: the text has none. After
    Ferrando 2022, Figure 6.
    """
    chosen = _chosen(case, of)
    if not chosen.any():
        return _NAN
    return float((average_ranks(case.scores) / len(case.scores))[chosen].mean())


def _chosen(case: Case, of: str) -> Bool[np.ndarray, " token"]:
    if of == "special":
        return case.special
    first = np.arange(len(case.scores)) == 0
    if of in ("cls", "sep"):
        return case.special & (first if of == "cls" else ~first)
    if not isinstance(of, str) or not of:
        raise UnknownOption(f"of: expected cls, sep, special, comma, full_stop or a piece, got {of!r}")
    wanted = _ROLES.get(of, {of})
    return np.array([piece in wanted or _bare(piece) in wanted for piece in case.pieces], dtype=bool) & (
        ~case.special if of in _ROLES else True
    )


def _bare(piece: str) -> str:
    for mark in _MARKS:
        piece = piece.removeprefix(mark)
    return piece


def _with(function: Callable[[Vector, Vector], float], case: Case, other: Vector | None, special: bool) -> float:
    assert other is not None
    kept = np.ones(len(case.scores), dtype=bool) if special else ~case.special
    return function(case.scores[kept], other[kept])


def _centred(values: Vector) -> Vector:
    """The deviations from the mean, scaled to at most 1, so that their squares neither overflow nor vanish."""
    deviations = values - values.mean()
    largest = np.abs(deviations).max()
    return deviations / largest if largest else deviations
