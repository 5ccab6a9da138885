"""The papers' claims as data: which methods, by which measure, in which direction, and what difference matters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mixlens.reproduce.findings import Panel


@dataclass(frozen=True)
class Matter:
    """The smallest difference of two methods' means that is worth a sentence, and why that one."""

    least: float
    why: str


# By kind of number. A claim that says more ("considerably", "markedly", "by a large margin") takes `STRONG` times it,
# one that says "slightly" any difference at all.
MATTERS = {
    "rank correlation": Matter(0.05, "of 20 tokens in order one is moved by eight places (rho falls by 0.05)"),
    "probability": Matter(0.01, "one point in a hundred of the answer's probability"),
    "log odds": Matter(0.05, "the answer's probability times 1.05"),
    "share of the scores": Matter(0.05, "half of what a token of a sentence of ten has if all have the same"),
    "average precision": Matter(0.05, "in one text of ten the cue falls from the first place to the second"),
    "tokens": Matter(0.1, "one token more in one text of ten"),
    "rank": Matter(0.05, "one place of twenty"),
    "cosine": Matter(0.05, "a twentieth of the distance from unrelated vectors to the same"),
    "bits": Matter(0.01, "a hundredth of what a label costs that is not known at all"),
    "correlation of a few": Matter(0.5, "r = 0.5: a quarter of the variance; the papers call these large"),
    "score": Matter(0.1, "a tenth of the largest score"),
}
STRONG, SLIGHT = 2, 0


@dataclass(frozen=True)
class Pair:
    """`better` against `worse` in a column of the panel of this title; against 0 where there is no `worse`.

    `sign`: +1 where more is meant, -1 where less is; 0: what the column's better end is.
    """

    panel: str
    column: str
    better: str
    worse: str | None
    least: float
    sign: int = 0


@dataclass(frozen=True)
class Claim:
    """A statement of the paper: every pair is as it says.

    That `better` is the better of the two, or, if `alike`, that the two are no further apart than what matters.
    """

    text: str
    pairs: tuple[Pair, ...]
    alike: bool = False


def beats(
    panel: Panel, text: str, column: str, best: str, others: Iterable[str] | None = None, times: float = 1
) -> Claim:
    """`best` is better than each of the others (all rows, if none are named) that were measured."""
    return Claim(text, pairs(panel, [column], best, others, times))


def pairs(
    panel: Panel, columns: Sequence[str], best: str, others: Iterable[str] | None = None, times: float = 1
) -> tuple[Pair, ...]:
    """`best` against each of the others, in each of the columns, as far as they were measured."""
    rivals = [row for row in (panel.rows if others is None else others) if row != best]
    there = panel.values
    return tuple(
        Pair(panel.title, column, best, row, least(panel, column, times))
        for column in columns
        for row in rivals
        if (best, column) in there and (row, column) in there
    )


def nonzero(panel: Panel, text: str, column: str, row: str, sign: int = 1) -> Claim:
    """A number by itself is above 0 (`sign` -1: below)."""
    pair = Pair(panel.title, column, row, None, least(panel, column), sign)
    return Claim(text, (pair,) if (row, column) in panel.values else ())


def near_zero(panel: Panel, text: str, column: str, row: str, within: float) -> Claim:
    """A number by itself is no further from 0 than `within`."""
    pair = Pair(panel.title, column, row, None, within)
    return Claim(text, (pair,) if (row, column) in panel.values else (), alike=True)


def least(panel: Panel, column: str, times: float = 1) -> float:
    """What matters in a column of a panel."""
    return MATTERS[panel.kind_of(column)].least * times
