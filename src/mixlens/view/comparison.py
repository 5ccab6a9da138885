"""Several methods on one text: a terminal table, a page, a figure. Each method has its own colour scale."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mixlens.errors import UnknownOption
from mixlens.escape import visible
from mixlens.files import put
from mixlens.view import colors, figures, heatmaps, html, latex, reading, terminal
from mixlens.view.fonts import drawable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.results import Comparison

_FAITHFUL = (
    "faithful: how much faster the answer goes as the method's highest tokens are taken out; 0: as by chance, 1: as by "
    "the best order found, by these methods or a search"
)
_RATED = "in brackets: faithful, 0: by chance, 1: the best order found"
_NOTE = "each method has its own colours: they compare within a row, not between rows"


def table(found: Comparison) -> RenderableType:
    """A row a method: its name, the text on its colours, the largest word."""
    rated = bool(found.faithfulness)
    out = Table("method", *(["faithful"] if rated else []), "text", "largest", box=SIMPLE, pad_edge=False)
    out.columns[0].no_wrap = True
    for name, attr in found.attributions.items():
        shown = reading.parts(attr)
        (top,) = reading.ranked(shown, 1)
        largest = Text(f"{' '.join(top.text.split())} {reading.number(top.score)}")
        rating = [Text(_rating(found, name))] if rated else []
        out.add_row(Text(name), *rating, terminal.running(shown, reading.scale(shown)), largest)
    notes = [Text(f"{name}: {reason}", style="dim") for name, reason in found.skipped.items()]
    about = [Text(_FAITHFUL, style="dim")] if rated else []
    says = reading.says(found.first)
    head: list[RenderableType] = [Text(_heading(found), style="bold"), *([Text(says)] if says else [])]
    head += terminal.warnings(*found.attributions.values())
    return Group(*head, out, Text(_note(found), style="dim"), *about, *notes)


def page(found: Comparison, path: str | os.PathLike[str] | None = None) -> str:
    """The page; written to `path` if given. Raises ResultFileError."""
    maps = {name: html.pictures(some, len(found.maps)) for name, some in found.maps.items()}
    out = html.fill("comparison.html", **_values(found), maps=maps, facts=_facts(found))
    return put(out, path)


def latex_table(found: Comparison) -> str:
    """A tabular, a row a method: its name, its faithfulness, the text on its colours. Everything is escaped."""
    rated = bool(found.faithfulness)
    rows = []
    for name, attr in found.attributions.items():
        shown = reading.parts(attr)
        rating = [_rating(found, name)] if rated else []
        text = latex.running(shown, reading.scale(shown))
        rows.append([latex.escape(name), *rating, rf"{{\raggedright {text}\par}}"])
    says = reading.says(found.first)
    notes = [
        *([says] if says else []),
        _note(found),
        *([_FAITHFUL] if rated else []),
        *(f"not shown: {k}: {v}" for k, v in found.skipped.items()),
    ]
    lines = [
        r"% needs \usepackage[T1]{fontenc}, \usepackage{booktabs} and \usepackage{xcolor}; XeLaTeX or LuaLaTeX for text"
        " beyond Latin scripts",
        *(f"% {latex.comment(note)}" for note in (f"mixlens: {_heading(found)}", *notes)),
        r"{\setlength{\fboxsep}{1.5pt}",
        *latex.tabular(
            ["method", *(["faithful"] if rated else []), "text"],
            rows,
            "l" + "r" * rated + r"p{0.7\linewidth}",
        ),
    ]
    return "\n".join([*lines, "}", ""])


def fragment(found: Comparison) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("comparison_fragment.html", **_values(found))


def figure(found: Comparison, path: str | os.PathLike[str] | None = None, kind: str = "words") -> Figure:
    """`kind="words"`: methods down, words across; `"maps"`: methods down, their layers' maps across.

    Raises UnknownOption (kind, ending of the path) and ResultFileError.
    """
    if kind not in ("words", "maps"):
        raise UnknownOption(f"expected kind='words' or 'maps', got {kind!r}")
    if kind == "maps" and not found.maps:
        raise UnknownOption("expected a comparison with maps, got none; ask with compare(..., maps=True)")
    return figures.finish(_draw if kind == "words" else _draw_maps, path, found)


def _draw_maps(found: Comparison) -> Figure:
    """A row of maps a method, a map a layer, each row in shares of its largest score."""
    sheets = [reading.values(m.scores) for m in found.maps.values()]
    depth = max(len(sheet) for sheet in sheets)
    pooled = [heatmaps.pooled(sheet, 64)[0] for sheet in sheets]
    shares = np.full((len(sheets), depth, *pooled[0].shape[1:]), np.nan)
    for row, sheet in zip(shares, pooled, strict=True):
        row[: len(sheet)] = sheet / (np.abs(sheet).max() or 1)
    title = _heading(found) + "\nmaps behind each method: row: the token that takes, column: the token it takes from"
    title += "\ncolours: shares of a method's largest score"
    return heatmaps.mosaic(shares, title, [f"layer {k + 1}" for k in range(depth)], list(found.maps))


def _draw(found: Comparison) -> Figure:
    names = list(found.attributions)
    shown = [reading.content(reading.parts(attr)) for attr in found.attributions.values()]
    scales = [reading.scale(parts) for parts in shown]
    shares = np.array([[s.share(p.score) for p in parts] for parts, s in zip(shown, scales, strict=True)])
    width = max(5.0, min(16.0, (2.8 if found.faithfulness else 2.2) + 0.42 * shares.shape[1]))
    height = 0.28 * len(names)
    notes = ["special tokens left out"] if len(shown[0]) < len(reading.parts(found.first)) else []
    notes = [*([_RATED] if found.faithfulness else []), *notes]
    title = "\n".join([_heading(found), *notes])
    figure, axes = heatmaps.canvas(width, height + 1.6 + 0.15 * len(notes), title)
    image = heatmaps.image(axes, shares, colors.Scale(1.0, any(s.signed for s in scales)), aspect="auto")
    rated = [f"{name} ({_rating(found, name)})" for name in names] if found.faithfulness else names
    heatmaps.ticks(axes.yaxis, rated, 72 * height)
    words = [drawable(" ".join(p.text.split())[:18]) for p in shown[0]]
    heatmaps.ticks(axes.xaxis, words, 72 * (width - 2.2), rotation=60)
    bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    bar.set_label("share of a method's largest word", fontsize=7)
    bar.ax.tick_params(labelsize=7)
    return figure


def _values(found: Comparison) -> dict[str, Any]:
    rows = [
        {"name": name, "rating": _rating(found, name), **html.text(attr, reading.parts(attr))}
        for name, attr in found.attributions.items()
    ]
    rated = bool(found.faithfulness)
    note = f"{_note(found)}; {_FAITHFUL}" if rated else _note(found)
    shared: dict[str, Any] = {
        "heading": _heading(found),
        "says": reading.says(found.first),
        "skipped": dict(found.skipped),
    }
    shared["warnings"] = reading.warnings(*found.attributions.values())
    return {"rows": rows, "rated": rated, "note": note, **shared}


def _note(found: Comparison) -> str:
    """How to read the colours that are there."""
    signed = any(reading.scale(reading.parts(attr)).signed for attr in found.attributions.values())
    return _NOTE + ("; blue speaks against" if signed else "")


def _rating(found: Comparison, name: str) -> str:
    rating = found.faithfulness.get(name)
    return "-" if rating is None or math.isnan(rating.value) else f"{rating.value:.2f}"


def _heading(found: Comparison) -> str:
    count = len(found.attributions)
    return " · ".join([f"{count} method{'' if count == 1 else 's'}", *reading.about(found.first)])


def _facts(found: Comparison) -> list[tuple[str, str]]:
    shared = [(k, v) for k, v in reading.provenance(found.first) if k in _SHARED]
    return shared + [(f"not shown: {name}", visible(reason)) for name, reason in found.skipped.items()]


_SHARED = (
    "target", "model", "prediction", "probability", "target probability", "foil probability", "architecture",
    "dtype", "mixlens", "torch", "transformers",
)  # fmt: skip
