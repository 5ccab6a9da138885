"""Figures of an `Attribution`: bars and coloured text."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle

from mixlens.capture.picture import Picture
from mixlens.capture.sound import Sound
from mixlens.view import picture, wave
from mixlens.view.kit import arrays, caption, colors, figures, spelling, words
from mixlens.view.kit.direction import Direction, order
from mixlens.view.kit.drawn import Attribution
from mixlens.view.kit.fonts import drawable, families
from mixlens.view.kit.style import Look, current, ground, points, strong

_WIDTH = 7.0  # inches


def figure(
    attr: Attribution, path: str | os.PathLike[str] | None = None, kind: str | None = None, look: Look | None = None
) -> Figure:
    """A figure of an attribution: `kind="bar"`, a bar a token from the first down, or `"text"`, coloured text; of a
    picture `"picture"`, which is its default, or `"bar"`; of a sound also `"wave"`, its default.

    Written to `path` if given. Raises UnknownOption (kind, ending of the path) and ResultFileError.
    """
    kinds = {"bar": _bars, "text": _text}
    if isinstance(attr.source, Picture):
        kinds = {"picture": picture.figure, "bar": _bars}
    elif isinstance(attr.source, Sound):
        kinds = {"wave": wave.figure, **kinds}
    return figures.finish(figures.choose(kinds, next(iter(kinds)) if kind is None else kind), path, attr, look=look)


def _bars(attr: Attribution) -> Figure:
    labels = [drawable(t) for t in arrays.labels(attr)]
    scores = arrays.values(attr.scores)
    says = caption.says(attr)
    around = 1.3 if says else 1.1
    _, height = figures.fitted(_WIDTH, min(0.24 * len(labels), 40.0), around=around)
    title = caption.heading(attr) + (f"\n{says}" if says else "")
    figure, axes = figures.canvas(_WIDTH, height + around, title)
    hues = [f"#{colors.SPECIAL}" if s else strong(v) for v, s in zip(scores, attr.special, strict=True)]
    axes.barh(range(len(labels)), scores, height=0.78, color=hues)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    figures.ticks(axes.yaxis, labels, 72 * height)
    axes.axvline(0, color="#444444", linewidth=0.8)
    cut = _cut(axes, attr.special, scores)
    grey = f"grey: special {attr.source.units}" + ", cut where a number stands" * cut
    axes.set_xlabel("score" + (f" ({grey})" if any(attr.special) else ""), fontsize=points(8))
    axes.tick_params(axis="x", labelsize=points(8))
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    return figure


def _cut(axes: Any, special: Sequence[bool], scores: arrays.Array) -> bool:
    """End the axis with the words where a special token's bar would leave them none; its number stands there."""
    kept = [v for v, s in zip(scores, special, strict=True) if not s]
    top = 1.25 * max(map(abs, kept), default=0.0)
    beyond = [(i, v) for i, v in enumerate(scores) if abs(v) > top > 0]
    if not any(abs(v) > 3 * top for _, v in beyond):
        return False
    low, high = (-top * (min(scores) < 0), top * (max(scores) > 0))
    axes.set_xlim(low, high)
    for i, v in beyond:
        place: dict[str, Any] = {"ha": "left" if v < 0 else "right", "va": "center", "color": "#000000"}
        end = (low if v < 0 else high) * 0.985
        figures.write(axes, end, i, spelling.number(float(v)), size=7, **place)
    return True


def _text(attr: Attribution) -> Figure:
    """Words one behind the other on their colours, broken into lines as a paragraph is."""
    figures.refuse_ax("a page of its own")
    shown = words.parts(attr)
    scale = words.scale(shown)
    given, larger = current(), points(1.0)
    page = _WIDTH if given.size is None else given.size[0]
    size, line, margin = 12, 0.3 * larger, 0.15
    figure = Figure(figsize=(page, 1))
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    font = FontProperties(family=families(), size=points(size))

    def measure(text: str) -> float:
        width: float = renderer.get_text_width_height_descent(text, font, ismath=False)[0]
        return width / figure.dpi

    placed = _placed(shown, measure, margin, page)
    title = caption.heading(attr) if given.title is None else given.title
    top = 0.42 if title else 0.12
    height = top + line * (1 + max(y for _, y, *_ in placed)) + 0.62
    height = height if given.size is None else max(height, given.size[1])  # no line is cut off
    figure.set_size_inches(page, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, page), ylim=(height, 0))
    axes.axis("off")
    if title:
        figures.write(axes, margin, 0.2, title, size=8, color="#555555", va="center")
    for x, y, width, piece, part in placed:
        at = top + line * y
        fill, ink = ("#ffffff", "#8a8a8a") if part.special else ground(scale, part.score)
        axes.add_patch(Rectangle((x, at), width, line * 0.86, color=fill, linewidth=0))
        figures.write(axes, x + 0.03, at + line * 0.65, piece, size=size, color=ink, va="baseline")
    _scale_bar(axes, scale, margin, height - 0.3)
    return figure


def _placed(
    shown: Sequence[words.Part], measure: Callable[[str], float], margin: float, page: float
) -> list[tuple[float, int, float, str, words.Part]]:
    """Left edge, line, width and text of every piece; a text from right to left begins at the right edge."""
    blank, room = points(0.07), page - 2 * margin
    rows: list[tuple[Direction, list[tuple[float, float, str, words.Part]]]] = []  # of (gap before, width, ...)
    for direction, line in words.lines(shown):
        row: list[tuple[float, float, str, words.Part]] = []
        rows.append((direction, row))
        x = 0.0
        for part in line:
            gap = blank if part.before and row else 0.0
            if row and "\n" in part.before:
                rows.append((direction, row := []))
                x = gap = 0.0
            for piece in _broken(drawable(" ".join(part.text.split())), measure, room):
                width = measure(piece) + 0.06
                if row and x + gap + width > room:
                    rows.append((direction, row := []))
                    x = gap = 0.0
                row.append((gap, width, piece, part))
                x, gap = x + gap + width, 0.0
    out = []
    for y, (direction, row) in enumerate(rows):
        total = sum(gap + width for gap, width, *_ in row)
        x, last = (page - margin - total if direction == "rtl" else margin), None
        for i in order(["" if part.special else piece for *_, piece, part in row], direction):
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


def _scale_bar(axes: Any, scale: colors.Scale, x: float, y: float) -> None:
    low, high = (spelling.number(v) for v in scale.ends())
    figures.write(axes, x, y, low, size=8, color="#555555", va="center")
    left = x + 0.08 + points(0.07) * len(low)
    for i, step in enumerate(scale.steps(60)):
        box = (left + i * 0.025, y - 0.05)
        axes.add_patch(Rectangle(box, 0.026, 0.1, color=ground(scale, step)[0], linewidth=0))
    figures.write(axes, left + 1.58, y, high, size=8, color="#555555", va="center")
