"""A figure of a trace: a heatmap, the answer down, the prompt and the answer across."""

from __future__ import annotations

import math
import os

import numpy as np
from matplotlib.figure import Figure

from mixlens.view.kit import arrays, caption, colors, figures
from mixlens.view.kit.drawn_trace import UnitTrace
from mixlens.view.kit.style import Look
from mixlens.view.trace import bare, short

_ACROSS = 1600  # columns; of more, each dot is the largest of several


def figure(trace: UnitTrace, path: str | os.PathLike[str] | None = None, look: Look | None = None) -> Figure:
    """A heatmap of a trace by units, written to `path` if given. Raises UnknownOption, ResultFileError."""
    return figures.finish(_heatmap, path, trace, look=look)


def _heatmap(trace: UnitTrace) -> Figure:
    scores, k = _pooled(arrays.values(trace.scores))
    down, across = scores.shape
    width, height = min(14.0, max(5.0, 0.17 * across + 2.5)), min(12.0, max(0.8, 0.17 * down))
    wide, high = figures.fitted(width - 2.4, height, 2.4, 2.1)
    note = f"\neach dot is the largest of {k} sources across" if k > 1 else ""
    title = f"{caption.heading(bare(trace))}\nrow: answer ({trace.by[1]}), column: source ({trace.by[0]}){note}"
    drawn_on, axes = figures.canvas(width, height + 2.1, title)
    drawn = figures.image(axes, scores, colors.scale(scores.ravel()), aspect="auto")
    figures.ticks(axes.yaxis, [short(unit.name, 26) for unit in trace.answer], 72 * high)
    names = [short(unit.name, 20) for unit in trace.sources] if k == 1 else []
    figures.ticks(axes.xaxis, names, 72 * wide, rotation=90)
    first = next((j for j, unit in enumerate(trace.sources) if unit.where != "prompt"), None)
    if first is not None and first > 0:
        axes.axvline(first / k - 0.5, color="#444444", linewidth=0.8)
    axes.spines[:].set(color="#bbbbbb", linewidth=0.5)
    figures.color_bar(drawn_on, drawn)
    return drawn_on


def _pooled(scores: arrays.Array) -> tuple[arrays.Array, int]:
    """Columns cut to at most so many by keeping of each k in a row the score of the largest size; k."""
    k = math.ceil(scores.shape[1] / _ACROSS)
    if k == 1:
        return scores, 1
    blocks = np.pad(scores, ((0, 0), (0, -scores.shape[1] % k))).reshape(len(scores), -1, k)
    return np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0], k
