"""What a reproduction found: panels of methods by columns beside the paper's numbers, and what became of its claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mixlens.measure.statistics import Summary, paired, summarise

Values = NDArray[np.float64]
Verdict = Literal["holds", "reversed", "undecided", "not comparable"]
Shape = Literal["heatmap", "grid", "lines"]
Method = tuple[str, str, Mapping[str, Any]]  # label, name, options: what `mixlens.evaluate` takes


@dataclass(frozen=True)
class Number:
    """A number that no mean over texts gives; `low` and `high` where an interval is known."""

    mean: float
    low: float = float("nan")
    high: float = float("nan")
    n: int = 0


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and what the numbers here say to it."""

    text: str
    verdict: Verdict
    evidence: str


@dataclass(frozen=True, eq=False)
class Panel:
    """Methods (rows) by columns (data sets, measures, layers).

    `values[row, column]`: (example,) of the same texts in a column, NaN where undefined, or a `Number`. `paper`: the
    published value of a cell. `better`: +1 where higher is better, -1 where lower is, 0 where neither.
    `shape`: how it is drawn: cells coloured column by column, cells on one scale ("grid"), or lines over the columns.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Mapping[tuple[str, str], Values | Number]
    paper: Mapping[tuple[str, str], float] = field(default_factory=dict)
    better: Mapping[str, int] = field(default_factory=dict)  # by column; +1 where nothing stands
    shape: Shape = "heatmap"
    level: float = 0.95
    resamples: int = 1000
    note: str = ""

    def summary(self, row: str, column: str) -> Summary | Number | None:
        """Mean, deviation and interval of a cell; None where nothing was measured."""
        value = self.values.get((row, column))
        if value is None or isinstance(value, Number):
            return value
        return summarise(value, level=self.level, resamples=self.resamples)

    def against(self, column: str, a: str, b: str) -> tuple[Verdict, str]:
        """Is `a` better than `b`, on the same texts? By the paired bootstrap's interval."""
        x, y = self.values.get((a, column)), self.values.get((b, column))
        if x is None or y is None:
            return "not comparable", f"{a if x is None else b} was not measured"
        sign = self.better.get(column, 1) or 1
        if isinstance(x, Number) or isinstance(y, Number):
            one, other = self.summary(a, column), self.summary(b, column)
            assert one is not None and other is not None
            return _apart(one, other, sign), f"{one.mean:.3f} against {other.mean:.3f}{_intervals(one, other)}"
        found = paired(x, y, level=self.level, resamples=self.resamples)
        evidence = f"{found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
        low, high = sorted((sign * found.low, sign * found.high))
        if not found.p < 1 - self.level:  # too few texts
            return "undecided", evidence
        return "holds" if low > 0 else "reversed" if high < 0 else "undecided", evidence

    def orderings(self) -> Iterator[tuple[str, str, str, Verdict, str]]:
        """Each pair that the paper's own numbers put in an order: column, the better, the worse, verdict, evidence."""
        for column in self.columns:
            sign = self.better.get(column, 1)
            for a, b in combinations(self.rows, 2):
                theirs = self.paper.get((a, column)), self.paper.get((b, column))
                if sign == 0 or theirs[0] is None or theirs[1] is None or theirs[0] == theirs[1]:
                    continue
                first, second = (a, b) if sign * (theirs[0] - theirs[1]) > 0 else (b, a)
                verdict, evidence = self.against(column, first, second)
                if verdict != "not comparable":
                    yield column, first, second, verdict, evidence

    def beats(self, text: str, column: str, best: str, others: Sequence[str] | None = None) -> Claim:
        """The claim that `best` is better than each of the others: holds if every pair does, reversed if any is."""
        rivals = [row for row in (others or self.rows) if row != best and (row, column) in self.values]
        found = {row: self.against(column, best, row) for row in rivals}
        verdicts = [verdict for verdict, _ in found.values()]
        order: tuple[Verdict, ...] = ("reversed", "undecided", "holds", "not comparable")
        verdict: Verdict = next((one for one in order if one in verdicts), "not comparable")
        if verdict == "holds":
            return Claim(text, verdict, "; ".join(f"{evidence} over {row}" for row, (_, evidence) in found.items()))
        against = [f"{row}: {v}, {evidence}" for row, (v, evidence) in found.items() if v != "holds"]
        return Claim(text, verdict, "; ".join(against))


def _apart(one: Summary | Number, other: Summary | Number, sign: int) -> Verdict:
    """Of numbers that are not means over the same texts: better or worse where their intervals are apart."""
    a, b = (one, other) if sign > 0 else (other, one)
    return "holds" if a.low > b.high else "reversed" if a.high < b.low else "undecided"  # without intervals: NaN


def _intervals(*numbers: Summary | Number) -> str:
    if any(n.low != n.low for n in numbers):
        return " (no interval)"
    return ", " + " and ".join(f"[{n.low:.3f}, {n.high:.3f}]" for n in numbers)


@dataclass(frozen=True, eq=False)
class Findings:
    """All of a reproduction. `pictures`: name -> what draws it (a function of a path), beside the panels' own."""

    panels: tuple[Panel, ...]
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    pictures: Mapping[str, Any] = field(default_factory=dict)
