"""Methods on the classifiers that come along: whose order of tokens empties the answer, and finds what people marked.

python experiments/encoders.py DATA [--texts 60] [--skip 0] [--out encoders]     (an hour; DATA:
docs/reproduction.md; goes on where it stopped)
"""

from __future__ import annotations

import gzip
import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import mixlens

SETS = {
    "sst2": ("mixlens:default", "sst2/dev.jsonl", "classification", ()),
    "paraphrase": ("mixlens:paraphrase", "paraphrase_mrpc/test.jsonl", "pairs", ()),
    "inference": ("mixlens:inference", "nli_snli/test.jsonl", "pairs", ()),
    "hate": ("mixlens:hate", "hatexplain/val.jsonl.gz", "rationales", ("auprc",)),
}
MEASURES = ("aopc",)
METHODS = (
    "random attention_rollout globenc alti value_zeroing attcat grads att_grads grad_sam trans_att saliency grad_l2 "
    "grad_x_input cp_lrp attn_lrp gim blank_out"
).split()
FIRST, OTHERS = "attn_lrp", ("random", "alti", "cp_lrp", "grads", "att_grads", "saliency")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--skip", type=int, default=0, help="so many texts first (held out: 60)")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("encoders"))
    asked = parser.parse_args()
    for name in asked.sets:
        model, path, task, further = SETS[name]
        lens = mixlens.load() if model == "mixlens:default" else mixlens.load(model)
        columns = {"rationale": "rationales", "text": "tokens"} if task == "rationales" else {}
        rows = [row for row in rows_of(asked.data / path) if task != "rationales" or row["rationales"]]
        table = mixlens.evaluate(
            lens,
            rows[asked.skip : asked.skip + asked.texts],
            asked.methods,
            [*MEASURES, *further],
            asked.out / name,
            task=mixlens.task(task, **columns),
        )
        print(f"\n{name}: {lens}, {asked.texts} texts\n", flush=True)
        for measure in (*MEASURES, *further):
            ranked = sorted((row for row in table if row.measure == measure), key=lambda row: -row.mean)
            for row in ranked:
                print(f"{measure:12} {row.method:22} {row.mean:6.3f} [{row.low:.3f}, {row.high:.3f}]", flush=True)
            for other in {*OTHERS} & {*asked.methods}:
                told = table.better(measure, FIRST, other)
                print(f"{FIRST} less {other}: {told.difference:.3f} [{told.low:.3f}, {told.high:.3f}]", flush=True)


if __name__ == "__main__":
    main()
