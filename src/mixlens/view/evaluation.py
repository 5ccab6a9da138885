"""The table of an evaluation: terminal, page, LaTeX.

Bold is the best and what is indistinguishable from it, grey what is so from chance; a terminal without styles has
signs for both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as Rows
from rich.text import Text

from mixlens.escape import visible
from mixlens.files import PathLike
from mixlens.view import evaluation_figures
from mixlens.view.evaluation_cells import BEST, CHANCE, Cell, by_layer, depths, grid, layer_name, marked, undecided
from mixlens.view.evaluation_figures import MODEL
from mixlens.view.kit import frames, html, latex, packed, spelling
from mixlens.view.kit.drawn import Row, Table
from mixlens.view.kit.spelling import spelled

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from mixlens.view.kit.style import Look


class Shown:
    """A table in a terminal, which knows only there whether bold and grey can be seen."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield printout(self.table, plain=console.color_system is None)


def printout(table: Table, plain: bool = False) -> RenderableType:
    """Methods down, measures across; bold is the best, dim what is as good as chance. `plain`: signs instead."""
    parts: list[RenderableType] = []
    if table.methods:
        out = _rows("method")
        for measure in table.measures:
            out.add_column(Text(_head(table, measure)), justify="right")
        for method, cells in zip(table.methods, grid(table), strict=True):
            styles = ["bold " * c.best + "dim" * c.chance for c in cells]
            texts = [(c.signs if plain else "") + c.text.replace(" [", "\n[") for c in cells]
            out.add_row(Text(method), *(Text(t, s.strip()) for t, s in zip(texts, styles, strict=True)))
        parts.append(out)
    if table.corpora:
        out = _rows("layer")
        for measure in table.corpora:
            out.add_column(Text(measure), justify="right")
        for layer, values in by_layer(table):
            out.add_row(layer, *values)
        parts.append(out)
    remarks = notes(table, *((BEST, CHANCE) if plain else ()))
    if depths(table):
        remarks.append("the layers' numbers: Table.layers(measure, method), to_html, to_latex, to_csv")
    return Group(Text(heading(table), style="bold"), *parts, *(Text(n, style="dim") for n in remarks))


def _rows(first: str) -> Rows:
    out = Rows(first, box=SIMPLE, pad_edge=False)
    out.columns[0].no_wrap = True
    return out


def _cited(table: Table) -> list[str]:
    """The methods and measures that a table shows, by the names that have papers; functions from outside have none."""
    methods = table.manifest["methods"]
    names = [methods[label]["name"] for label in table.methods if "function" not in methods[label]]
    names += [table.facts(measure)["measure"] for measure in (*table.measures, *table.corpora)]
    return list(dict.fromkeys(map(latex.comment, names)))


def tex(table: Table) -> str:
    """Tabulars to include: methods by measures, then a measure a tabular, layers by methods. Needs booktabs, xcolor."""
    lines = [
        r"% needs \usepackage{booktabs} and \usepackage{xcolor}",
        *(f"% {latex.comment(note)}" for note in (f"mixlens: {heading(table)}", *notes(table))),
        f"% what to cite: mixlens cite {' '.join(_cited(table))}",
    ]
    if table.methods:
        rows = [
            [latex.escape(method), *map(_latex_cell, cells)]
            for method, cells in zip(table.methods, grid(table), strict=True)
        ]
        lines += latex.tabular(["method", *(_latex_head(table, m) for m in table.measures)], rows)
    for deep in depths(table):
        rows = [[layer, *map(_latex_cell, cells)] for layer, cells in deep.lines]
        lines += ["", f"% {latex.comment(deep.measure)}, layer by layer"]
        lines += latex.tabular([f"{_latex_head(table, deep.measure)}, layer", *map(latex.escape, deep.methods)], rows)
    if table.corpora:
        rows = [[layer, *texts] for layer, texts in by_layer(table)]
        lines += ["", *latex.tabular(["layer", *map(latex.escape, table.corpora)], rows)]
    return "\n".join([*lines, ""])


