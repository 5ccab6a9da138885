"""Every GPU row of the benchmark's table in one run, under four minutes on an H100.

    PYTHONPATH=src python benchmarks/gpu.py [--json FILE] [--sweep] [--profile] [--smoke] [--device cuda] [--only NAME]

BERT-base shape, random weights, float32, TF32 off; whole calls (capture and the copy to the host included) against the
same model's own forward pass, which takes turns with them; the device is waited for before and after each; minima.
Then every mixing method on float32, bfloat16 and float16 models against the float64 model of the same weights.
`--smoke`: tiny sizes, for a look on the CPU. `--sweep`: other chunk sizes. `--profile`: where the time of a call goes.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor

import measure
import mixlens
from mixlens.decompose import terms, zeroing
from mixlens.mixing import MIXING

Call = Callable[[], Any]
HALF = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
AGREES = 0.98  # Spearman's rho with the float64 model, at least
SMALL = {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 64}
MINILM = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", help="rows whose name holds this")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args(argv)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    begun = perf_counter()
    card = torch.cuda.get_device_name() if asked.device == "cuda" else asked.device
    found: dict[str, Any] = {"card": card, **measure.machine(), "mixlens": mixlens.__version__, "rows": []}
    print(", ".join(f"{k} {v}" for k, v in found.items() if k != "rows"), flush=True)
    try:
        found["rows"] += timed(asked)
        found["precision"] = precision(asked)
    finally:  # what was measured is kept, whatever failed behind it
        found["took"] = perf_counter() - begun
        print(f"took {found['took']:.0f} s")
        if asked.json:
            asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return 0 if all(row["ok"] for row in found["precision"]) else 1


def bert(device: str, **shape: Any) -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**shape)).eval().to(device)


def text(n: int, seed: int = 0) -> list[int]:
    return torch.randint(1000, 30000, (n,), generator=torch.Generator().manual_seed(n + seed)).tolist()


# --- time ---


def timed(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """A row a call, printed as it is done."""
    model = bert(asked.device, **(SMALL if asked.smoke else {}))
    lens = mixlens.load(model)
    short, long, batch = (12, 24, 3) if asked.smoke else (128, 512, 32)
    rate = matrix_rate(asked.device, 256 if asked.smoke else 8192)
    print(f"float32 matrix product: {rate / 1e12:.1f} TFLOP/s")
    print(f"{'':34} {'ms':>9} {'median':>9} {'forward':>8} {'x':>7}  notes")
    rows = [{"name": "matrix_rate", "flops": rate}]
    one, two = text(short), text(long)
    many = [text(short, seed) for seed in range(batch)]
    cases: list[tuple[str, Call, list[list[int]], str]] = [
        ("value_zeroing", lambda: lens.mixing(one, "value_zeroing"), [one], "goal 25 ms"),
        ("value_zeroing", lambda: lens.mixing(many, "value_zeroing", batch_size=batch), many, "goal 60 %"),
        ("globenc", lambda: lens.mixing(one, "globenc"), [one], ""),
        ("globenc", lambda: lens.mixing(two, "globenc"), [two], "goal 2 x"),
        ("globenc", lambda: lens.mixing(many, "globenc", batch_size=batch), many, ""),
        ("alti", lambda: lens.mixing(one, "alti"), [one], ""),
        ("alti", lambda: lens.mixing(two, "alti"), [two], ""),
        ("alti", lambda: lens.mixing(many, "alti", batch_size=batch), many, ""),
        ("attention+rollout", lambda: lens.mixing(two, "attention").rollout(), [two], ""),
        ("attcat", lambda: lens.attribute(one, "attcat"), [one], ""),
        ("trans_att", lambda: lens.attribute(one, "trans_att"), [one], ""),
        ("blank_out", lambda: lens.attribute(one, "blank_out", replace=100), [one], f"{short} passes"),
        ("integrated_gradients", lambda: lens.attribute(one, "integrated_gradients", tolerance=1e9), [one], ""),
    ]
    for name, call, texts, note in cases:
        if asked.only and asked.only not in name:
            continue
        row = measured(name, call, forward(model, texts), asked, texts, note)
        if name == "value_zeroing":
            share(row, model.config, texts, rate)
        rows.append(row)
        print(line(row), flush=True)
        if asked.sweep and (name, len(texts[0])) in {("value_zeroing", short), ("alti", short), ("alti", long)}:
            rows += sweep(name, call, texts, asked)
        if asked.profile and len(texts) == 1:
            profile(call, asked.device)
    return rows


def forward(model: Any, texts: list[list[int]]) -> Call:
    ids = torch.tensor(texts, device=model.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def run() -> Any:
        with torch.no_grad():
            return model(**inputs)

    return run


def seconds(call: Call, device: str) -> float:
    wait(device)
    start = perf_counter()
    call()
    wait(device)
    return perf_counter() - start


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def measured(
    name: str, call: Call, unit: Call, asked: argparse.Namespace, texts: list[list[int]], note: str
) -> dict[str, Any]:
    """Minima and medians of the call and of the forward pass, which take turns; the first turn is thrown away."""
    runs = 2 if asked.smoke else asked.runs
    taken, units = [], []
    for turn in range(runs + 1):
        units.append(seconds(unit, asked.device))
        if asked.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        taken.append(seconds(call, asked.device))
        if turn and sum(taken) > 12:
            break
    best, base = min(taken[1:] or taken), min(units[1:] or units)
    row = {"name": name, "tokens": len(texts[0]), "texts": len(texts), "seconds": best, "median": median(taken[1:])}
    row |= {"forward": base, "ratio": best / base, "note": note}
    if asked.device == "cuda":
        row["peak_bytes"] = torch.cuda.max_memory_allocated() - before
    return row


def share(row: dict[str, Any], config: Any, texts: list[list[int]], rate: float) -> None:
    """The part of the card's measured rate at which the FFN's second product alone, on n^2 rows, was done."""
    rows = len(texts) * len(texts[0]) ** 2 * config.num_hidden_layers
    dim, width, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    row["share_of_rate"] = 2 * rows * dim * width / row["seconds"] / rate
    row["share_all_products"] = 2 * rows * (dim * width + heads * (dim + width)) / row["seconds"] / rate
    row["note"] += f"; {row['share_of_rate']:.0%} of the rate, {row['share_all_products']:.0%} with the head products"


def line(row: dict[str, Any]) -> str:
    name = f"{row['name']} {row['texts']} x {row['tokens']}"
    peak = f"; {row['peak_bytes'] / 2**20:.0f} MB" if "peak_bytes" in row else ""
    return (
        f"{name:34} {row['seconds'] * 1e3:9.2f} {row['median'] * 1e3:9.2f} {row['forward'] * 1e3:8.2f} "
        f"{row['ratio']:7.2f}  {row['note']}{peak}"
    )


def matrix_rate(device: str, n: int) -> float:
    """Floating-point operations a second of a float32 product of n x n matrices, the best of several."""
    a, b = torch.randn(2, n, n, device=device).unbind()
    return 2 * n**3 / min(seconds(lambda: a @ b, device) for _ in range(6))


@contextmanager
def sized(size: int) -> Iterator[None]:
    """Other chunk sizes, in both modules that have any."""
    places = [(m, name) for m in (terms, zeroing) for name in vars(m) if name.endswith("_BYTES")]
    old = [(m, name, getattr(m, name)) for m, name in places]
    try:
        for m, name in places:
            setattr(m, name, size)
        yield
    finally:
        for m, name, value in old:
            setattr(m, name, value)


def sweep(name: str, call: Call, texts: list[list[int]], asked: argparse.Namespace) -> list[dict[str, Any]]:
    out = []
    for mb in (1, 4) if asked.smoke else (32, 128, 512, 2048):
        with sized(mb << 20):
            best = min(seconds(call, asked.device) for _ in range(3))
        out.append({"name": f"sweep {name}", "texts": len(texts), "tokens": len(texts[0]), "mb": mb, "seconds": best})
        print(f"    chunks of {mb:5} MB: {best * 1e3:9.2f} ms", flush=True)
    return out


def profile(call: Call, device: str) -> None:
    """Where the time of one call goes, on the host and on the device."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as seen:
        call()
        wait(device)
    for by in ("self_cpu_time_total", "self_cuda_time_total")[: len(kinds)]:
        print(seen.key_averages().table(sort_by=by, row_limit=12, max_name_column_width=60), flush=True)


