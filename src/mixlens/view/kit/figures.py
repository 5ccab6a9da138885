"""Figures: canvas, panels, labels and colour bars on matplotlib, and the way to a PNG, SVG or PDF.

Figures are made without pyplot, so nothing global is left behind and no display is needed. Token texts are never read
as formulas, and a character that no installed font has is drawn as `□`. Words of a text from right to left stand so;
the letters in them do from matplotlib 3.11 on (an SVG leaves them to its viewer).
"""

from __future__ import annotations

import io
import math
import os
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from mixlens.errors import UnknownOption, did_you_mean
from mixlens.files import replacing
from mixlens.view.kit import colors
from mixlens.view.kit.arrays import Array
from mixlens.view.kit.fonts import drawable, families

_FORMATS: dict[str, dict[str, Any]] = {  # no dates and no salt of the hour: the same result gives the same file
    "png": {"metadata": {"Software": "mixlens"}},
    "svg": {"metadata": {"Date": None, "Creator": "mixlens"}},
    "pdf": {"metadata": {"CreationDate": None, "Creator": "mixlens", "Producer": "matplotlib"}},
}
# Text stays text in SVG (to be searched, read aloud, copied) and in PDF is of a kind that publishers take.
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "mixlens", "pdf.fonttype": 42}
_LOCK = threading.Lock()  # those settings are the process's, so one file is drawn at a time


class Picture(Figure):
    """A Figure with a picture of its own: made without pyplot, it has no other way onto a notebook's page."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=110, metadata={"Software": "mixlens"})
        return out.getvalue()


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


def choose(table: dict[str, Callable[..., Figure]], kind: str) -> Callable[..., Figure]:
    """What draws a figure of a kind. Raises UnknownOption."""
    if kind not in table:
        raise UnknownOption(f"expected a kind of figure, got {kind!r}{did_you_mean(kind, table)}")
    return table[kind]


def _format(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in _FORMATS:
        raise UnknownOption(f"expected a path that ends in .png, .svg or .pdf, got {os.fspath(path)!r}")
    return ending


def canvas(width: float, height: float, title: str) -> tuple[Figure, Any]:
    """A figure with one axes and a title, sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    headline(figure, title)
    return figure, figure.add_subplot()


def headline(figure: Figure, text: str) -> None:
    """A title at the left, broken into lines that the figure has room for."""
    room = int(13 * figure.get_figwidth())
    lines = [drawable(part) for line in text.split("\n") for part in textwrap.wrap(line, room) or [""]]
    figure.suptitle("\n".join(lines), fontsize=9, x=0.01, ha="left", family=families(), parse_math=False)


def write(axes: Any, x: float, y: float, text: str, *, size: float | int, **more: Any) -> None:
    """Text at data coordinates, never read as a formula."""
    axes.text(x, y, drawable(text), fontsize=size, family=families(), parse_math=False, **more)


def ticks(axis: Any, labels: list[str], points: float, rotation: int = 0) -> None:
    """A label a place, or every second, third, ... where `points` (72 an inch) leave no room for all."""
    step = max(1, math.ceil(6.5 * len(labels) / max(points, 1)))
    size = min(9.0, max(5.0, 0.8 * points / max(1, len(labels) / step)))
    places = range(0, len(labels), step)
    axis.set_ticks(list(places), [labels[i] and drawable(labels[i]) for i in places])
    for label in axis.get_ticklabels():
        label.set(fontsize=size, family=families(), rotation=rotation, parse_math=False)
    axis.set_tick_params(length=2 if step > 1 else 0)


def image(axes: Any, panel: Array, scale: colors.Scale, **more: Any) -> Any:
    """A panel (row, column) in the colours of `scale`."""
    hues = LinearSegmentedColormap.from_list("mixlens", colors.stops(scale.signed))
    low, high = scale.ends()
    return axes.imshow(
        panel, cmap=hues, norm=Normalize(low, high or 1.0), interpolation="nearest", **{"aspect": "equal", **more}
    )


def color_bar(figure: Figure, drawn: Any) -> None:
    """The scale of an image beside all axes of its figure."""
    height = figure.get_figheight()
    bar = figure.colorbar(drawn, ax=figure.axes, fraction=0.03, pad=0.01, aspect=25, shrink=min(1.0, 4 / height))
    bar.ax.tick_params(labelsize=7)


def mosaic(scores: Array, title: str, across: list[str], down: list[str]) -> Figure:
    """(down, across, row, column) as one image: 144 axes would take ten seconds to draw. NaN is left empty."""
    layers, heads, n, m = scores.shape
    gap = max(1, m // 10)
    sheet = np.full((layers, n + gap, heads, m + gap), np.nan)
    sheet[:, :n, :, :m] = scores.swapaxes(1, 2)
    size = max(0.5, min(2.2, 13 / heads))
    width, height = max(4.5, heads * size + 1.2), layers * size * (n + gap) / (m + gap) + 1.2
    figure, axes = canvas(width, height, title)
    sheet = sheet.reshape(layers * (n + gap), -1)[:-gap, :-gap]
    drawn = image(axes, sheet, colors.scale(scores[np.isfinite(scores)]))
    axes.set_facecolor("#d8d8d8")  # the gaps
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    axes.xaxis.set_ticks([h * (m + gap) + m / 2 for h in range(heads)], [drawable(name) for name in across])
    axes.yaxis.set_ticks([k * (n + gap) + n / 2 for k in range(layers)], [drawable(name) for name in down])
    axes.tick_params(length=0, labelsize=8 if size > 0.7 else 6)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(family=families(), parse_math=False)
    color_bar(figure, drawn)
    return figure


def layer_token(panels: Array, names: list[str], title: str, numbers: list[int], head: bool = False) -> Figure:
    """Pictures layer x token, `panels` (panel, layer, token), one below the other, the first layer at the bottom."""
    count, layers, n = panels.shape
    width = min(14.0, max(4.0, 0.32 * n + 1.6))
    height = min(max(0.22 * layers, 0.5), 6.0)
    figure = Figure(figsize=(width, count * (height + 0.25 * head) + 1.6), layout="constrained")
    FigureCanvasAgg(figure)
    scale, drawn = colors.scale(panels.ravel()), None
    for p in range(count):
        axes = figure.add_subplot(count, 1, p + 1)
        drawn = image(axes, panels[p], scale, origin="lower", aspect="auto")
        ticks(axes.yaxis, [str(number) for number in numbers], 72 * height)
        axes.set_ylabel(f"head {p + 1}\nlayer" if head else "layer", fontsize=8)
        last = p == count - 1 and len(names) == n
        ticks(axes.xaxis, names if last else [], 72 * (width - 1.4), rotation=90 if n > 12 else 45)
    headline(figure, title)
    color_bar(figure, drawn)
    return figure
