"""The table of an evaluation: terminal, page, LaTeX.

Bold is the best and what is not told apart from it, grey what is not told from chance; a terminal without styles has
signs for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as Rows
from rich.text import Text

from mixlens.escape import visible
from mixlens.view import evaluation_figures, html, latex, reading
from mixlens.view.evaluation_figures import MODEL
from mixlens.view.labels import spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.evaluation.result import Row, Table
    from mixlens.results import PathLike

_BEST, _CHANCE = "*", "~"


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
        if self.row.low is None or self.row.high is None:
            return reading.number(self.row.mean)
        low, high = reading.number(self.row.low), reading.number(self.row.high)
        return f"{reading.number(self.row.mean)} [{low}, {high}]"

    @property
    def signs(self) -> str:
        """What stands for bold and grey where there are no styles."""
        return _BEST * self.best + _CHANCE * self.chance


def grid(found: Table) -> list[list[Cell]]:
    """A row a method, a cell a measure: the whole model, no single layers. Nothing is marked where all would be."""
    cells = _marked(found)
    return [[Cell(c.row, False, False) for c in line] for line in cells] if undecided(cells) else cells


def _marked(found: Table) -> list[list[Cell]]:
    best = {m: evaluation_figures.leaders(found, m) for m in found.measures}
    return [
        [_cell(found, found.row(measure, method), method in best[measure]) for measure in found.measures]
        for method in found.methods
    ]


def undecided(cells: list[list[Cell]]) -> bool:
    """Whether several methods are all as good as the best and all as good as chance: the marks would say nothing."""
    return len(cells) > 1 and bool(cells[0]) and all(c.best and c.chance for line in cells for c in line)


def _cell(found: Table, row: Row, best: bool = False) -> Cell:
    return Cell(row, best, row.p_null is not None and row.p_null > 1 - found.level)


@dataclass(frozen=True)
class Depth:
    """A measure by layer: a column a method that has layers, a line a layer; None where a method has none there."""

    measure: str
    methods: tuple[str, ...]
    lines: tuple[tuple[str, tuple[Cell | None, ...]], ...]


def depths(found: Table) -> list[Depth]:
    """The measures of methods layer by layer, as `layers="each"` or `"upto"` asked; none without. Nothing is best."""
    out = []
    for measure in found.measures:
        cells = {
            (r.method, r.layer): _cell(found, r)
            for r in found.rows
            if r.layer is not None and found.is_of(r, measure) and r.method != MODEL
        }
        methods = tuple(m for m in found.methods if any(m == method for method, _ in cells))
        layers = sorted({layer for _, layer in cells if layer is not None})
        lines = tuple((layer_name(k), tuple(cells.get((m, k)) for m in methods)) for k in layers)
        if lines:
            out.append(Depth(measure, methods, lines))
    return out


class Shown:
    """A table in a terminal, which knows only there whether bold and grey can be seen."""

    def __init__(self, found: Table) -> None:
        self.found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield table(self.found, plain=console.color_system is None)


def table(found: Table, plain: bool = False) -> RenderableType:
    """Methods down, measures across; bold is the best, dim what is not told from chance. `plain`: signs instead."""
    parts: list[RenderableType] = []
    if found.methods:
        out = _rows("method")
        for measure in found.measures:
            out.add_column(Text(_head(found, measure)), justify="right")
        for method, cells in zip(found.methods, grid(found), strict=True):
            styles = ["bold " * c.best + "dim" * c.chance for c in cells]
            texts = [(c.signs if plain else "") + c.text.replace(" [", "\n[") for c in cells]
            out.add_row(Text(method), *(Text(t, s.strip()) for t, s in zip(texts, styles, strict=True)))
        parts.append(out)
    if found.corpora:
        out = _rows("layer")
        for measure in found.corpora:
            out.add_column(Text(measure), justify="right")
        for layer, values in by_layer(found):
            out.add_row(layer, *values)
        parts.append(out)
    said = notes(found, *((_BEST, _CHANCE) if plain else ()))
    if depths(found):
        said.append("the layers' numbers: Table.layers(measure, method), to_html, to_latex, to_csv")
    return Group(Text(heading(found), style="bold"), *parts, *(Text(n, style="dim") for n in said))


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
    """Tabulars to include: methods by measures, then a measure a tabular, layers by methods. Needs booktabs, xcolor."""
    lines = [
        r"% needs \usepackage{booktabs} and \usepackage{xcolor}",
        *(f"% {latex.comment(note)}" for note in (f"mixlens: {heading(found)}", *notes(found))),
    ]
    if found.methods:
        rows = [
            [latex.escape(method), *map(_latex_cell, cells)]
            for method, cells in zip(found.methods, grid(found), strict=True)
        ]
        lines += latex.tabular(["method", *(_latex_head(found, m) for m in found.measures)], rows)
    for deep in depths(found):
        rows = [[layer, *map(_latex_cell, cells)] for layer, cells in deep.lines]
        lines += ["", f"% {latex.comment(deep.measure)}, layer by layer"]
        lines += latex.tabular([f"{_latex_head(found, deep.measure)}, layer", *map(latex.escape, deep.methods)], rows)
    if found.corpora:
        rows = [[layer, *texts] for layer, texts in by_layer(found)]
        lines += ["", *latex.tabular(["layer", *map(latex.escape, found.corpora)], rows)]
    return "\n".join([*lines, ""])


def _latex_cell(cell: Cell | None) -> str:
    text = "-" if cell is None else cell.text
    text = rf"\textcolor[HTML]{{767676}}{{{text}}}" if cell and cell.chance else text
    return rf"\textbf{{{text}}}" if cell and cell.best else text


def page(found: Table) -> str:
    """A page of its own: a table and pictures a measure."""
    return html.fill("evaluation.html", **_values(found), sections=_sections(found), facts=_facts(found))


def fragment(found: Table) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("evaluation_fragment.html", **_values(found))


def figure(found: Table, path: PathLike | None, *, kind: str | None, measure: str | None) -> Figure:
    """A figure, written to `path` if given. Raises UnknownOption, ResultFileError."""
    kind, measure = drawn(found, kind, measure)
    return evaluation_figures.figure(found, path, kind=kind, measure=measure)


def drawn(found: Table, kind: str | None, measure: str | None, ran: bool = True) -> tuple[str, str]:
    """The kind and the measure of the picture that is asked for. `ran`: see there. Raises UnknownOption."""
    kind = kind or ("ranking" if found.methods else "layers")
    return kind, evaluation_figures.chosen(found, kind, measure, ran)


def heading(found: Table) -> str:
    """What was evaluated, on what."""
    manifest = found.manifest
    facts = [
        *([f"{len(found.methods)} method{'s' * (len(found.methods) > 1)}"] if found.methods else []),
        f"{found.array.shape[1]} texts of {manifest['data']['name']}",
        f"model {manifest['model']['name']}",
    ]
    return visible(" · ".join(facts))


def notes(found: Table, best: str = "bold", chance: str = "grey") -> list[str]:
    """How to read the numbers, and what is missing from them; what marks the best, and what is not told from chance."""
    share = reading.number(100 * found.level)
    out = []
    if found.methods and undecided(_marked(found)):
        out.append(
            f"mean [{share} % bootstrap interval over texts]; {found.array.shape[1]} texts are too few to tell anything"
            " apart: no method from another, and none from random scores"
        )
    elif found.methods:
        out.append(
            f"mean [{share} % bootstrap interval over texts]; {best}: the best, and what a paired bootstrap does not "
            f"tell from it; {chance}: not told from random scores"
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
    rows = [{"name": method, "cells": cells} for method, cells in zip(found.methods, grid(found), strict=True)]
    heads = [_head(found, m) for m in found.measures]
    layered = {"layer_heads": list(found.corpora), "layer_rows": by_layer(found), "depths": depths(found)}
    return {"heading": heading(found), "heads": heads, "rows": rows, "notes": notes(found), **layered}


def _sections(found: Table) -> list[dict[str, Any]]:
    """A measure's lines and pictures."""
    out = []
    deep = {one.measure: one for one in depths(found)}
    for measure in (*found.measures, *found.corpora):
        kinds = [k for k in evaluation_figures.KINDS if evaluation_figures.has(found, k, measure)]
        own = measure in found.measures
        rows = [found.row(measure, method) for method in found.methods] if own else found.layers(measure)
        lines = [_line(row) for row in rows]
        pictures = [
            {"name": f"{k}: {measure}", "uri": html.uri(figure(found, None, kind=k, measure=measure))} for k in kinds
        ]
        first = "method" if own else "layer"
        by = {"first": first, "rows": lines, "depth": deep.get(measure)}
        out.append({"name": _head(found, measure), "pictures": pictures, **by})
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
        "target": "prediction" if m["target"] is None else spelled(m["target"]),
        "bootstrap": f"{found.resamples} resamples, level {found.level}, seed {found.seed}",
        **m["versions"],
    }
    return [(k, visible(str(v))) for k, v in pairs.items()]
