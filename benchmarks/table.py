"""The table of what a call may cost: whole calls against the same model's own forward pass, which takes turns.

Random weights of BERT-base shape, float32, one text; throughput: MiniLM's shape, texts as long as SST-2's dev set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import naive
import torch

import measure
import mixlens
from mixlens.capture.batch import buckets, collate

MB = 1 << 20
TEXTS = 872  # SST-2's dev set


@dataclass(frozen=True)
class Row:
    """`reach`: times a forward pass, at most; of `throughput` the share of the plain rate, at least."""

    name: str
    tokens: int
    reach: float
    call: Callable[[Any, list[int]], Any]
    attribution: bool = False


def _maps(method: str) -> Callable[[Any, list[int]], Any]:
    return lambda lens, ids: lens.mixing(ids, method)


def _scores(method: str) -> Callable[[Any, list[int]], Any]:
    return lambda lens, ids: lens.attribute(ids, method)


ROWS = (
    Row("globenc", 128, 1.6, _maps("globenc")),
    Row("globenc", 512, 1.8, _maps("globenc")),
    Row("alti", 128, 2.0, _maps("alti")),
    Row("alti", 512, 3.0, _maps("alti")),
    Row("attention_rollout", 512, 1.3, lambda lens, ids: lens.mixing(ids, "attention").rollout()),
    Row("attcat", 128, 2.5, _scores("attcat"), attribution=True),
    Row("trans_att", 128, 5.0, _scores("trans_att"), attribution=True),
    Row("value_zeroing", 32, 12.0, _maps("value_zeroing")),
    Row("value_zeroing", 128, 40.0, _maps("value_zeroing")),
)


def random_text(n: int) -> list[int]:
    return torch.randint(1000, 30000, (n,), generator=torch.Generator().manual_seed(n)).tolist()


def bert(head: bool, **shape: Any) -> Any:
    from transformers import BertConfig, BertForSequenceClassification, BertModel

    torch.manual_seed(0)
    return (BertForSequenceClassification if head else BertModel)(BertConfig(**shape)).eval()


def measured(runs: int, only: str | None = None) -> list[dict[str, Any]]:
    """Every row, printed as it is done."""
    models = {head: bert(head) for head in (False, True)}
    lenses = {head: mixlens.load(model) for head, model in models.items()}
    print(f"{'':24}{'forward':>9} | {'x':>6} {'median':>6} {'spread':>6} {'CPU x':>6} {'MB above':>9} | reach")
    out = []
    for row in ROWS:
        if only is None or row.name in only.split(","):
            out.append(_one(row, models[row.attribution], lenses[row.attribution], runs))
            print(line(out[-1]), flush=True)
    if only is None or "throughput" in only.split(","):
        out.append(throughput())
        print(line(out[-1]), flush=True)
    return out


@torch.no_grad()
def _one(row: Row, model: Any, lens: Any, runs: int) -> dict[str, Any]:
    ids = random_text(row.tokens)
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    calls: dict[str, measure.Call] = {"forward": lambda: model(**inputs), "call": lambda: row.call(lens, ids)}
    if row.name == "value_zeroing":
        calls["floor"] = lambda: naive.floor_of_value_zeroing(model, inputs)
    heavy = row.name == "value_zeroing" and row.tokens > 64
    taken = measure.times(calls, max(2, runs // 4) if heavy else runs)
    found: dict[str, Any] = {"name": row.name, "tokens": row.tokens, "reach": row.reach}
    found |= {"forward_seconds": min(t[0] for t in taken["forward"]), **measure.ratios(taken["call"], taken["forward"])}
    if "floor" in taken:
        found["floor"] = measure.ratios(taken["floor"], taken["forward"])["ratio"]
    used, plain = measure.peak(calls["call"]), measure.peak(calls["forward"])
    if used is not None and plain is not None:
        found["memory_above"] = used - plain
    return found | {"met": found["ratio"] <= row.reach}


@torch.no_grad()
def throughput(count: int = TEXTS, batch: int = 32) -> dict[str, Any]:
    """globenc over a data set's worth of texts, as a share of the rate of plain batched forward passes."""
    model = bert(True, num_hidden_layers=6, hidden_size=384, num_attention_heads=12, intermediate_size=1536)
    lens, draw = mixlens.load(model), Random(0)
    texts = [random_text(round(draw.triangular(4, 66, 18))) for _ in range(count)]
    tokens = lens.subject.read(texts).require()
    names = frozenset(("input_ids", "attention_mask"))
    batches = [
        collate([tokens[i] for i in some], 0, model.device, model.dtype, names) for some in buckets(tokens, batch)
    ]
    calls: dict[str, measure.Call] = {
        "forward": lambda: [model(**inputs) for inputs in batches],
        "call": lambda: lens.attribute(texts, "globenc", batch_size=batch),
    }
    taken = measure.times(calls, 3)
    found = measure.ratios(taken["forward"], taken["call"]) | {"forward_seconds": min(t[0] for t in taken["forward"])}
    row = {"name": "throughput", "tokens": sum(map(len, texts)) // count, "reach": 0.6, "texts": count}
    return row | found | {"met": found["ratio"] >= 0.6}


def line(row: dict[str, Any]) -> str:
    what = f"{row['name']} {row['tokens']}" + (f" x {row['texts']}" if "texts" in row else "")
    floor = f"; floor {row['floor']:.1f}, {row['ratio'] / row['floor']:.2f} times it" if "floor" in row else ""
    memory = f"{row['memory_above'] / MB:9.0f}" if "memory_above" in row else f"{'-':>9}"
    numbers = "".join(f" {row[key]:6.2f}" for key in ("ratio", "median", "spread", "cpu_ratio"))
    said = f"{row['reach']}{'' if row['met'] else ', not met'}{floor}"
    return f"{what:24}{row['forward_seconds'] * 1e3:6.0f} ms |{numbers} {memory} | {said}"


def comparison(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Two runs side by side; what was not measured alike is said first."""
    alike = ("machine", "python", "torch", "transformers", "threads")
    out = [f"{key}: {old.get(key)} -> {new.get(key)}" for key in alike if old.get(key) != new.get(key)]
    before = {(row["name"], row["tokens"]): row for row in old["rows"]}
    out.append(f"{'x forward':24}{'old':>8}{'new':>8}{'change':>8}")
    for row in new["rows"]:
        if (was := before.get((row["name"], row["tokens"]))) is not None:
            change = row["ratio"] / was["ratio"] - 1
            out.append(
                f"{row['name'] + ' ' + str(row['tokens']):24}{was['ratio']:8.2f}{row['ratio']:8.2f}{change:+8.0%}"
            )
    return "\n".join(out)