def _latex_cell(cell: Cell | None) -> str:
    text = "-" if cell is None else cell.text
    text = rf"\textcolor[HTML]{{767676}}{{{text}}}" if cell and cell.chance else text
    return rf"\textbf{{{text}}}" if cell and cell.best else text


def page(table: Table) -> str:
    """A page of its own: a table and pictures a measure."""
    values = {**_values(table), "data": _data(table), "wide": True}
    return html.page("evaluation.html", **values, sections=_sections(table), facts=_facts(table))


def _data(table: Table) -> str | None:
    """What the page's script is given; None where no method was measured."""
    if not table.methods:
        return None
    cells = grid(table)
    measures = []
    for k, measure in enumerate(table.measures):
        column = [line[k] for line in cells]
        measures.append(
            {
                "name": visible(measure.replace(":", " : ")),
                "better": table.facts(measure)["higher_is_better"],
                "rows": [
                    {name: _finite(getattr(c.row, name)) for name in ("mean", "low", "high", "null")}
                    | {"best": c.best, "chance": c.chance, "text": c.text}
                    for c in column
                ],
                "pairs": _pairs(table, measure),
            }
        )
    level = spelling.number(100 * table.level)
    head = {"kind": "table", "methods": [visible(m) for m in table.methods], "measures": measures, "level": level}
    return packed.pack({**head, "alpha": 1 - table.level}, {})


def _pairs(table: Table, measure: str) -> list[dict[str, Any]]:
    """Each two methods' difference, first less second, by the paired bootstrap."""
    if not evaluation_figures.has(table, "ranking", measure):
        return []
    place = {method: k for k, method in enumerate(table.methods)}
    return [
        {"a": place[a], "b": place[b], **{n: getattr(pair, n) for n in ("difference", "low", "high", "p")}}
        for (a, b), pair in table.ranking(measure).pairs.items()
        if _finite(pair.difference) is not None and _finite(pair.p) is not None
    ]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def fragment(table: Table) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("evaluation_fragment.html", **_values(table))


def figure(
    table: Table, path: PathLike | None, *, kind: str | None, measure: str | None, look: Look | None = None
) -> Figure:
    """A figure, written to `path` if given. Raises UnknownOption, ResultFileError."""
    kind, measure = drawn(table, kind, measure)
    return evaluation_figures.figure(table, path, kind=kind, measure=measure, look=look)


def drawn(table: Table, kind: str | None, measure: str | None, ran: bool = True) -> tuple[str, str]:
    """The kind and the measure of the picture that is asked for. `ran`: see there. Raises UnknownOption."""
    kind = kind or ("ranking" if table.methods else "layers")
    return kind, evaluation_figures.chosen(table, kind, measure, ran)


def heading(table: Table) -> str:
    """What was evaluated, on what."""
    manifest = table.manifest
    facts = [
        *([f"{len(table.methods)} method{'s' * (len(table.methods) > 1)}"] if table.methods else []),
        f"{table.array.shape[1]} texts of {manifest['data']['name']}",
        f"model {manifest['model']['name']}",
    ]
    return visible(" · ".join(facts))


def notes(table: Table, best: str = "bold", chance: str = "grey") -> list[str]:
    """How to read the numbers, and what is missing from them; what marks the best, and what is as good as chance."""
    share = spelling.number(100 * table.level)
    out = []
    if table.methods and undecided(marked(table)):
        out.append(
            f"mean [{share} % bootstrap interval over texts]; {table.array.shape[1]} texts are too few to distinguish "
            "anything: no method from another, and none from random scores"
        )
    elif table.methods:
        out.append(
            f"mean [{share} % bootstrap interval over texts]; {best}: the best, and what a paired bootstrap does not "
            f"distinguish from it; {chance}: indistinguishable from random scores"
        )
    if table.corpora:
        names = ", ".join(table.corpora)
        out.append(
            f"{names}: of the model's own vectors, whatever the method [{share} % bootstrap interval over texts]"
        )
    undefined = sorted({row.measure for row in table.rows if row.n_undefined})
    if undefined:
        out.append(f"undefined on some texts, which are left out: {', '.join(undefined)}")
    wrong = len(table.wrong)
    if wrong:
        out.append(
            f"{wrong} of {table.array.shape[1]} answers are not the model's (Table.wrong names them); measures of a "
            "known source leave them out"
        )
    failed = max((row.n_errors for row in table.rows), default=0)
    if failed:
        out.append(f"up to {failed} texts of {table.array.shape[1]} failed; Table.examples() says why")
    return out


