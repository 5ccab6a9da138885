"""Pictures of layer maps: a grid of heatmaps, layer x token, and the graph; and what all figures draw with."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mixlens.view import colors, reading
from mixlens.view.fonts import drawable, families

if TYPE_CHECKING:
    from mixlens.results import LayerMaps

Array = NDArray[np.float64]
_PANEL = 160  # tokens a side of a panel; longer texts are pooled
_LINES = 4000  # of a graph, over all layers


def canvas(width: float, height: float, title: str) -> tuple[Figure, Any]:
    """A figure with one axes and a title, sizes in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    _title(figure, title)
    return figure, figure.add_subplot()


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


def pooled(scores: Array, side: int) -> tuple[Array, int]:
    """The last two axes cut to at most `side` by keeping of each k x k square the score of the largest size; k."""
    k = math.ceil(max(scores.shape[-2:]) / side)
    if k == 1:
        return scores, 1
    *lead, n, m = scores.shape
    grid = np.zeros((*lead, -(-n // k) * k, -(-m // k) * k))
    grid[..., :n, :m] = scores
    grid = grid.reshape(*lead, grid.shape[-2] // k, k, grid.shape[-1] // k, k).swapaxes(-3, -2)
    grid = grid.reshape(*grid.shape[:-2], k * k)
    return np.take_along_axis(grid, np.abs(grid).argmax(-1)[..., None], -1)[..., 0], k


def grid(maps: LayerMaps) -> Figure:
    """A heatmap a layer, query rows down and keys across; with heads a panel a head, a row of panels a layer."""
    scores, k = pooled(reading.values(maps.scores), _PANEL if maps.heads is None else 64)
    title = reading.heading(maps) + "\nrow: the token that takes, column: the token it takes from"
    title += f"\neach dot is the largest of {k} x {k} tokens" if k > 1 else ""
    if maps.heads is not None:
        heads, down = scores.shape[1], [f"layer {number}" for number in reading.layers(maps)]
        return mosaic(scores, title, [f"head {h + 1}" for h in range(heads)], down)
    rows, columns = _shape(len(scores))
    size = min(max(2.0, 0.105 * scores.shape[-1] + 0.5), 3.4) if k == 1 else 2.6
    figure = Figure(figsize=(max(4.5, columns * size + 1), rows * size + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    names = [drawable(t) for t in reading.labels(maps, 12)] if k == 1 else []
    queries = [drawable(t) for t in reading.query_labels(maps, 12)] if k == 1 else []
    drawn, scale, points = None, colors.scale(scores.ravel()), 72 * (size - 0.4)
    for layer, (number, panel) in enumerate(zip(reading.layers(maps), scores, strict=True)):
        axes = figure.add_subplot(rows, columns, layer + 1)
        drawn = image(axes, panel, scale)
        axes.set_title(f"layer {number}", fontsize=8)
        axes.spines[:].set(color="#bbbbbb", linewidth=0.5)
        left, below = layer % columns == 0, layer + columns >= len(scores)
        ticks(axes.yaxis, queries if left and len(queries) == panel.shape[0] else [], points)
        ticks(axes.xaxis, names if below and len(names) == panel.shape[1] else [], points, rotation=90)
    _title(figure, title)
    _bar(figure, drawn)
    return figure


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
    _bar(figure, drawn)
    return figure


def rows(maps: LayerMaps, row: int | str) -> Figure:
    """One query row of every layer, tokens across, layer 1 at the bottom; with heads a panel a head."""
    values = reading.values(maps.row(row))
    panels = values.swapaxes(0, 1) if values.ndim == 3 else values[None]
    names = [drawable(t) for t in reading.labels(maps)]
    shown = _into(maps, row) if isinstance(row, int) else "the largest over all query rows"
    title = f"{reading.heading(maps)}\n{shown}"
    return layer_token(panels, names, title, reading.layers(maps), head=maps.heads is not None)


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
    _title(figure, title)
    _bar(figure, drawn)
    return figure


def graph(maps: LayerMaps, row: int | str | None = None) -> Figure:
    """Tokens as columns, layers from the bottom up, a line from j below to i above as strong as the weight."""
    scores = reading.values(maps.scores)
    scores = scores.mean(1) if scores.ndim == 4 else scores
    layers, queries, keys = scores.shape
    if isinstance(row, int):
        scores = np.where(np.arange(queries)[:, None] == row % queries, scores, 0.0)
    scale = colors.scale(scores.ravel())
    sizes = np.abs(scores).ravel()
    order = np.argsort(-sizes, kind="stable")[:_LINES]
    order = order[sizes[order] > 0.01 * scale.top][::-1]  # the strongest on top
    layer, i, j = np.unravel_index(order, scores.shape)
    ends = np.stack([np.stack([j, layer], -1), np.stack([i, layer + 1], -1)], 1)
    names = [drawable(t) for t in reading.labels(maps)]
    width = min(14.0, max(4.0, 0.36 * max(queries, keys) + 1))
    height = min(10.0, 0.62 * layers)
    shown = _into(maps, row) if isinstance(row, int) else f"{len(order)} of {sizes.size} weights, the largest"
    shown += ", head mean" if maps.heads else ""
    figure, axes = canvas(width, height + 1.4, f"{reading.heading(maps)}\n{shown}")
    shares = sizes[order] / (scale.top or 1)
    hues = [f"#{colors.strong(v)}" for v in scores.ravel()[order]]
    lines = LineCollection(list(ends), colors=hues, linewidths=0.3 + 2.7 * shares, alpha=list(0.08 + 0.92 * shares))
    lines.set_zorder(1)
    axes.add_collection(lines)
    dots = np.array([(x, y) for y in range(layers + 1) for x in range(keys if y == 0 else queries)])
    axes.scatter(dots[:, 0], dots[:, 1], s=min(14, 900 / max(queries, keys)), color="#444444", zorder=2)
    axes.set(xlim=(-0.6, max(queries, keys) - 0.4), ylim=(-0.25, layers + 0.25))
    ticks(axes.yaxis, ["input", *(str(k + 1) for k in range(layers))], 72 * height)
    axes.set_ylabel("layer", fontsize=8)
    ticks(axes.xaxis, names if len(names) == keys else [], 72 * (width - 1), rotation=90 if keys > 12 else 45)
    axes.spines[:].set_visible(False)
    return figure


def _into(maps: LayerMaps, row: int) -> str:
    return f"what flows into {reading.row_name(maps, row)}"


def _title(figure: Figure, text: str) -> None:
    room = int(13 * figure.get_figwidth())
    lines = [drawable(part) for line in text.split("\n") for part in textwrap.wrap(line, room) or [""]]
    figure.suptitle("\n".join(lines), fontsize=9, x=0.01, ha="left", family=families(), parse_math=False)


def _shape(panels: int) -> tuple[int, int]:
    columns = panels if panels <= 3 else min(4 if panels <= 24 else 6, math.ceil(math.sqrt(panels)))
    return -(-panels // columns), columns


def image(axes: Any, panel: Array, scale: colors.Scale, **more: Any) -> Any:
    """A panel (row, column) in the colours of `scale`."""
    hues = LinearSegmentedColormap.from_list("mixlens", colors.stops(scale.signed))
    low, high = scale.ends()
    return axes.imshow(
        panel, cmap=hues, norm=Normalize(low, high or 1.0), interpolation="nearest", **{"aspect": "equal", **more}
    )


def _bar(figure: Figure, drawn: Any) -> None:
    height = figure.get_figheight()
    bar = figure.colorbar(drawn, ax=figure.axes, fraction=0.03, pad=0.01, aspect=25, shrink=min(1.0, 4 / height))
    bar.ax.tick_params(labelsize=7)
