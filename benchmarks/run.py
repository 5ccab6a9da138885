"""What a call costs, as ratios to the model's own forward pass in the same run.

    python -m benchmarks [--runs 9] [--only globenc,throughput] [--json FILE] [--compare OLD.json [NEW.json]]
    python -m benchmarks --lengths --depths [--runs 4] [--json FILE] [--plot FILE.png]
    python -m benchmarks --methods globenc,alti [--tokens 128] [--shape bert-base] [--no-naive] [--json FILE]

The first prints the table of `table.py` with the limits; `--compare` holds it (or NEW.json) against an earlier run. The
second: cost against length, and against depth. The third: mixing methods one by one, with the authors' way (`naive.py`)
beside them.
Whole calls, capture included, random weights, float32, one text, against the model as a user loads it (sdpa, no_grad).
Calls take turns; the ratio is that of the minima.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import growth
import naive
import table
import torch

import measure
import mixlens

SHAPES = {
    "bert-base": {},
    "minilm": {
        "num_hidden_layers": 6,
        "hidden_size": 384,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
}
METHODS = ("attention", "attention_rollout", "norm", "globenc", "alti", "value_zeroing")
FLOOR = "value_zeroing"
MB = 1 << 20


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--shape", choices=SHAPES, default="bert-base")
    parser.add_argument("--methods", help=f"mixing methods, with +rollout or without; 'all': {','.join(METHODS)}")
    parser.add_argument("--only", help="rows of the table")
    parser.add_argument("--lengths", action="store_true", help="cost against length, 16 to 512 tokens")
    parser.add_argument("--depths", action="store_true", help="cost against depth, 1 to 12 layers, 64 tokens")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture of --lengths and --depths")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-naive", action="store_true", help="leave out the authors' way")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--compare", type=Path, nargs="+", metavar="RUN", help="OLD.json, or OLD.json NEW.json")
    asked = parser.parse_args(argv)
    read = [json.loads(path.read_text(encoding="utf-8")) for path in asked.compare or ()]
    if len(read) < 2:
        torch.set_num_threads(asked.threads)
        found = measured(asked) if asked.methods else _table(asked)
        if asked.json:
            asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
        read.append(found)
    if asked.compare:
        sides = comparison if all("shape" in run for run in read) else table.comparison
        print(sides(*read[:2]))
    return 0


def _table(asked: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {**measure.machine(), "mixlens": mixlens.__version__, "runs": asked.runs}
    print(", ".join(f"{k} {v}" for k, v in found.items()), flush=True)
    if asked.lengths or asked.depths:
        runs = min(asked.runs, 4)
        found |= {"rows": [], "lengths": growth.lengths(runs) if asked.lengths else []}
        found |= {"depths": growth.depths(runs) if asked.depths else []}
        if asked.plot:
            growth.plot(found, asked.plot)
        return found
    return found | {"rows": table.measured(asked.runs, asked.only)}


def model(shape: str, tokens: int) -> Any:
    """A random BertModel of a shape, as `from_pretrained` would give it."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    return BertModel(BertConfig(**SHAPES[shape], max_position_embeddings=max(512, tokens))).eval()


@torch.no_grad()
def measured(asked: argparse.Namespace) -> dict[str, Any]:
    """Measure, printing a line a method as it is done; all of it comes back."""
    bert = model(asked.shape, asked.tokens)
    lens, eager = mixlens.load(bert), naive.eager(bert)
    ids = torch.randint(1000, 30000, (asked.tokens,), generator=torch.Generator().manual_seed(1)).tolist()
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    found: dict[str, Any] = {
        **measure.machine(),
        "mixlens": mixlens.__version__,
        **{name: getattr(asked, name) for name in ("shape", "tokens", "runs")},
        "rows": [],
    }
    print(", ".join(f"{k} {v}" for k, v in found.items() if k != "rows"))
    print(_HEAD)
    pass_peak = measure.peak(lambda: bert(**inputs))
    for name in METHODS if asked.methods == "all" else asked.methods.split(","):
        calls = {"call": _call(lens, ids, name), "forward": lambda: bert(**inputs)}
        notes = []
        if name in naive.NAIVE and not asked.no_naive:
            needed = naive.bytes_needed(name, bert.config, len(ids))
            if needed > 0.8 * measure.available():
                notes.append(f"the authors' way would take {needed / 2**30:.1f} GiB: not run")
            else:
                calls["naive"] = lambda name=name: naive.NAIVE[name](eager, inputs)
        if name == FLOOR:
            calls["floor"] = lambda: naive.floor_of_value_zeroing(bert, inputs)
        row = _row(name, calls, asked.runs, pass_peak)
        if notes:
            row["notes"] = notes
        found["rows"].append(row)
        print(line(row), flush=True)
    return found


