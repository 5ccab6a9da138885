"""Does the explanation find what the answer is known to be from? Recovery, reciprocal rank, mass of the gold tokens.

Ranks of tied scores are those of a random order among them, in expectation: scores that say nothing reach what chance
does.
"""

from __future__ import annotations

from math import ceil, comb

import numpy as np
from jaxtyping import Bool, Float, Int

from mixlens.errors import UnknownOption
from mixlens.measure.case import Case

Vector = Float[np.ndarray, " token"]
Mask = Bool[np.ndarray, " token"]
_NAN = float("nan")
_EPS = 1e-9  # a share of a whole number of tokens is not rounded up for its rounding error


def recovery(
    case: Case, *, share: float = 0.1, by: str = "token", first: bool = True, special: bool = True, wrong: bool = False
) -> float:
    """The part of the gold tokens among the highest 10 % of the prompt's (`share`, rounded up), 0 to 1.

    Options as in `ranked`. NaN: no gold token, or a wrong answer. Raises UnknownOption.
    """
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise UnknownOption(f"share: expected a number above 0, at most 1, got {share!r}")
    scores, gold = ranked(case, by, first, special)
    if not gold.any() or (case.wrong and not wrong):
        return _NAN
    count = ceil(share * len(scores) - _EPS)
    least = np.sort(scores)[::-1][count - 1]
    above, tied = scores > least, scores == least
    chance = (count - above.sum()) / tied.sum()  # of the tied ones, which are in
    return float(((gold & above).sum() + chance * (gold & tied).sum()) / gold.sum())


def mrr(case: Case, *, by: str = "token", first: bool = True, special: bool = True, wrong: bool = False) -> float:
    """1 / rank of the highest gold token among the prompt's, above 0 to 1.

    Options as in `ranked`. NaN: no gold token, or a wrong answer. Raises UnknownOption.
    """
    scores, gold = ranked(case, by, first, special)
    if not gold.any() or (case.wrong and not wrong):
        return _NAN
    best = scores[gold].max()
    above, tied, good = int((scores > best).sum()), int((scores == best).sum()), int((gold & (scores == best)).sum())
    # the first of `good` among `tied` in a random order is the r-th in C(tied - r, good - 1) of C(tied, good) ways
    ways = (comb(tied - r, good - 1) / comb(tied, good) / (above + r) for r in range(1, tied - good + 2))
    return min(1.0, float(sum(ways)))


def gold_mass(case: Case, *, first: bool = True, special: bool = True, wrong: bool = False) -> float:
    """The positive scores on gold tokens over all positive scores of the prompt, 0 to 1.

    Options as in `ranked`. NaN: no gold token, no positive score, or a wrong answer.
    """
    scores, gold = ranked(case, "token", first, special)
    if not gold.any() or (case.wrong and not wrong):
        return _NAN
    largest = scores.max()
    if not largest > 0:
        return _NAN
    held = np.maximum(scores / largest, 0)  # a sum of the smallest or largest numbers neither vanishes nor overflows
    return float(held[gold].sum() / held.sum())


def ranked(case: Case, by: str = "token", first: bool = True, special: bool = True) -> tuple[Vector, Mask]:
    """What is put in order, and which of it is gold: tokens, or units by the sum of their tokens' scores.

    `first=False`, `special=False`: without the first token, where many heads look when they have nothing to say, or
    without those that the tokenizer and a chat's template put in. Raises UnknownOption.
    """
    assert case.gold is not None
    kept = np.ones(len(case.scores), dtype=bool)
    kept[:1] &= first
    kept &= special | ~case.special
    if by == "token":
        return case.scores[kept], case.gold[kept]
    if by != "unit":
        raise UnknownOption(f"by: expected token or unit, got {by!r}")
    units = np.where(kept, units_of(case), -1)
    numbers = np.unique(units[units >= 0])
    return totals(case.scores, units, numbers), np.array(
        [bool(case.gold[units == k].any()) for k in numbers], dtype=bool
    )


def units_of(case: Case) -> Int[np.ndarray, " token"]:
    """The unit of each token; where the case names none, each is one."""
    return np.arange(len(case.scores)) if case.units is None else case.units


def totals(
    scores: Vector, units: Int[np.ndarray, " token"], numbers: Int[np.ndarray, " unit"]
) -> Float[np.ndarray, " unit"]:
    """The sum of the scores of each of these units."""
    return np.array([scores[units == k].sum() for k in numbers], dtype=np.float64)
