"""What becomes of claims: each pair measured on the same texts, each claim tested, all of a page's together.

A claim of several pairs holds only if all of them do, so its p is the largest of theirs; it is reversed if one pair is,
so its p is then the smallest times their number. Both at one two-sided level, then Holm's correction over the claims.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mixlens.measure.significance import holm, interval_p, sign_flip, sign_floor
from mixlens.measure.statistics import paired
from mixlens.reproduce.claims import Claim, Pair, least
from mixlens.reproduce.findings import Number, Panel, Values

ALPHA = 0.05
Verdict = Literal[
    "holds", "holds, but small", "reversed", "reversed, but small", "undecided", "too few", "not measured"
]
# Where a p is from: the texts' own numbers; a test that the number came with; the interval of the paired difference, or
# of a number by itself; the intervals of both methods, as if they were as wrong as can be in opposite directions.
Source = Literal["texts", "test", "interval", "two intervals", "none"]
NAN = math.nan


@dataclass(frozen=True)
class Measured:
    """A pair in numbers: better less worse with its interval; `toward` is above 0 where that speaks for the claim."""

    pair: Pair
    difference: float
    low: float
    high: float
    toward: float
    n: int
    p: float
    floor: float
    source: Source

    @property
    def small(self) -> bool:
        """Whether it is less than what matters."""
        return abs(self.difference) < self.pair.least


@dataclass(frozen=True)
class Tested:
    """A claim and its pairs in numbers."""

    text: str
    pairs: tuple[Measured, ...]
    alike: bool = False

    @property
    def against(self) -> list[Measured]:
        """The pairs that speak against it."""
        return [pair for pair in self.pairs if pair.toward < 0]

    @property
    def p(self) -> float:
        """Two-sided, before any correction for other claims; NaN where no pair has one."""
        known = [pair.p for pair in self.pairs if not math.isnan(pair.p)]
        if not known or len(known) < len(self.pairs):
            return NAN
        worst = [pair.p for pair in self.against]
        return min(1.0, len(known) * min(worst)) if worst else max(known)


@dataclass(frozen=True)
class Judged:
    """A claim's verdict; `p` is Holm's, `decisive` the pair that it hangs on (None where nothing was measured)."""

    tested: Tested
    verdict: Verdict
    p: float
    decisive: Measured | None


def measure(claims: Sequence[Claim], panels: Sequence[Panel]) -> list[Tested]:
    """Every claim's pairs in numbers. p by sign flips where there are texts, else from what intervals there are."""
    by_title = {panel.title: panel for panel in panels}
    every = [(pair, claim.alike) for claim in claims for pair in claim.pairs]
    measured = iter(measure_pairs(every, by_title))
    return [Tested(claim.text, tuple(next(measured) for _ in claim.pairs), claim.alike) for claim in claims]


def measure_pairs(pairs: Sequence[tuple[Pair, bool]], panels: Mapping[str, Panel]) -> list[Measured]:
    """(pair, alike) in numbers, in order; pairs over as many texts are tested together, which draws signs once."""
    out: dict[int, Measured] = {}
    texts: dict[int, list[tuple[int, Values]]] = {}  # number of texts -> (place, values toward the claim)
    for at, (pair, alike) in enumerate(pairs):
        panel = panels[pair.panel]
        x, y = panel.values[pair.better, pair.column], _worse(panel, pair)
        if isinstance(x, Number) or isinstance(y, Number):
            out[at] = _of_numbers(panel, pair, alike)
            continue
        out[at], toward = _of_texts(panel, pair, alike, x, y)
        texts.setdefault(len(toward), []).append((at, toward))
    for group in texts.values():
        for (at, _), p in zip(group, sign_flip(np.stack([values for _, values in group], 1)), strict=True):
            out[at] = _with_p(out[at], float(p))
    return [out[at] for at in range(len(pairs))]


def judge(tested: Sequence[Tested], alpha: float = ALPHA) -> list[Judged]:
    """The verdicts of claims that stand on one page, at `alpha` for all of them together."""
    return [_judged(claim, p, alpha) for claim, p in zip(tested, holm([claim.p for claim in tested]), strict=True)]


