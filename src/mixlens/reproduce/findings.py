"""What a reproduction found: panels of methods by columns beside the paper's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mixlens.evaluation import Row
from mixlens.measure.statistics import Summary, summarise

Values = NDArray[np.float64]
Shape = Literal["heatmap", "grid", "lines", "text"]
Method = tuple[str, str, Mapping[str, Any]]  # label, name, options: what `mixlens.evaluate` takes


@dataclass(frozen=True)
class Number:
    """A number that no mean over texts gives; `low` and `high` where an interval is known.

    `p`: two-sided, that it is 0, where a test of its own says so, and `floor`, the smallest that test could give.
    """

    mean: float
    low: float = float("nan")
    high: float = float("nan")
    n: int = 0
    p: float = float("nan")
    floor: float = 0.0
    std: float = float("nan")


def number_of(row: Row) -> Number:
    """A line of an evaluation's table as the number it is: what many texts together say."""
    mean, low, high = (math.nan if value is None else value for value in (row.mean, row.low, row.high))
    return Number(mean, low, high, row.n)


@dataclass(frozen=True, eq=False)
class Panel:
    """Methods (rows) by columns (data sets, measures, layers).

    `values[row, column]`: (example,) of the same texts in a column, NaN where undefined, or a `Number`. `paper`: the
    published value of a cell. `better`: +1 where higher is better, -1 where lower is, 0 where neither. `kind`: which of
    `claims.MATTERS` says what difference matters, of all columns or by column.
    `shape`: how it is drawn: cells coloured column by column, cells on one scale ("grid"), or lines over the columns,
    or a text's scores, each row by its own largest ("text").
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Mapping[tuple[str, str], Values | Number]
    paper: Mapping[tuple[str, str], float] = field(default_factory=dict)
    better: Mapping[str, int] = field(default_factory=dict)  # by column; +1 where nothing stands
    kind: str | Mapping[str, str] = "rank correlation"
    shape: Shape = "heatmap"
    level: float = 0.95
    resamples: int = 1000
    note: str = ""
    # (column, a, b) -> a - b of the same texts with its interval, where the texts' own numbers are no longer there;
    # `rounding`: how far such numbers, and those of the cells, may be off
    differences: Mapping[tuple[str, str, str], Number] = field(default_factory=dict)
    rounding: tuple[float, float] = (0.0, 0.0)

    def summary(self, row: str, column: str) -> Summary | Number | None:
        """Mean, deviation and interval of a cell; None where nothing was measured."""
        value = self.values.get((row, column))
        if value is None or isinstance(value, Number):
            return value
        return summarise(value, level=self.level, resamples=self.resamples)

    def sign(self, column: str) -> int:
        """+1 where more is what a claim of "better" means, -1 where less is."""
        return self.better.get(column, 1) or 1

    def kind_of(self, column: str) -> str:
        """The kind of a column's numbers."""
        return self.kind if isinstance(self.kind, str) else self.kind[column]

    def orderings(self) -> Iterator[tuple[str, str, str]]:
        """Each pair that the paper's own numbers put in an order and that was measured: column, better, worse."""
        for column in self.columns:
            sign = self.better.get(column, 1)
            for a, b in combinations(self.rows, 2):
                theirs = self.paper.get((a, column)), self.paper.get((b, column))
                if sign == 0 or theirs[0] is None or theirs[1] is None or theirs[0] == theirs[1]:
                    continue
                if (a, column) in self.values and (b, column) in self.values:
                    yield (column, a, b) if sign * (theirs[0] - theirs[1]) > 0 else (column, b, a)


@dataclass(frozen=True, eq=False)
class Findings:
    """What a run measured. `pictures`: name -> what draws it (a function of a path), beside the panels' own."""

    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    pictures: Mapping[str, Any] = field(default_factory=dict)
    texts: Sequence[str] = ()  # the single texts that were explained, where it is about them