def _call(lens: mixlens.Lens, ids: list[int], name: str) -> measure.Call:
    method, _, aggregation = name.partition("_" if name == "attention_rollout" else "+")
    if aggregation:
        return lambda: lens.mixing(ids, method).rollout()  # type: ignore[union-attr]
    return lambda: lens.mixing(ids, method)


def _row(name: str, calls: dict[str, measure.Call], runs: int, pass_peak: int | None) -> dict[str, Any]:
    taken = measure.times(calls, runs)
    row: dict[str, Any] = {"method": name, "forward_seconds": min(t[0] for t in taken["forward"])}
    for what in calls:
        if what != "forward":
            row[what] = measure.ratios(taken[what], taken["forward"])
    for what in ("call", "naive"):
        if what in calls and pass_peak:
            found = measure.peak(calls[what])
            if found is not None:
                row[what] |= {"memory_ratio": found / pass_peak, "memory_above": found - pass_peak}
    if "naive" in calls:
        ours, theirs = calls["call"]().scores, calls["naive"]()
        row["difference"] = float((ours - theirs).abs().max() / theirs.abs().max())
    return row


_HEAD = (
    f"{'':18} {'forward':>9} | {'x forward':>9} {'median':>7} {'spread':>6} {'CPU x':>6} "
    f"{'memory x':>8} {'MB above':>9} | {'naive x':>8} {'MB above':>9} | notes"
)


def line(row: dict[str, Any]) -> str:
    """One row of the table."""
    call, slow, notes = row["call"], row.get("naive"), list(row.get("notes", ()))
    if "floor" in row:
        notes.append(f"floor {row['floor']['ratio']:.1f} x (CPU {row['floor']['cpu_ratio']:.1f} x)")
    if "difference" in row:
        notes.append(f"naive differs by {row['difference']:.0e}")
    return (
        f"{row['method']:18} {row['forward_seconds'] * 1e3:6.0f} ms | {call['ratio']:9.2f} {call['median']:7.2f} "
        f"{call['spread']:6.2f} {call['cpu_ratio']:6.2f} {_memory(call)} | "
        + (f"{slow['ratio']:8.1f} {_memory(slow)[9:]}" if slow else f"{'':8} {'':9}")
        + f" | {', '.join(notes)}"
    )


def _memory(part: dict[str, float]) -> str:
    if "memory_ratio" not in part:
        return f"{'-':>8} {'-':>9}"
    return f"{part['memory_ratio']:8.1f} {part['memory_above'] / MB:9.0f}"


def comparison(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Two measurements side by side, by their ratios; what was not measured alike is said first."""
    alike = ("machine", "torch", "transformers", "threads", "shape", "tokens")
    out = [f"{key}: {old[key]} -> {new[key]}" for key in alike if old[key] != new[key]]
    before = {row["method"]: row["call"] for row in old["rows"]}
    out.append(
        f"{'x forward':18} {'old':>7} {'new':>7} {'change':>7} | {'CPU old':>7} {'new':>7} | {'MB above':>8} {'new':>7}"
    )
    for row in new["rows"]:
        if row["method"] not in before:
            continue
        a, b = before[row["method"]], row["call"]
        memory = [f"{x['memory_above'] / MB:.0f}" if "memory_above" in x else "-" for x in (a, b)]
        out.append(
            f"{row['method']:18} {a['ratio']:7.2f} {b['ratio']:7.2f} {b['ratio'] / a['ratio'] - 1:+7.0%} | "
            f"{a['cpu_ratio']:7.2f} {b['cpu_ratio']:7.2f} | {memory[0]:>8} {memory[1]:>7}"
        )
    return "\n".join(out)


if __name__ == "__main__":
    sys.exit(main())