def _judged(claim: Tested, p: float, alpha: float) -> Judged:
    if math.isnan(p):
        return Judged(claim, "not measured", p, None)
    nearest = min(claim.pairs, key=lambda pair: pair.toward)
    if max(pair.floor for pair in claim.pairs) > alpha:
        return Judged(claim, "too few", p, nearest)
    if p > alpha:
        return Judged(claim, "undecided", p, nearest)
    if not claim.against:
        small = not claim.alike and any(pair.small for pair in claim.pairs)
        return Judged(claim, "holds, but small" if small else "holds", p, nearest)
    sure = [pair for pair in claim.against if len(claim.pairs) * pair.p <= alpha]
    decisive = min(sure, key=lambda pair: pair.toward)
    small = not claim.alike and decisive.small
    return Judged(claim, "reversed, but small" if small else "reversed", p, decisive)


def _worse(panel: Panel, pair: Pair) -> Values | Number:
    return Number(0.0, 0.0, 0.0) if pair.worse is None else panel.values[pair.worse, pair.column]


def _of_texts(panel: Panel, pair: Pair, alike: bool, x: Values, y: Values) -> tuple[Measured, Values]:
    test = paired(x, y, level=panel.level, resamples=panel.resamples)
    if alike:  # how far what matters is from the difference
        toward = pair.least - math.copysign(1, test.difference) * (x - y)
    else:
        toward = (pair.sign or panel.sign(pair.column)) * (x - y)
    mean = float(np.nanmean(toward)) if test.n else NAN
    made = Measured(pair, test.difference, test.low, test.high, mean, test.n, NAN, sign_floor(test.n), "texts")
    return made, toward


def _of_numbers(panel: Panel, pair: Pair, alike: bool) -> Measured:
    """From a number's own test, the interval of the paired difference, or both intervals, whichever there is first."""
    first = _number(panel, pair.better, pair.column)
    other = Number(0.0, 0.0, 0.0, first.n) if pair.worse is None else _number(panel, pair.worse, pair.column)
    printed = panel.differences.get((pair.column, pair.better, pair.worse or ""))
    source: Source
    if pair.worse is None and not math.isnan(first.p):
        source, number = "test", first
    elif printed is not None:
        source, number = "interval", printed
    else:
        half, gap = (first.high - first.low + other.high - other.low) / 2, first.mean - other.mean
        source = "interval" if pair.worse is None else "two intervals"
        number = Number(gap, gap - half, gap + half, min(first.n, other.n))
    sign = pair.sign or panel.sign(pair.column)
    toward = pair.least - abs(number.mean) if alike else sign * number.mean
    half = (number.high - number.low) / 2
    rounding = panel.rounding[0] * {"test": 1, "interval": 1, "two intervals": 2}[source]
    if printed is not None:
        rounding = panel.rounding[1]
    p = number.p if source == "test" else _interval_p(panel, toward, half, rounding)
    if math.isnan(p):
        source = "none"
    return Measured(pair, number.mean, number.low, number.high, toward, number.n, p, number.floor, source)


def _number(panel: Panel, row: str, column: str) -> Number:
    summary = panel.summary(row, column)
    if isinstance(summary, Number):
        return summary
    assert summary is not None
    return Number(summary.mean, summary.low, summary.high, summary.n)


def _interval_p(panel: Panel, toward: float, half: float, rounding: float) -> float:
    return interval_p(toward, toward - half, toward + half, level=panel.level, rounding=rounding)


def _with_p(pair: Measured, p: float) -> Measured:
    return replace(pair, p=p)


def tally(panel: Panel) -> list[Measured]:
    """The pairs that the paper's numbers put in an order, in numbers."""
    pairs = [Pair(panel.title, c, a, b, least(panel, c)) for c, a, b in panel.orderings()]
    return measure_pairs([(pair, False) for pair in pairs], {panel.title: panel})
