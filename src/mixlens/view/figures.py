"""Figures: bars, coloured text, layer heatmaps, layer x token pictures, graphs; PNG, SVG or PDF.

Figures are made without pyplot, so nothing global is left behind and no display is needed. Token texts are never read
as formulas, and a character that no installed font has is drawn as `□`.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle

from mixlens.errors import UnknownOption, did_you_mean
from mixlens.files import replacing
from mixlens.view import colors, heatmaps, reading
from mixlens.view.fonts import drawable, families
from mixlens.view.picture import Picture

if TYPE_CHECKING:
    from mixlens.results import Attribution, LayerMaps

_FORMATS: dict[str, dict[str, Any]] = {  # no dates and no salt of the hour: the same result gives the same file
    "png": {"metadata": {"Software": "mixlens"}},
    "svg": {"metadata": {"Date": None, "Creator": "mixlens"}},
    "pdf": {"metadata": {"CreationDate": None, "Creator": "mixlens", "Producer": "matplotlib"}},
}
# Text stays text in SVG (to be searched, read aloud, copied) and in PDF is of a kind that publishers take.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "mixlens", "pdf.fonttype": 42}
_LOCK = threading.Lock()  # those settings are the process's, so one file is drawn at a time
_WIDTH = 7.0  # inches


def attribution(attr: Attribution, path: str | os.PathLike[str] | None = None, kind: str = "bar") -> Figure:
    """A figure of an attribution: `kind="bar"`, a bar a token from the first down, or `"text"`, coloured text.

    Written to `path` if given. Raises UnknownOption (kind, ending of the path) and ResultFileError.
    """
    return finish(_choose({"bar": _bars, "text": _text}, kind), path, attr)


def maps(
    maps: LayerMaps,
    path: str | os.PathLike[str] | None = None,
    row: int | str | None = None,
    kind: str = "heatmap",
) -> Figure:
    """A figure of layer maps: `kind="heatmap"`, a heatmap a layer (a row of them where there are heads).

    With `row=i` (or `"max"`) a picture layer x token of one query row, layer 1 at the bottom (GlobEnc, Figure 1).
    `kind="graph"`: tokens as columns, layers from the bottom up, lines as weights (Abnar & Zuidema, Figure 1); with
    `row=i` only the lines into token i. Written to `path` if given. Raises UnknownOption (kind, row, ending of the
    path) and ResultFileError.
    """
    draw = _choose({"heatmap": heatmaps.grid, "graph": heatmaps.graph}, kind)
    if row is not None:
        maps.row(row)  # raises UnknownOption
        draw = heatmaps.rows if kind == "heatmap" else draw
    return finish(draw, path, maps, row) if row is not None else finish(draw, path, maps)


def save(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure, whole or not at all. Raises UnknownOption and ResultFileError."""
    form = _format(path)
    with replacing(path) as temporary, _LOCK, matplotlib.rc_context(_SETTINGS):  # type: ignore[arg-type]
        figure.savefig(temporary, format=form, dpi=150, **_FORMATS[form])
    return Path(path)


def finish(draw: Callable[..., Figure], path: str | os.PathLike[str] | None, *args: Any) -> Figure:
    """Draw, and write to `path` if given, whose ending is checked before the work. A notebook shows the figure."""
    if path is not None:
        _format(path)  # before the work
    figure = draw(*args)
    figure.__class__ = Picture
    if path is not None:
        save(figure, path)
    return figure


def _choose(table: dict[str, Callable[..., Figure]], kind: str) -> Callable[..., Figure]:
    if kind not in table:
        raise UnknownOption(f"expected a kind of figure, got {kind!r}{did_you_mean(kind, table)}")
    return table[kind]


def _format(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in _FORMATS:
        raise UnknownOption(f"expected a path that ends in .png, .svg or .pdf, got {os.fspath(path)!r}")
    return ending


def _bars(attr: Attribution) -> Figure:
    labels = [drawable(t) for t in reading.labels(attr)]
    scores = reading.values(attr.scores)
    height = min(0.24 * len(labels), 40.0)
    figure, axes = heatmaps.canvas(_WIDTH, height + 1.1, reading.heading(attr))
    hues = [f"#{colors.SPECIAL if s else colors.strong(v)}" for v, s in zip(scores, attr.special, strict=True)]
    axes.barh(range(len(labels)), scores, height=0.78, color=hues)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    heatmaps.ticks(axes.yaxis, labels, 72 * height)
    axes.axvline(0, color="#444444", linewidth=0.8)
    axes.set_xlabel("score" + (" (grey: special tokens)" if any(attr.special) else ""), fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure


def _text(attr: Attribution) -> Figure:
    """Words one behind the other on their colours, broken into lines as a paragraph is."""
    shown = reading.parts(attr)
    scale = reading.scale(shown)
    size, line, margin = 12, 0.3, 0.15
    figure = Figure(figsize=(_WIDTH, 1))
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    font = FontProperties(family=families(), size=size)

    def measure(text: str) -> float:
        width: float = renderer.get_text_width_height_descent(text, font, ismath=False)[0]
        return width / figure.dpi

    blank, x, y = 0.07, margin, 0
    placed: list[tuple[float, int, float, str, reading.Part]] = []
    for part in shown:
        if part.opens or "\n" in part.before:
            x, y = margin, y + 1
        elif part.before and x > margin:
            x += blank
        for piece in _broken(drawable(" ".join(part.text.split())), measure, _WIDTH - 2 * margin):
            width = measure(piece) + 0.06
            if x + width > _WIDTH - margin and x > margin:
                x, y = margin, y + 1
            placed.append((x, y, width, piece, part))
            x += width
    top = 0.42
    height = top + line * (y + 1) + 0.62
    figure.set_size_inches(_WIDTH, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, _WIDTH), ylim=(height, 0))
    axes.axis("off")
    heatmaps.write(axes, margin, 0.2, reading.heading(attr), size=8, color="#555555", va="center")
    for x, y, width, piece, part in placed:
        at = top + line * y
        fill, ink = ("ffffff", "8a8a8a") if part.special else (scale.hex(part.score), scale.ink(part.score))
        axes.add_patch(Rectangle((x, at), width, line * 0.86, color=f"#{fill}", linewidth=0))
        heatmaps.write(axes, x + 0.03, at + line * 0.65, piece, size=size, color=f"#{ink}", va="baseline")
    _legend(axes, scale, margin, height - 0.3)
    return figure


def _broken(text: str, measure: Callable[[str], float], width: float) -> list[str]:
    """A word wider than the page in pieces that fit."""
    if measure(text) + 0.06 <= width or len(text) == 1:
        return [text]
    count = max(1, min(len(text) - 1, math.floor(len(text) * (width - 0.06) / measure(text))))
    return [text[:count], *_broken(text[count:], measure, width)]


def _legend(axes: Any, scale: colors.Scale, x: float, y: float) -> None:
    low, high = (reading.number(v) for v in scale.ends())
    heatmaps.write(axes, x, y, low, size=8, color="#555555", va="center")
    left = x + 0.08 + 0.07 * len(low)
    for i, step in enumerate(scale.steps(60)):
        box = (left + i * 0.025, y - 0.05)
        axes.add_patch(Rectangle(box, 0.026, 0.1, color=f"#{scale.hex(step)}", linewidth=0))
    heatmaps.write(axes, left + 1.58, y, high, size=8, color="#555555", va="center")
