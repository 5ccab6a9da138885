"""A reproduction's numbers as plain data: what a page is written from, today or in a year, with nothing run again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mixlens.files import write_text
from mixlens.reproduce.claims import Claim, Pair
from mixlens.reproduce.findings import Panel
from mixlens.reproduce.verdicts import Measured, Tested, measure, tally

_DIGITS = 6  # significant ones that are kept
_PAIR = tuple(f.name for f in fields(Pair))
_MEASURED = tuple(f.name for f in fields(Measured) if f.name != "pair")
_NUMBERS = ("n", "n_undefined", "mean", "std", "low", "high")


@dataclass(frozen=True)
class Table:
    """A panel's numbers: `cells[row, column]` of `n`, `mean`, ... and `paper`; the pairs that the paper orders."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Mapping[str, float]]
    note: str = ""
    orderings: tuple[Measured, ...] = ()
    said: tuple[str, ...] = ()  # lines about the orderings where their numbers are no longer there


@dataclass(frozen=True)
class PageRecord:
    """One reproduction. `circumstances`: command, date, versions, models, texts; `pictures`: (what, file)."""

    name: str
    cite: str
    title: str
    circumstances: tuple[str, ...]
    tables: tuple[Table, ...]
    claims: tuple[Tested, ...]
    pictures: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        tables = [
            {
                **{k: v for k, v in vars(t).items() if k not in ("cells", "orderings")},
                "cells": [[row, column, dict(cell)] for (row, column), cell in t.cells.items()],
                "orderings": [_flat(pair) for pair in t.orderings],
            }
            for t in self.tables
        ]
        claims = [{"text": c.text, "alike": c.alike, "pairs": [_flat(pair) for pair in c.pairs]} for c in self.claims]
        plain = {**vars(self), "pair": [*_PAIR, *_MEASURED], "tables": tables, "claims": claims}
        write_text(path, _lines(_rounded(plain)))

    @staticmethod
    def read(path: Path) -> PageRecord:
        """From such a file."""
        plain = json.loads(path.read_text(encoding="utf-8"))
        tables = tuple(_table(entry) for entry in plain["tables"])
        claims = tuple(Tested(c["text"], tuple(_measured(p) for p in c["pairs"]), c["alike"]) for c in plain["claims"])
        pictures = tuple((title, file) for title, file in plain["pictures"])
        strings = {name: tuple(plain[name]) for name in ("circumstances", "notes")}
        return PageRecord(
            plain["name"], plain["cite"], plain["title"], tables=tables, claims=claims, pictures=pictures, **strings
        )


def table(panel: Panel) -> Table:
    """A panel's numbers."""
    cells: dict[tuple[str, str], dict[str, float]] = {}
    for row in panel.rows:
        for column in panel.columns:
            number = panel.summary(row, column)
            if number is not None:
                cells[row, column] = {k: v for k in _NUMBERS if (v := getattr(number, k, math.nan)) == v}
                if (row, column) in panel.paper:
                    cells[row, column]["paper"] = panel.paper[row, column]
    return Table(panel.title, panel.rows, panel.columns, cells, panel.note, tuple(tally(panel)))


def record(
    name: str,
    cite: str,
    title: str,
    circumstances: Sequence[str],
    panels: Sequence[Panel],
    claims: Sequence[Claim],
    pictures: Sequence[tuple[str, str]],
    notes: Sequence[str],
) -> PageRecord:
    """The record of a run: its panels' numbers and its claims measured."""
    tables, tested = tuple(map(table, panels)), tuple(measure(claims, panels))
    return PageRecord(name, cite, title, tuple(circumstances), tables, tested, tuple(pictures), tuple(notes))


def _table(plain: Mapping[str, Any]) -> Table:
    cells = {(row, column): cell for row, column, cell in plain["cells"]}
    strings = {name: tuple(plain[name]) for name in ("rows", "columns", "said")}
    return Table(
        plain["title"], cells=cells, note=plain["note"], orderings=tuple(map(_measured, plain["orderings"])), **strings
    )


def _flat(pair: Measured) -> list[Any]:
    """A pair as the list of its fields, in the order that the file names under "pair"."""
    return [getattr(pair.pair, name) for name in _PAIR] + [getattr(pair, name) for name in _MEASURED]


def _measured(plain: Sequence[Any]) -> Measured:
    pair, rest = plain[: len(_PAIR)], plain[len(_PAIR) :]
    numbers: dict[str, Any] = {k: math.nan if v is None else v for k, v in zip(_MEASURED, rest, strict=True)}
    return Measured(Pair(**dict(zip(_PAIR, pair, strict=True))), **numbers)


def _rounded(value: Any) -> Any:
    """The same with floats of few digits, and None for NaN, which JSON does not know."""
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(part) for part in value]
    return value


def _lines(plain: Mapping[str, Any]) -> str:
    """JSON with a line a cell, a pair, a note: what changed can be read in a diff."""

    def block(value: Any, depth: int) -> str:
        pad = " " * depth
        if isinstance(value, dict) and any(isinstance(v, (list, dict)) for v in value.values()) and depth < 6:
            inner = ",\n".join(
                f"{pad} {json.dumps(k, ensure_ascii=False)}: {block(v, depth + 1)}" for k, v in value.items()
            )
            return f"{{\n{inner}\n{pad}}}"
        if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
            return "[\n" + ",\n".join(f"{pad} {block(v, depth + 1)}" for v in value) + f"\n{pad}]"
        return json.dumps(value, ensure_ascii=False)

    return block(plain, 0) + "\n"
