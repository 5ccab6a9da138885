"""Figures of a `Comparison`: methods by words, and the layer maps behind the methods."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from mixlens.errors import UnknownOption
from mixlens.view.comparison import heading, rating_text
from mixlens.view.kit import arrays, colors, figures, words
from mixlens.view.kit.drawn import Comparison
from mixlens.view.kit.fonts import drawable
from mixlens.view.kit.style import Look, points

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_RATED = "in brackets: faithful, 0: by chance, 1: the best order found"


def figure(
    comparison: Comparison, path: str | os.PathLike[str] | None = None, kind: str = "words", look: Look | None = None
) -> Figure:
    """`kind="words"`: methods down, words across; `"maps"`: methods down, their layers' maps across.

    Raises UnknownOption (kind, ending of the path) and ResultFileError.
    """
    if kind not in ("words", "maps"):
        raise UnknownOption(f"expected kind='words' or 'maps', got {kind!r}")
    if kind == "maps" and not comparison.maps:
        raise UnknownOption("expected a comparison with maps, got none; ask with compare(..., maps=True)")
    return figures.finish(_draw if kind == "words" else _draw_maps, path, comparison, look=look)


def _draw_maps(comparison: Comparison) -> Figure:
    """A row of maps a method, a map a layer, each row in shares of its largest score."""
    sheets = [arrays.values(m.scores) for m in comparison.maps.values()]
    depth = max(len(sheet) for sheet in sheets)
    pooled = [arrays.pooled(sheet, 64)[0] for sheet in sheets]
    shares = np.full((len(sheets), depth, *pooled[0].shape[1:]), np.nan)
    for row, sheet in zip(shares, pooled, strict=True):
        row[: len(sheet)] = sheet / (np.abs(sheet).max() or 1)
    unit = comparison.first.source.unit
    title = (
        f"{heading(comparison)}\nmaps behind each method: row: the {unit} that takes, column: the {unit} it takes from"
    )
    title += "\ncolours: shares of a method's largest score"
    return figures.mosaic(shares, title, [f"layer {k + 1}" for k in range(depth)], list(comparison.maps))


def _draw(comparison: Comparison) -> Figure:
    names = list(comparison.attributions)
    shown = [words.content(words.parts(attr)) for attr in comparison.attributions.values()]
    scales = [words.scale(parts) for parts in shown]
    shares = np.array([[s.share(p.score) for p in parts] for parts, s in zip(shown, scales, strict=True)])
    width = max(5.0, min(16.0, (2.8 if comparison.faithfulness else 2.2) + 0.42 * shares.shape[1]))
    notes = (
        [f"special {comparison.first.source.units} left out"]
        if len(shown[0]) < len(words.parts(comparison.first))
        else []
    )
    notes = [*([_RATED] if comparison.faithfulness else []), *notes]
    title = "\n".join([heading(comparison), *notes])
    around = 1.6 + 0.15 * len(notes)
    wide, height = figures.fitted(width - 2.2, 0.28 * len(names), 2.2, around)
    figure, axes = figures.canvas(width, height + around, title)
    image = figures.image(axes, shares, colors.Scale(1.0, any(s.signed for s in scales)), aspect="auto")
    rated = [f"{name} ({rating_text(comparison, name)})" for name in names] if comparison.faithfulness else names
    figures.ticks(axes.yaxis, rated, 72 * height)
    across = [drawable(" ".join(p.text.split())[:18]) for p in shown[0]]
    figures.ticks(axes.xaxis, across, 72 * wide, rotation=60)
    bar = figure.colorbar(image, ax=axes, fraction=0.03, pad=0.01)
    bar.set_label("share of a method's largest word", fontsize=points(7))
    bar.ax.tick_params(labelsize=points(7))
    return figure
