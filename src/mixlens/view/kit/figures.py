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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.text import Text

from mixlens.errors import UnknownOption, did_you_mean
from mixlens.files import replacing
from mixlens.view.kit import colors, style
from mixlens.view.kit.arrays import Array
from mixlens.view.kit.fonts import drawable, families
from mixlens.view.kit.style import points

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


def save(figure: Figure, path: str | os.PathLike[str], dpi: float = style.DPI) -> Path:
    """Write a figure, whole or not at all. Raises UnknownOption and ResultFileError."""
    form = _format(path)
    with replacing(path) as temporary, _LOCK, matplotlib.rc_context(_SETTINGS):  # type: ignore[arg-type]
        figure.savefig(temporary, format=form, dpi=dpi, **_FORMATS[form])
    return Path(path)


def finish(
    draw: Callable[..., Figure], path: str | os.PathLike[str] | None, *args: Any, look: Mapping[str, Any] | None = None
) -> Figure:
    """Draw as `look` says, and write to `path` if given, whose ending is checked before the work.

    A notebook shows the figure. Raises UnknownOption and ResultFileError.
    """
    if path is not None:
        _format(path)  # before the work
    chosen = style.style_of(look or {})
    if path is not None and chosen.ax is not None:
        raise UnknownOption("expected path= or ax=, got both: the figure of given Axes is yours to save")
    with style.styled(chosen):
        figure = draw(*args)
        texts: list[Any] = (figure if chosen.ax is None else chosen.ax).findobj(Text)
        for text in texts:
            if chosen.font is not None:
                text.set_family(families())
            if chosen.ax is None or not text.get_parse_math():
                text.set_usetex(False)  # a token, or a %, is no TeX, whatever `text.usetex` says
    if chosen.ax is None:
        figure.__class__ = Picture
    if path is not None:
        save(figure, path, chosen.dpi)
    return figure


def refuse_ax(count: str) -> None:
    """Raises UnknownOption where Axes were given for a figure that has others."""
    if style.current().ax is not None:
        raise UnknownOption(f"ax= is for figures of one Axes, this one has {count}; leave it out, and add the figure")


def fitted(wide: float, high: float, beside: float = 0.0, around: float = 0.0) -> tuple[float, float]:
    """Width and height of a figure's Axes in inches, of a figure that has so much beside and around them: as wanted, or
    what the caller's size, or the caller's Axes, leave.
    """
    chosen = style.current()
    if chosen.ax is not None:
        box = chosen.ax.get_window_extent()
        dots = chosen.ax.figure.dpi
        return box.width / dots, box.height / dots
    if chosen.size is None:
        return wide, high
    larger = points(1.0)
    return max(0.3, chosen.size[0] - larger * beside), max(0.3, chosen.size[1] - larger * around)


