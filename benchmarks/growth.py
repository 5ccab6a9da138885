"""Cost against length and against depth: seconds of whole calls, the exponents of the growth, and a picture of both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import table
import torch

import measure
import mixlens

LENGTHS = (16, 32, 64, 128, 256, 512)
DEPTHS = (1, 2, 4, 8, 12)
TOKENS = 64  # of the text that deeper and deeper models read
METHODS = ("forward", "attention", "norm", "globenc", "alti", "value_zeroing")
LONGEST = {"value_zeroing": 128}


def lengths(runs: int, methods: Sequence[str] = METHODS) -> list[dict[str, Any]]:
    """Seconds at each length, 12 layers; the exponent is that of the last two doublings."""
    lens = mixlens.load(table.bert(False))
    return _grown("tokens", LENGTHS, methods, lambda n: (lens, table.random_text(n)), runs)


def depths(runs: int, methods: Sequence[str] = METHODS) -> list[dict[str, Any]]:
    """Seconds at each number of layers, 64 tokens."""
    lenses = {n: mixlens.load(table.bert(False, num_hidden_layers=n)) for n in DEPTHS}
    return _grown("layers", DEPTHS, methods, lambda n: (lenses[n], table.random_text(TOKENS)), runs)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log size, fitted to the last three sizes: seconds ~ size ** exponent."""
    logs = torch.tensor([sizes, seconds], dtype=torch.float64).log()[:, -3:]
    centred = logs - logs.mean(1, keepdim=True)
    return float((centred[0] * centred[1]).sum() / centred[0].square().sum())


def _grown(axis: str, sizes: Sequence[int], methods: Sequence[str], at: Any, runs: int) -> list[dict[str, Any]]:
    print(f"{'seconds at ' + axis:20}" + "".join(f"{n:>9}" for n in sizes) + f"{'exponent':>10}", flush=True)
    taken: dict[str, list[float]] = {method: [] for method in methods}
    for n in sizes:
        lens, ids = at(n)
        calls = {m: _call(lens, ids, m) for m in methods if axis != "tokens" or n <= LONGEST.get(m, n)}
        for method, times in measure.times(calls, runs if len(ids) < 256 else 2).items():
            taken[method].append(min(t[0] for t in times))
    out = []
    for method, seconds in taken.items():
        wide = list(sizes[: len(seconds)])
        out.append({"method": method, axis: wide, "seconds": seconds, "exponent": exponent(wide, seconds)})
        cells = "".join(f"{t:9.3f}" for t in seconds) + " " * 9 * (len(sizes) - len(wide))
        print(f"{method:20}{cells}{out[-1]['exponent']:10.2f}", flush=True)
    return out


def _call(lens: Any, ids: list[int], method: str) -> measure.Call:
    def forward() -> Any:
        with torch.no_grad():
            return lens.model(input_ids=torch.tensor([ids]))

    return forward if method == "forward" else lambda: lens.mixing(ids, method)


def plot(found: dict[str, Any], path: Path) -> None:
    """Both growths as straight lines on logarithmic axes, the exponents beside the names."""
    from matplotlib.figure import Figure

    kinds = [(kind, axis) for kind, axis in (("lengths", "tokens"), ("depths", "layers")) if found.get(kind)]
    figure = Figure(figsize=(5.2 * len(kinds), 4.2), layout="constrained")
    for axes, (kind, axis) in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        for row in found[kind]:
            label = f"{row['method']}, exponent {row['exponent']:.2f}"
            axes.loglog(row[axis], row["seconds"], marker="o", markersize=3, label=label)
        ticks = sorted({n for row in found[kind] for n in row[axis]})
        axes.set_xticks(ticks, [str(n) for n in ticks])
        axes.minorticks_off()
        axes.set_xlabel(f"{axis} ({'12 layers' if axis == 'tokens' else f'{TOKENS} tokens'})")
        axes.set_ylabel("seconds a call")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(path, dpi=110)
