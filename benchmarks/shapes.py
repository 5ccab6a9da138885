"""What benchmarks share: a random model of BERT-base shape, and times as ratios to its own forward pass."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any

import torch

import mixlens


def bert_base() -> Any:
    """A lens on a random BertForSequenceClassification, 12 layers of 768, eager to be measured in float32."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    return mixlens.load(BertForSequenceClassification(BertConfig()).eval())


def text(n: int) -> list[int]:
    """Random token ids."""
    return torch.randint(1000, 30000, (n,), generator=torch.Generator().manual_seed(n)).tolist()


def picture(side: int) -> torch.Tensor:
    """Random pixels (channel, row, column)."""
    return torch.rand(3, side, side, generator=torch.Generator().manual_seed(side))


def forward(lens: Any, ids: list[int] | torch.Tensor) -> Callable[[], Any]:
    """The user's own forward pass over one text, one picture, or one sound."""
    if isinstance(ids, torch.Tensor):
        inputs = {lens.head.fed: ids[None]}
    else:
        inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}

    def run() -> Any:
        with torch.no_grad():
            return lens.model(**inputs)

    return run


def arguments(doc: str | None, repeats: int) -> Namespace:
    """Command line: `--repeats`, `--threads`, and `--cpu-time`, which a busy machine changes little (one thread)."""
    parser = ArgumentParser(description=doc)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1 if asked.cpu_time else asked.threads)
    return asked


def ratio(run: Callable[[], Any], unit: Callable[[], Any], asked: Namespace, *, units: int = 1) -> tuple[float, float]:
    """Median over repeats of the time of `run` in times of `unit`, and the median time of `unit`.

    Each repeat measures `units` passes before and as many after, so that a busy machine slows both alike.
    """
    clock = process_time if asked.cpu_time else perf_counter

    def seconds(run: Callable[[], Any]) -> float:
        start = clock()
        run()
        return clock() - start

    unit()
    found, times = [], []
    for _ in range(asked.repeats):
        before = seconds(lambda: [unit() for _ in range(units)])
        here = seconds(run)
        after = seconds(lambda: [unit() for _ in range(units)])
        times.append((before + after) / (2 * units))
        found.append(here / times[-1])
    return median(found), median(times)
