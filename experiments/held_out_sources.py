"""Five methods on planted prompts of seeds that no default was chosen on, with paired differences to the default.

python experiments/held_out_sources.py [--items 30] [--out held-out]     (half an hour; goes on where it stopped)
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import numpy as np

import mixlens
from mixlens.tasks.planted import planted

TASKS = {
    "variables": ("variables", {"steps": 2, "chains": 2}),
    "indirect object": ("ioi", {}),
    "agreement": ("agreement", {"attractors": 1}),
}
METHODS = (
    ("random", "random", {}),
    ("head_logit", "head_logit", {}),
    ("head_logit, signed", "head_logit", {"signed": True}),
    ("attn_lrp", "attn_lrp", {}),
    ("gim", "gim", {}),
)
SEEDS = (10, 11, 12)
RESAMPLES = 10_000


def interval(values: np.ndarray) -> str:
    """The mean and its 95 % bootstrap over items."""
    at = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[at].mean(1), (0.025, 0.975))
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("held-out"))
    asked = parser.parse_args()
    lens = mixlens.load("mixlens:smollm2")
    for task, (kind, options) in TASKS.items():
        parts = []
        for seed in SEEDS:
            made = planted(kind, 2 * asked.items, seed=seed, **options)
            folder = asked.out / f"{kind}-{seed}"
            wrong = set(mixlens.evaluate(lens, made, ["random"], ["mrr"], folder.with_name(f"{folder.name}-all")).wrong)
            right = [example for example in made if example.id not in wrong][: asked.items]
            table = mixlens.evaluate(lens, right, METHODS, ["mrr"], folder)
            parts.append(np.stack([table.values("mrr", label) for label, _, _ in METHODS]))
        values = np.concatenate(parts, 1)
        print(f"{task}: {values.shape[1]} prompts")
        for (label, _, _), row in zip(METHODS, values, strict=True):
            print(f"  {label:20} {interval(row)}   less head_logit {interval(row - values[1])}")


if __name__ == "__main__":
    main()