def _head(table: Table, measure: str) -> str:
    facts = table.facts(measure)
    sign = {True: " ↑", False: " ↓", None: ""}[facts["higher_is_better"]]
    return measure.replace(":", " : ") + sign


def _latex_head(table: Table, measure: str) -> str:
    return latex.escape(_head(table, measure)).replace("↑", r"$\uparrow$").replace("↓", r"$\downarrow$")


def _values(table: Table) -> dict[str, Any]:
    rows = [{"name": method, "cells": cells} for method, cells in zip(table.methods, grid(table), strict=True)]
    heads = [_head(table, m) for m in table.measures]
    layered = {"layer_heads": list(table.corpora), "layer_rows": by_layer(table), "depths": depths(table)}
    return {"heading": heading(table), "heads": heads, "rows": rows, "notes": notes(table), **layered}


def _sections(table: Table) -> list[dict[str, Any]]:
    """A measure's lines and pictures."""
    out = []
    deep = {depth.measure: depth for depth in depths(table)}
    for measure in (*table.measures, *table.corpora):
        kinds = [k for k in evaluation_figures.KINDS if evaluation_figures.has(table, k, measure)]
        of_methods = measure in table.measures
        rows = [table.row(measure, method) for method in table.methods] if of_methods else table.layers(measure)
        lines = [_line(row) for row in rows]
        pictures = [
            {"name": f"{k}: {measure}", "uri": html.uri(figure(table, None, kind=k, measure=measure))} for k in kinds
        ]
        first = "method" if of_methods else "layer"
        by = {"first": first, "rows": lines, "depth": deep.get(measure)}
        out.append({"name": _head(table, measure), "pictures": pictures, **by})
    return out


def _line(row: Row) -> dict[str, Any]:
    """A row as text; what is not there as a dash."""
    numbers = ("mean", "std", "low", "high", "null", "p_null")
    return {
        "name": row.method if row.method != MODEL or row.layer is None else layer_name(row.layer),
        **{k: "-" if (v := getattr(row, k)) is None else spelling.number(v) for k in numbers},
        **{k: str(getattr(row, k)) for k in ("n", "n_undefined", "n_errors")},
    }


def _facts(table: Table) -> Sequence[tuple[str, str]]:
    m = table.manifest
    pairs = {
        "model": f"{m['model']['name']} ({m['model']['class']}, {m['model']['dtype']}, {m['model']['device']})",
        "weights": m["model"]["weights"][:16],
        "data": f"{m['data']['name']}, {table.array.shape[1]} texts",
        "task": m["task"]["name"],
        "target": "prediction" if m["target"] is None else spelled(m["target"]),
        "bootstrap": f"{table.resamples} resamples, level {table.level}, seed {table.seed}",
        **m["versions"],
    }
    return [(k, visible(str(v))) for k, v in pairs.items()]


def data_frame(table: Table) -> pandas.DataFrame:
    """A row a method, measure and layer, as in table.csv; `.attrs` holds the manifest. Raises MissingExtra."""
    pd = frames.pandas_module()
    frame = pd.DataFrame(table.to_dicts())
    frame["layer"] = frame["layer"].astype("Int64")
    numbers = ["mean", "std", "low", "high", "null", "p_null"]
    frame[numbers] = frame[numbers].astype("float64")
    frame.attrs["manifest"] = dict(table.manifest)
    return frame
