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
from mixlens.view.evaluation_figures import MODEL

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
    parts: list[RenderableType] = []
    if found.methods:
        out = _rows("method")
        for measure in found.measures:
            out.add_column(Text(_head(found, measure)), justify="right")
        for method, cells in zip(found.methods, grid(found), strict=True):
            styles = ["bold" if c.best else "dim" if c.chance else "" for c in cells]
            texts = [Text(c.text.replace(" [", "\n["), s) for c, s in zip(cells, styles, strict=True)]
            out.add_row(Text(method), *texts)
        parts.append(out)
    if found.corpora:
        out = _rows("layer")
        for measure in found.corpora:
            out.add_column(Text(measure), justify="right")
        for layer, values in by_layer(found):
            out.add_row(layer, *values)
        parts.append(out)
    return Group(Text(heading(found), style="bold"), *parts, *(Text(n, style="dim") for n in notes(found)))


def _rows(first: str) -> Rows:
    out = Rows(first, box=SIMPLE, pad_edge=False)
    out.columns[0].no_wrap = True
    return out


def by_layer(found: Table) -> list[tuple[str, list[str]]]:
    """The measures of the model's vectors: a line a layer, counted from 1, with what stands for each measure."""
    lines = {m: {r.layer: Cell(r, False, False).text for r in found.layers(m)} for m in found.corpora}
    layers = sorted({layer for some in lines.values() for layer in some if layer is not None})
    return [(layer_name(layer), [lines[m].get(layer, "-") for m in found.corpora]) for layer in layers]


def layer_name(layer: int) -> str:
    """As people count: from 1."""
    return "embeddings" if layer < 0 else str(layer + 1)


def latex_table(found: Table) -> str:
    """A tabular to include; needs booktabs."""
    lines = [
        r"% needs \usepackage{booktabs}",
        f"% mixlens: {heading(found)}",
        *(f"% {note}" for note in notes(found)),
    ]
    if found.methods:
        rows = [
            [latex.escape(method), *(rf"\textbf{{{c.text}}}" if c.best else c.text for c in cells)]
            for method, cells in zip(found.methods, grid(found), strict=True)
        ]
        lines += _tabular(["method", *(_latex_head(found, m) for m in found.measures)], rows)
    if found.corpora:
        rows = [[layer, *texts] for layer, texts in by_layer(found)]
        lines += _tabular(["layer", *map(latex.escape, found.corpora)], rows)
    return "\n".join([*lines, ""])


def _tabular(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    body = [" & ".join(row) + r" \\" for row in (heads, *rows)]
    start = [r"\begin{tabular}{l" + "r" * (len(heads) - 1) + "}", r"\toprule", body[0], r"\midrule"]
    return [*start, *body[1:], r"\bottomrule", r"\end{tabular}"]


def page(found: Table) -> str:
    """A page of its own: a table and pictures a measure."""
    return html.fill("evaluation.html", **_values(found), sections=_sections(found), facts=_facts(found))


def fragment(found: Table) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("evaluation_fragment.html", **_values(found))


def figure(found: Table, path: PathLike | None, *, kind: str | None, measure: str | None) -> Figure:
    """A figure, written to `path` if given. Raises UnknownOption, ResultFileError."""
    kind = kind or ("ranking" if found.methods else "layers")
    return evaluation_figures.figure(found, path, kind=kind, measure=measure)


def heading(found: Table) -> str:
    """What was evaluated, on what."""
    manifest = found.manifest
    facts = [
        *([f"{len(found.methods)} method{'s' * (len(found.methods) > 1)}"] if found.methods else []),
        f"{found.array.shape[1]} texts of {manifest['data']['name']}",
        f"model {manifest['model']['name']}",
    ]
    return reading.visible(" · ".join(facts))


def notes(found: Table) -> list[str]:
    """How to read the numbers, and what is missing from them."""
    share = reading.number(100 * found.level)
    out = []
    if found.methods:
        out.append(
            f"mean [{share} % bootstrap interval over texts]; bold: the best, and what a paired bootstrap does not "
            "tell from it; grey: not told from random scores"
        )
    if found.corpora:
        names = ", ".join(found.corpora)
        out.append(
            f"{names}: of the model's own vectors, whatever the method [{share} % bootstrap interval over texts]"
        )
    undefined = sorted({row.measure for row in found.rows if row.n_undefined})
    if undefined:
        out.append(f"undefined on some texts, which are left out: {', '.join(undefined)}")
    failed = max((row.n_errors for row in found.rows), default=0)
    if failed:
        out.append(f"up to {failed} texts of {found.array.shape[1]} failed; Table.examples() says why")
    return out


def _head(found: Table, measure: str) -> str:
    facts = found.facts(measure)
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
    layered = {"layer_heads": list(found.corpora), "layer_rows": by_layer(found)}
    return {"heading": heading(found), "heads": heads, "rows": rows, "notes": notes(found), **layered}


def _sections(found: Table) -> list[dict[str, Any]]:
    """A measure's lines and pictures."""
    out = []
    for measure in (*found.measures, *found.corpora):
        kinds = [k for k in evaluation_figures.KINDS if evaluation_figures.has(found, k, measure)]
        own = measure in found.measures
        rows = [found.row(measure, method) for method in found.methods] if own else found.layers(measure)
        lines = [_line(row) for row in rows]
        pictures = [
            {"name": f"{k}: {measure}", "uri": html.uri(figure(found, None, kind=k, measure=measure))} for k in kinds
        ]
        first = "method" if own else "layer"
        out.append({"name": _head(found, measure), "first": first, "rows": lines, "pictures": pictures})
    return out


def _line(row: Row) -> dict[str, Any]:
    """A row as text; what is not there as a dash."""
    numbers = ("mean", "std", "low", "high", "null", "p_null")
    return {
        "name": row.method if row.method != MODEL or row.layer is None else layer_name(row.layer),
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
