"""The table of an evaluation: terminal, page, LaTeX. Bold is the best and what is not told apart from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table as Rows
from rich.text import Text

from mixlens.view import evaluation_figures, html, latex, reading

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.evaluation.table import Row, Table
    from mixlens.results import PathLike


@dataclass(frozen=True)
class Cell:
    """A measure of a method: `best`: none is told to be better; `chance`: it is not told from random scores."""

    row: Row
    best: bool
    chance: bool

    @property
    def text(self) -> str:
        """Mean and interval."""
        if self.row.mean is None:
            return "-"
        low, high = (reading.number(v) for v in (self.row.low or 0.0, self.row.high or 0.0))
        return f"{reading.number(self.row.mean)} [{low}, {high}]"


def grid(found: Table) -> list[list[Cell]]:
    """A row a method, a cell a measure: the whole model, no single layers."""
    best = {m: evaluation_figures.leaders(found, m) for m in found.measures}
    alpha = 1 - found.level
    rows = []
    for method in found.methods:
        cells = []
        for measure in found.measures:
            row = found.row(measure, method)
            chance = row.p_null is not None and row.p_null > alpha
            cells.append(Cell(row, method in best[measure], chance))
        rows.append(cells)
    return rows


def table(found: Table) -> RenderableType:
    """Methods down, measures across; bold is the best, dim what is not told from chance."""
    out = Rows("method", box=SIMPLE, pad_edge=False)
    out.columns[0].no_wrap = True
    for measure in found.measures:
        out.add_column(Text(_head(found, measure)), justify="right")
    for method, cells in zip(found.methods, grid(found), strict=True):
        styles = ["bold" if c.best else "dim" if c.chance else "" for c in cells]
        out.add_row(Text(method), *(Text(c.text.replace(" [", "\n["), s) for c, s in zip(cells, styles, strict=True)))
    return Group(Text(heading(found), style="bold"), out, *(Text(n, style="dim") for n in notes(found)))


def latex_table(found: Table) -> str:
    """A tabular to include; needs booktabs."""
    lines = [
        r"% needs \usepackage{booktabs}",
        f"% mixlens: {heading(found)}",
        *(f"% {note}" for note in notes(found)),
        r"\begin{tabular}{l" + "r" * len(found.measures) + "}",
        r"\toprule",
        " & ".join(["method", *(_latex_head(found, m) for m in found.measures)]) + r" \\",
        r"\midrule",
    ]
    for method, cells in zip(found.methods, grid(found), strict=True):
        texts = [rf"\textbf{{{c.text}}}" if c.best else c.text for c in cells]
        lines.append(" & ".join([latex.escape(method), *texts]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def page(found: Table) -> str:
    """A page of its own: a table and pictures a measure."""
    return html.fill("evaluation.html", **_values(found), sections=_sections(found), facts=_facts(found))


def fragment(found: Table) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("evaluation_fragment.html", **_values(found))


def figure(found: Table, path: PathLike | None, *, kind: str, measure: str | None) -> Figure:
    """A figure, written to `path` if given. Raises UnknownOption, ResultFileError."""
    return evaluation_figures.figure(found, path, kind=kind, measure=measure)


def heading(found: Table) -> str:
    """What was evaluated, on what."""
    manifest = found.manifest
    facts = [
        f"{len(found.methods)} methods",
        f"{found.array.shape[1]} texts of {manifest['data']['name']}",
        f"model {manifest['model']['name']}",
    ]
    return reading.visible(" · ".join(facts))


def notes(found: Table) -> list[str]:
    """How to read the numbers, and what is missing from them."""
    share = reading.number(100 * found.level)
    out = [
        f"mean [{share} % bootstrap interval over texts]; bold: the best, and what a paired bootstrap does not tell "
        "from it; grey: not told from random scores"
    ]
    undefined = sorted({row.measure for row in found.rows if row.n_undefined})
    if undefined:
        out.append(f"undefined on some texts, which are left out: {', '.join(undefined)}")
    failed = max((row.n_errors for row in found.rows), default=0)
    if failed:
        out.append(f"up to {failed} texts of {found.array.shape[1]} failed; Table.examples() says why")
    return out


def _head(found: Table, measure: str) -> str:
    facts = found.manifest["measures"][measure]
    sign = {True: " ↑", False: " ↓", None: ""}[facts["higher_is_better"]]
    return measure.replace(":", " : ") + sign


def _latex_head(found: Table, measure: str) -> str:
    return latex.escape(_head(found, measure)).replace("↑", r"$\uparrow$").replace("↓", r"$\downarrow$")


def _values(found: Table) -> dict[str, Any]:
    rows = [
        {"name": method, "cells": [{"text": c.text, "best": c.best, "chance": c.chance} for c in cells]}
        for method, cells in zip(found.methods, grid(found), strict=True)
    ]
    heads = [_head(found, m) for m in found.measures]
    return {"heading": heading(found), "heads": heads, "rows": rows, "notes": notes(found)}


def _sections(found: Table) -> list[dict[str, Any]]:
    """A measure's lines and pictures."""
    out = []
    for measure in found.measures:
        kinds = [k for k in evaluation_figures.KINDS if evaluation_figures.has(found, k, measure)]
        lines = [_line(found.row(measure, method)) for method in found.methods]
        pictures = [
            {"name": f"{k}: {measure}", "uri": html.uri(figure(found, None, kind=k, measure=measure))} for k in kinds
        ]
        out.append({"name": _head(found, measure), "rows": lines, "pictures": pictures})
    return out


def _line(row: Row) -> dict[str, Any]:
    """A row as text; what is not there as a dash."""
    numbers = ("mean", "std", "low", "high", "null", "p_null")
    return {
        "method": row.method,
        **{k: "-" if (v := getattr(row, k)) is None else reading.number(v) for k in numbers},
        **{k: str(getattr(row, k)) for k in ("n", "n_undefined", "n_errors")},
    }


def _facts(found: Table) -> Sequence[tuple[str, str]]:
    m = found.manifest
    pairs = {
        "model": f"{m['model']['name']} ({m['model']['class']}, {m['model']['dtype']}, {m['model']['device']})",
        "weights": m["model"]["weights"][:16],
        "data": f"{m['data']['name']}, {found.array.shape[1]} texts",
        "task": m["task"]["name"],
        "target": "prediction" if m["target"] is None else str(m["target"]),
        "bootstrap": f"{found.resamples} resamples, level {found.level}, seed {found.seed}",
        **m["versions"],
    }
    return [(k, reading.visible(str(v))) for k, v in pairs.items()]
