"""Pictures of an evaluation: rankings with what is indistinguishable, perturbation curves, method x layer heatmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.errors import UnknownOption, did_you_mean
from mixlens.files import PathLike
from mixlens.measure import MEASURES
from mixlens.measure.perturb import shares
from mixlens.view.kit import colors, figures
from mixlens.view.kit.drawn import Table
from mixlens.view.kit.fonts import drawable, families
from mixlens.view.kit.style import Look, points

if TYPE_CHECKING:
    from matplotlib.figure import Figure


KINDS = ("ranking", "curves", "heatmap", "layers")
MODEL = "model"
_NULL = "random"
_HUES = ("#0b6e99", "#d1495b", "#3a7d44", "#8e5aa8", "#c77f1a", "#4d4d4d", "#2a9d8f", "#a44a3f")
_DASHES = ("-", "--", "-.", ":")


def figure(table: Table, path: PathLike | None, *, kind: str, measure: str, look: Look | None = None) -> Figure:
    """A figure of a kind and a measure that go together (`chosen`). Raises ResultFileError."""
    draw = {"ranking": _ranking, "curves": _curves, "heatmap": _heatmap, "layers": _layers}[kind]
    return figures.finish(draw, path, table, measure, look=look)


def chosen(table: Table, kind: str, measure: str | None, ran: bool = True) -> str:
    """The named measure, or the first that has a picture of the kind. Raises UnknownOption where none has.

    `ran=False`: before the run, when a table holds nothing but what was asked; what no text defined is not known yet.
    """
    if kind not in KINDS:
        raise UnknownOption(f"expected a kind of figure, got {kind!r}{did_you_mean(kind, KINDS)}")
    able = [m for m in (*table.measures, *table.corpora) if (has if ran else _may)(table, kind, m)]
    if measure is None and not able:
        raise UnknownOption(f"no measure of this table has a picture of kind {kind!r}: {_WHY[kind]}")
    name = able[0] if measure is None else table.named(measure)
    if name not in able:
        raise UnknownOption(f"{measure} has no picture of kind {kind!r} in this table: {_WHY[kind]}")
    return name


_WHY = {
    "ranking": "it needs a measure with a better direction and a defined value",
    "curves": "it needs a perturbation measure whose levels are alike for all texts (aopc, log_odds, ...)",
    "heatmap": "it needs layers='each' or 'upto', and methods that have layers",
    "layers": "it needs a measure of the model's vectors (anisotropy, mdl_compression)",
}


def has(table: Table, kind: str, measure: str) -> bool:
    """Whether a measure has such a picture."""
    if not _may(table, kind, measure):
        return False
    if kind == "layers":
        return any(r.mean is not None for r in table.layers(measure))
    return kind != "ranking" or any(table.row(measure, m).n for m in table.methods)


def _may(table: Table, kind: str, measure: str) -> bool:
    """Whether what was asked for, whatever came of it, has such a picture."""
    if kind == "layers" or measure in table.corpora:
        return kind == "layers" and measure in table.corpora
    columns = [c for c in table.manifest["columns"] if c[0] == measure]
    if kind == "curves":
        return any(c[3] is not None for c in columns)
    if kind == "heatmap":
        return any(c[2] is not None for c in columns)
    return table.manifest["measures"][measure]["higher_is_better"] is not None


def leaders(table: Table, measure: str) -> tuple[str, ...]:
    """The best method and those indistinguishable from it; none where no direction is better."""
    if not has(table, "ranking", measure):
        return ()
    ranked = table.ranking(measure)
    best = ranked.names[0]
    alpha = 1 - table.level
    return (best, *(b for (a, b), pair in ranked.pairs.items() if a == best and not pair.p <= alpha))


def _ranking(table: Table, measure: str) -> Figure:
    """Methods from the best down with their intervals; a line joins those that are indistinguishable."""
    ranked = table.ranking(measure)
    names, count = list(ranked.names), len(ranked.names)
    height = 0.3 * count + 0.4
    figure, axes = figures.canvas(7.0, height + 1.2, f"{measure}: best on top; a line joins what is indistinguishable")
    for y, name in enumerate(names):
        row = table.row(measure, name)
        if row.mean is None or row.low is None or row.high is None:
            continue
        axes.plot([row.low, row.high], [y, y], color="#555555", linewidth=1.2)
        axes.plot([row.mean], [y], "o", color=_HUES[0], markersize=5)
    null = table.row(measure, names[0]).null
    if null is not None:
        axes.axvline(null, color="#999999", linewidth=1, linestyle="--")
        figures.write(axes, null, -0.62, "random", size=7, color="#777777", ha="center", va="bottom")
    low, high = axes.get_xlim()
    width = high - low
    joined = [group for group in ranked.groups if len(group) > 1]
    for i, group in enumerate(joined):
        x = high + width * (0.02 + 0.025 * i)
        ends = names.index(group[0]), names.index(group[-1])
        axes.plot([x, x], [ends[0] - 0.2, ends[1] + 0.2], color="#222222", linewidth=2.5, solid_capstyle="butt")
    axes.set_xlim(low, high + width * (0.03 + 0.025 * len(joined)))
    axes.set_ylim(count - 0.4, -1.1)
    figures.ticks(axes.yaxis, names, 72 * height)
    axes.set_xlabel(f"mean, with its {100 * table.level:g} % interval", fontsize=points(8))
    axes.tick_params(axis="x", labelsize=points(8))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _curves(table: Table, measure: str) -> Figure:
    """The answer's mean probability as tokens are taken out, a line a method; random scores dashed."""
    figure, axes = figures.canvas(7.0, 4.4, f"{measure}: the answer's mean probability as tokens go")
    taken = 100 * np.array(_shares(table, measure))
    for i, name in enumerate([*(m for m in table.methods if m != _NULL), _NULL]):
        curve = table.curve(measure, name)
        curve = curve[np.isfinite(curve[:, 0])]
        if not len(curve):
            continue
        there = np.isfinite(curve)
        mean = np.where(there, curve, 0.0).sum(0) / np.maximum(there.sum(0), 1)
        look: dict[str, Any] = {"color": _HUES[i % len(_HUES)], "linestyle": _DASHES[i // len(_HUES) % len(_DASHES)]}
        if name == _NULL:
            look = {"color": "#999999", "linestyle": "--"}
        axes.plot(taken, mean[1:], label=drawable(name), linewidth=1.6, marker="o", markersize=3, **look)
    axes.axhline(mean[0], color="#cccccc", linewidth=0.8)
    axes.set_ylim(0, 1.02)
    kept = getattr(MEASURES[table.manifest["measures"][measure]["measure"]], "kept", False)
    axes.set_xlabel(f"% of the removable tokens that are {'kept' if kept else 'taken out'}", fontsize=points(8))
    axes.set_ylabel("probability", fontsize=points(8))
    axes.tick_params(labelsize=points(8))
    for text in axes.legend(fontsize=points(7), frameon=False, ncols=2).get_texts():
        text.set(family=families(), parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _shares(table: Table, measure: str) -> tuple[float, ...]:
    return shares(table.manifest["measures"][measure]["options"]["levels"])


def _heatmap(table: Table, measure: str) -> Figure:
    """Methods down, layers across; the whole model's number stands behind the last layer."""
    rows = {m: [r for r in table.rows if r.method == m and table.is_of(r, measure)] for m in table.methods}
    rows = {m: each for m, each in rows.items() if any(r.layer is not None for r in each)}
    layers = sorted({r.layer for each in rows.values() for r in each if r.layer is not None})
    panel = np.full((len(rows), len(layers) + 2), np.nan)
    for y, each in enumerate(rows.values()):
        for r in each:
            if r.mean is not None:
                panel[y, layers.index(r.layer) if r.layer is not None else len(layers) + 1] = r.mean
    height = 0.34 * len(rows)
    width = 2.4 + 0.5 * panel.shape[1]
    figure, axes = figures.canvas(max(width, 5.0), height + 1.5, f"{measure} by layer")
    defined = panel[np.isfinite(panel)]
    scale = colors.scale(defined if len(defined) else np.zeros(1))
    drawn = figures.image(axes, np.ma.masked_invalid(panel), scale, aspect="auto")
    figures.ticks(axes.yaxis, list(rows), 72 * height)
    figures.ticks(axes.xaxis, [*(str(layer + 1) for layer in layers), "", "all"], 72 * (width - 2.0))
    axes.set_xlabel("layer", fontsize=points(8))
    axes.spines[:].set_visible(False)
    figure.colorbar(drawn, ax=axes, fraction=0.03, pad=0.01).ax.tick_params(labelsize=points(7))
    return figure


def _layers(table: Table, measure: str) -> Figure:
    """A measure of the model's vectors from the first layer to the last, with its interval; the null dashed."""
    rows = [r for r in table.layers(measure) if r.mean is not None and r.low is not None and r.high is not None]
    figure, axes = figures.canvas(6.0, 3.6, f"{measure} of the model's vectors, by layer")
    at = [0 if r.layer is None else r.layer + 1 for r in rows]
    axes.fill_between(at, [r.low or 0.0 for r in rows], [r.high or 0.0 for r in rows], color=_HUES[0], alpha=0.2)
    axes.plot(at, [r.mean for r in rows], color=_HUES[0], linewidth=1.6, marker="o", markersize=4)
    axes.plot(at, [np.nan if r.null is None else r.null for r in rows], color="#999999", linewidth=1, linestyle="--")
    axes.set_xticks(at, ["emb." if k == 0 else str(k) for k in at], fontsize=points(8))
    axes.set_xlabel(
        f"layer; the band is the {100 * table.level:g} % interval, dashed what chance gives", fontsize=points(8)
    )
    axes.tick_params(labelsize=points(8))
    axes.spines[["top", "right"]].set_visible(False)
    return figure