# --- precision ---


def precision(asked: argparse.Namespace) -> list[dict[str, Any]]:
    """Each mixing method on a model of each precision: NaN, and Spearman's rho with the same weights in float64.

    rho: over all pairs of tokens of a layer that can see each other; the worst and the mean layer.
    """
    shape = {**(SMALL if asked.smoke else MINILM), "initializer_range": 0.06}
    ids, out = text(16 if asked.smoke else 48), []
    print(f"{'rank agreement with float64':30} " + "".join(f"{kind:>18}" for kind in HALF))
    for name in MIXING:
        cells = []
        for kind, dtype in HALF.items():
            model = bert(asked.device, **shape).to(dtype)
            maps = mixlens.load(model).mixing(ids, name).scores
            wide = mixlens.load(copy.deepcopy(model).double()).mixing(ids, name).scores
            rhos = [rho(a, b) for a, b in zip(maps, wide, strict=True)]
            row = {"method": name, "dtype": kind, "worst": min(rhos), "mean": sum(rhos) / len(rhos)}
            row["finite"] = bool(torch.isfinite(maps).all())
            row["ok"] = row["finite"] and row["worst"] >= AGREES
            out.append(row)
            cells.append(f"{row['worst']:8.4f} {row['mean']:7.4f} {' ' if row['ok'] else '!'}")
        print(f"{name:30} " + "".join(f"{cell:>18}" for cell in cells), flush=True)
    return out


def rho(a: Tensor, b: Tensor) -> float:
    return float(spearmanr(a.double().flatten().numpy(), b.double().flatten().numpy()).statistic)


if __name__ == "__main__":
    sys.exit(main())
