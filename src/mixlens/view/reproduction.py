"""Figures of reproductions: methods by columns as coloured cells, or lines over layers with their intervals."""

from __future__ import annotations

import math
import os
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from mixlens.view.kit.figures import save


def panel(panel: Any, path: str | os.PathLike[str] | None = None) -> Figure:
    """A panel (see `reproduce.findings.Panel`) in its own shape; written to `path` if given."""
    figure = {"lines": _lines, "text": _scores}.get(panel.shape, _cells)(panel)
    if path is not None:
        save(figure, path)
    return figure


def _means(panel: Any) -> np.ndarray:
    out = np.full((len(panel.rows), len(panel.columns)), np.nan)
    for r, row in enumerate(panel.rows):
        for c, column in enumerate(panel.columns):
            summary = panel.summary(row, column)
            if summary is not None:
                out[r, c] = summary.mean
    return out


def _cells(panel: Any) -> Figure:
    """The best cell is darkest, whichever direction is better; of each column, or of all ("grid")."""
    means = _means(panel)
    rows, columns = means.shape
    figure = Figure(figsize=(2.4 + 0.85 * columns, 1.3 + 0.34 * rows), layout="constrained")
    axes = figure.add_subplot()
    shades = np.zeros_like(means)
    for c, column in enumerate(panel.columns):
        sign = panel.better.get(column, 1)
        values = np.abs(means[:, c]) if sign == 0 else sign * means[:, c]
        within = values if panel.shape == "heatmap" else sign * means if sign else np.abs(means)
        known = within[np.isfinite(within)]
        low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
        shades[:, c] = (values - low) / (high - low) if high > low else 0.5
    axes.imshow(shades, cmap="Blues", vmin=-0.1, vmax=1.3, aspect="auto")
    for r in range(rows):
        for c in range(columns):
            if math.isfinite(means[r, c]):
                colour = "white" if shades[r, c] > 0.8 else "black"
                axes.text(c, r, f"{means[r, c]:.2f}", ha="center", va="center", fontsize=7.5, color=colour)
    long = max(map(len, panel.columns)) > 6
    axes.set_xticks(
        range(columns),
        panel.columns,
        rotation=30 if long else 0,
        ha="right" if long else "center",
        fontsize=8,
    )
    axes.set_yticks(range(rows), panel.rows, fontsize=8)
    axes.set_title(panel.title, fontsize=9)
    return figure


def _scores(panel: Any) -> Figure:
    """A text's scores: blue for, red against, each row by its own largest."""
    means = _means(panel)
    rows, columns = means.shape
    largest = np.abs(means).max(1, keepdims=True)
    shades = np.divide(means, largest, out=np.zeros_like(means), where=largest > 0)
    figure = Figure(figsize=(1.8 + 0.42 * columns, 1.2 + 0.3 * rows), layout="constrained")
    axes = figure.add_subplot()
    axes.imshow(shades, cmap="RdBu", vmin=-1.2, vmax=1.2, aspect="auto")
    for r, c in np.ndindex(rows, columns):
        colour = "white" if abs(shades[r, c]) > 0.75 else "black"
        axes.text(c, r, f"{means[r, c]:.2f}", ha="center", va="center", fontsize=5.5, color=colour)
    axes.set_xticks(range(columns), [c.partition(" ")[2] or c for c in panel.columns], rotation=60, ha="right")
    axes.tick_params(labelsize=7)
    axes.set_yticks(range(rows), panel.rows, fontsize=7)
    axes.set_title(panel.title, fontsize=8, parse_math=False)
    for label in axes.get_xticklabels():
        label.set_parse_math(False)
    return figure


def _lines(panel: Any) -> Figure:
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    colours = matplotlib.color_sequences["tab10"] if len(panel.rows) <= 10 else matplotlib.color_sequences["tab20"]
    at = np.arange(len(panel.columns))
    for r, row in enumerate(panel.rows):
        summaries = [panel.summary(row, column) for column in panel.columns]
        means, low, high = (
            np.array([np.nan if f is None else getattr(f, name) for f in summaries]) for name in ("mean", "low", "high")
        )
        axes.plot(at, means, marker="o", markersize=3, color=colours[r], label=row, linewidth=1.4)
        axes.fill_between(at, low, high, color=colours[r], alpha=0.18, linewidth=0)
    axes.set_xticks(at, panel.columns, fontsize=8)
    axes.set_xlabel("layer", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.set_title(panel.title, fontsize=9)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=7, frameon=False, loc="best")
    return figure
