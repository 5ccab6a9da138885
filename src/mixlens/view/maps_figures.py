"""Figures of `LayerMaps`: a heatmap a layer, layers by positions of one row, and the graph of all layers."""

from __future__ import annotations

import math
import os

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from mixlens.view.kit import arrays, caption, colors, figures, style
from mixlens.view.kit.drawn import LayerMaps
from mixlens.view.kit.fonts import drawable
from mixlens.view.kit.style import Look

_PANEL = 160  # tokens a side of a panel; longer texts are pooled
_LINES = 4000  # of a graph, over all layers


def figure(
    maps: LayerMaps,
    path: str | os.PathLike[str] | None = None,
    row: int | str | None = None,
    kind: str = "heatmap",
    look: Look | None = None,
) -> Figure:
    """A figure of layer maps: `kind="heatmap"`, a heatmap a layer (a row of them where there are heads).

    With `row=i` (or `"max"`) a picture layer x token of one query row, layer 1 at the bottom (GlobEnc, Figure 1).
    `kind="graph"`: tokens as columns, layers from the bottom up, lines as weights (Abnar & Zuidema, Figure 1); with
    `row=i` only the lines into token i. Written to `path` if given. Raises UnknownOption (kind, row, ending of the
    path) and ResultFileError.
    """
    draw = figures.choose({"heatmap": grid, "graph": graph}, kind)
    if row is not None:
        maps.row(row)  # raises UnknownOption
        draw = rows if kind == "heatmap" else draw
    return figures.finish(draw, path, maps, *([] if row is None else [row]), look=look)


def pairs(
    maps: LayerMaps, heading: str, path: str | os.PathLike[str] | None = None, look: Look | None = None
) -> Figure:
    """The pairs of two streams as one heatmap, which no layer has made. Raises UnknownOption and ResultFileError."""
    return figures.finish(grid, path, maps, heading, look=look)


def grid(maps: LayerMaps, heading: str | None = None) -> Figure:
    """A heatmap a layer, query rows down and keys across; with heads a panel a head, a row of panels a layer.

    `heading`: in place of the maps' own.
    """
    scores, k = arrays.pooled(arrays.values(maps.scores), _PANEL if maps.heads is None else 64)
    title = heading or (
        f"{caption.heading(maps)}\nrow: the {maps.queries.unit} that takes, column: the {maps.keys.unit} it takes from"
    )
    title += f"\neach dot is the largest of {k} x {k} {arrays.units(maps)}" if k > 1 else ""
    if maps.heads is not None:
        heads, down = scores.shape[1], [f"layer {number}" for number in arrays.layers(maps)]
        return figures.mosaic(scores, title, [f"head {h + 1}" for h in range(heads)], down)
    rows, columns = _shape(len(scores))
    size = min(max(2.0, 0.105 * scores.shape[-1] + 0.5), 3.4) if k == 1 else 2.6
    wide, high = figures.fitted(columns * size, rows * size, 1.0, 1.2)
    if len(scores) == 1:
        figure, alone = figures.canvas(max(4.5, size + 1), size + 1.2, title)
        every = [alone]
    else:
        figures.refuse_ax(f"{len(scores)} layers (maps.layer(-1) has one)")
        figure = figures.sheet(max(4.5, columns * size + 1), rows * size + 1.2)
        every = [figure.add_subplot(rows, columns, layer + 1) for layer in range(len(scores))]
        figures.headline(figure, title)
    names = [drawable(t) for t in arrays.labels(maps, 12)] if k == 1 else []
    queries = [drawable(t) for t in arrays.query_labels(maps, 12)] if k == 1 else []
    drawn, scale = None, colors.scale(scores.ravel())
    room_across, room_down = 72 * (wide / columns - 0.4), 72 * (high / rows - 0.4)
    for layer, (number, panel, axes) in enumerate(zip(arrays.layers(maps), scores, every, strict=True)):
        drawn = figures.image(axes, panel, scale)
        if style.current().ax is None and heading is None:
            axes.set_title(f"layer {number}", fontsize=style.points(8))
        axes.spines[:].set(color="#bbbbbb", linewidth=0.5)
        left, below = layer % columns == 0, layer + columns >= len(scores)
        figures.ticks(axes.yaxis, queries if left and len(queries) == panel.shape[0] else [], room_down)
        figures.ticks(axes.xaxis, names if below and len(names) == panel.shape[1] else [], room_across, rotation=90)
    figures.color_bar(figure, drawn)
    return figure


def rows(maps: LayerMaps, row: int | str) -> Figure:
    """One query row of every layer, tokens across, layer 1 at the bottom; with heads a panel a head."""
    values = arrays.values(maps.row(row))
    panels = values.swapaxes(0, 1) if values.ndim == 3 else values[None]
    names = [drawable(t) for t in arrays.labels(maps)]
    shown = _into(maps, row) if isinstance(row, int) else "the largest over all query rows"
    title = f"{caption.heading(maps)}\n{shown}"
    return figures.layer_token(panels, names, title, arrays.layers(maps), head=maps.heads is not None)


def graph(maps: LayerMaps, row: int | str | None = None) -> Figure:
    """Tokens as columns, layers from the bottom up, a line from j below to i above as strong as the weight."""
    scores = arrays.values(maps.scores)
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
    names = [drawable(t) for t in arrays.labels(maps)]
    wide, height = figures.fitted(min(13.0, max(3.0, 0.36 * max(queries, keys))), min(10.0, 0.62 * layers), 1.0, 1.4)
    shown = _into(maps, row) if isinstance(row, int) else f"{len(order)} of {sizes.size} weights, the largest"
    shown += ", head mean" if maps.heads else ""
    figure, axes = figures.canvas(wide + 1, height + 1.4, f"{caption.heading(maps)}\n{shown}")
    shares = sizes[order] / (scale.top or 1)
    hues = [style.strong(v) for v in scores.ravel()[order]]
    lines = LineCollection(list(ends), colors=hues, linewidths=0.3 + 2.7 * shares, alpha=list(0.08 + 0.92 * shares))
    lines.set_zorder(1)
    axes.add_collection(lines)
    dots = np.array([(x, y) for y in range(layers + 1) for x in range(keys if y == 0 else queries)])
    axes.scatter(dots[:, 0], dots[:, 1], s=min(14, 900 / max(queries, keys)), color="#444444", zorder=2)
    axes.set(xlim=(-0.6, max(queries, keys) - 0.4), ylim=(-0.25, layers + 0.25))
    figures.ticks(axes.yaxis, ["input", *(str(k + 1) for k in range(layers))], 72 * height)
    axes.set_ylabel("layer", fontsize=style.points(8))
    figures.ticks(axes.xaxis, names if len(names) == keys else [], 72 * wide, rotation=90 if keys > 12 else 45)
    axes.spines[:].set_visible(False)
    return figure


def _into(maps: LayerMaps, row: int) -> str:
    return f"what flows into {arrays.row_name(maps, row)}"


def _shape(panels: int) -> tuple[int, int]:
    columns = panels if panels <= 3 else min(4 if panels <= 24 else 6, math.ceil(math.sqrt(panels)))
    return -(-panels // columns), columns