def sheet(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches, or of the caller's size."""
    figure = Figure(figsize=style.current().size or (width, height), layout="constrained")
    FigureCanvasAgg(figure)
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


def canvas(width: float, height: float, title: str) -> tuple[Any, Any]:
    """A figure with one axes and a title, sizes in inches."""
    given = style.current().ax
    if given is not None:
        words = style.current().title
        if words:
            given.set_title(drawable(words), fontsize=points(9), loc="left", family=families(), parse_math=False)
        return given.figure, given
    figure = sheet(width, height)
    headline(figure, title)
    return figure, figure.add_subplot()


def headline(figure: Figure, text: str) -> None:
    """A title at the left, broken into lines that the figure has room for: the caller's where there is one."""
    given = style.current().title
    text = text if given is None else given
    if not text:
        return
    room = max(8, int(13 * figure.get_figwidth() * 9 / points(9)))
    lines = [drawable(part) for line in text.split("\n") for part in textwrap.wrap(line, room) or [""]]
    figure.suptitle("\n".join(lines), fontsize=points(9), x=0.01, ha="left", family=families(), parse_math=False)


def write(axes: Any, x: float, y: float, text: str, *, size: float | int, **more: Any) -> None:
    """Text at data coordinates, never read as a formula."""
    axes.text(x, y, drawable(text), fontsize=points(size), family=families(), parse_math=False, **more)


def ticks(axis: Any, labels: list[str], room: float, rotation: int = 0) -> None:
    """A label a place, or every second, third, ... where `room` (72 points an inch) is not enough for all."""
    step = max(1, math.ceil(points(6.5) * len(labels) / max(room, 1)))
    size = min(points(9.0), max(points(5.0), 0.8 * room / max(1, len(labels) / step)))
    places = range(0, len(labels), step)
    axis.set_ticks(list(places), [labels[i] and drawable(labels[i]) for i in places])
    for label in axis.get_ticklabels():
        label.set(fontsize=size, family=families(), rotation=rotation, parse_math=False)
    axis.set_tick_params(length=2 if step > 1 else 0)


def image(axes: Any, panel: Array, scale: colors.Scale, **more: Any) -> Any:
    """A panel (row, column) in the colours of `scale`."""
    low, high = scale.ends()
    hues = style.color_map(scale.signed)
    more = {"aspect": "equal", "interpolation": "nearest", **more}
    return axes.imshow(panel, cmap=hues, norm=Normalize(low, high or 1.0), **more)


def color_bar(figure: Figure, drawn: Any) -> None:
    """The scale of an image beside all axes of its figure."""
    height = figure.bbox.height / figure.dpi  # of a SubFigure too
    given = style.current().ax
    axes = figure.axes if given is None else given
    bar = figure.colorbar(drawn, ax=axes, fraction=0.03, pad=0.01, aspect=25, shrink=min(1.0, 4 / height))
    bar.ax.tick_params(labelsize=points(7))


def mosaic(scores: Array, title: str, across: list[str], down: list[str]) -> Figure:
    """(down, across, row, column) as one image: 144 axes would take ten seconds to draw. NaN is left empty."""
    layers, heads, n, m = scores.shape
    gap = max(1, m // 10)
    whole = np.full((layers, n + gap, heads, m + gap), np.nan)
    whole[:, :n, :, :m] = scores.swapaxes(1, 2)
    size = max(0.5, min(2.2, 13 / heads))
    width, height = max(4.5, heads * size + 1.2), layers * size * (n + gap) / (m + gap) + 1.2
    figure, axes = canvas(width, height, title)
    whole = whole.reshape(layers * (n + gap), -1)[:-gap, :-gap]
    drawn = image(axes, whole, colors.scale(scores[np.isfinite(scores)]))
    axes.set_facecolor("#d8d8d8")  # the gaps
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    axes.xaxis.set_ticks([h * (m + gap) + m / 2 for h in range(heads)], [drawable(name) for name in across])
    axes.yaxis.set_ticks([k * (n + gap) + n / 2 for k in range(layers)], [drawable(name) for name in down])
    axes.tick_params(length=0, labelsize=points(8 if size > 0.7 else 6))
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set(family=families(), parse_math=False)
    color_bar(figure, drawn)
    return figure


def layer_token(panels: Array, names: list[str], title: str, numbers: list[int], head: bool = False) -> Figure:
    """Pictures layer x token, `panels` (panel, layer, token), one below the other, the first layer at the bottom."""
    count, layers, n = panels.shape
    width = min(14.0, max(4.0, 0.32 * n + 1.6))
    height = min(max(0.22 * layers, 0.5), 6.0)
    wide, high = fitted(width - 1.4, count * height, 1.4, count * 0.25 * head + 1.6)
    if count > 1:
        refuse_ax(f"{count} heads")
        figure = sheet(width, count * (height + 0.25 * head) + 1.6)
        every = [figure.add_subplot(count, 1, p + 1) for p in range(count)]
        headline(figure, title)
    else:
        figure, alone = canvas(width, height + 0.25 * head + 1.6, title)
        every = [alone]
    scale, drawn = colors.scale(panels.ravel()), None
    for p, axes in enumerate(every):
        drawn = image(axes, panels[p], scale, origin="lower", aspect="auto")
        ticks(axes.yaxis, [str(number) for number in numbers], 72 * high / count)
        axes.set_ylabel(f"head {p + 1}\nlayer" if head else "layer", fontsize=points(8))
        last = p == count - 1 and len(names) == n
        ticks(axes.xaxis, names if last else [], 72 * wide, rotation=90 if n > 12 else 45)
    color_bar(figure, drawn)
    return figure
