"""Figures: bars, coloured text, layer heatmaps, layer x token pictures, graphs; PNG, SVG or PDF.

Figures are made without pyplot, so nothing global is left behind and no display is needed. Token texts are never read
as formulas, and a character that no installed font has is drawn as `□`. Words of a text from right to left stand so;
the letters in them do from matplotlib 3.11 on (an SVG leaves them to its viewer).
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
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
from mixlens.view.direction import Direction, order
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
    says = reading.says(attr)
    title = reading.heading(attr) + (f"\n{says}" if says else "")
    figure, axes = heatmaps.canvas(_WIDTH, height + (1.3 if says else 1.1), title)
    hues = [f"#{colors.SPECIAL if s else colors.strong(v)}" for v, s in zip(scores, attr.special, strict=True)]
    axes.barh(range(len(labels)), scores, height=0.78, color=hues)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    heatmaps.ticks(axes.yaxis, labels, 72 * height)
    axes.axvline(0, color="#444444", linewidth=0.8)
    cut = _cut(axes, attr.special, scores)
    grey = "grey: special tokens" + ", cut where a number stands" * cut
    axes.set_xlabel("score" + (f" ({grey})" if any(attr.special) else ""), fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure


def _cut(axes: Any, special: Sequence[bool], scores: heatmaps.Array) -> bool:
    """End the axis with the words where a special token's bar would leave them none; its number stands there."""
    words = [v for v, s in zip(scores, special, strict=True) if not s]
    top = 1.25 * max(map(abs, words), default=0.0)
    beyond = [(i, v) for i, v in enumerate(scores) if abs(v) > top > 0]
    if not any(abs(v) > 3 * top for _, v in beyond):
        return False
    low, high = (-top * (min(scores) < 0), top * (max(scores) > 0))
    axes.set_xlim(low, high)
    for i, v in beyond:
        place: dict[str, Any] = {"ha": "left" if v < 0 else "right", "va": "center", "color": "#000000"}
        end = (low if v < 0 else high) * 0.985
        heatmaps.write(axes, end, i, reading.number(float(v)), size=7, **place)
    return True


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

    placed = _placed(shown, measure, margin)
    top = 0.42
    height = top + line * (1 + max(y for _, y, *_ in placed)) + 0.62
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


def _placed(
    shown: Sequence[reading.Part], measure: Callable[[str], float], margin: float
) -> list[tuple[float, int, float, str, reading.Part]]:
    """Left edge, line, width and text of every piece; a text from right to left begins at the right edge."""
    blank, room = 0.07, _WIDTH - 2 * margin
    rows: list[tuple[Direction, list[tuple[float, float, str, reading.Part]]]] = []  # of (gap before, width, ...)
    for way, words in reading.lines(shown):
        row: list[tuple[float, float, str, reading.Part]] = []
        rows.append((way, row))
        x = 0.0
        for part in words:
            gap = blank if part.before and row else 0.0
            if row and "\n" in part.before:
                rows.append((way, row := []))
                x = gap = 0.0
            for piece in _broken(drawable(" ".join(part.text.split())), measure, room):
                width = measure(piece) + 0.06
                if row and x + gap + width > room:
                    rows.append((way, row := []))
                    x = gap = 0.0
                row.append((gap, width, piece, part))
                x, gap = x + gap + width, 0.0
    out = []
    for y, (way, row) in enumerate(rows):
        total = sum(gap + width for gap, width, *_ in row)
        x, last = (_WIDTH - margin - total if way == "rtl" else margin), None
        for i in order(["" if part.special else piece for *_, piece, part in row], way):
            x += row[max(i, last)][0] if last is not None else 0.0
            _, width, piece, part = row[i]
            out.append((x, y, width, piece, part))
            x, last = x + width, i
    return out


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
