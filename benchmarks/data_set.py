"""Every text of a data set explained and written, against plain batched inference on the same texts in the same run.

python benchmarks/data_set.py [--texts 872] [--runs 3] [--threads 2] [--methods globenc,attcat] [--workers 2]
    [--profile]

The embedded model (MiniLM, 6 layers), texts of SST-2's lengths made of the words of the bundled sentences; a share of
the rate of forward passes alone (tokenised, sorted and batched before the clock starts), in wall and in processor time.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from random import Random
from typing import Any

import torch

import measure
import mixlens
from mixlens.capture.batch import buckets, collate
from mixlens.tasks import SAMPLE, source

REACH = {"globenc": 0.6, "attcat": 0.3}
BATCH = 32


def texts_of(count: int) -> list[str]:
    """Texts of 2 to 60 words, 19 on average, as SST-2's."""
    draw = Random(0)
    words = [word for row in source(SAMPLE).rows() for word in row["text"].split()]
    return [" ".join(draw.choices(words, k=round(draw.triangular(2, 50, 10)))) for _ in range(count)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=872)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--methods", default=",".join(REACH))
    parser.add_argument("--workers", type=int, default=0, help="also by so many processes, and actors of Ray")
    parser.add_argument("--profile", action="store_true", help="where the time of a run goes, by function")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    lens, texts = mixlens.load(), texts_of(asked.texts)
    tokens = lens.subject.read(texts).require()
    names = frozenset(("input_ids", "attention_mask", "token_type_ids"))
    batches = [
        collate([tokens[i] for i in some], 0, lens.model.device, lens.model.dtype, names)
        for some in buckets(tokens, BATCH)
    ]

    @torch.no_grad()
    def forward() -> Any:
        return [lens.model(**inputs) for inputs in batches]

    calls: dict[str, measure.Call] = {"forward": forward}
    for method in asked.methods.split(","):
        calls[method] = lambda method=method: mixlens.explain_data(lens, texts, method, batch_size=BATCH)
        if asked.workers:
            for engine in ("local", "ray"):
                calls[f"{method} {engine}"] = lambda method=method, engine=engine: mixlens.explain_data(
                    lens, texts, method, batch_size=BATCH, workers=asked.workers, engine=engine
                )
        calls[f"attribute {method}"] = lambda method=method: lens.attribute(texts, method, batch_size=BATCH)
    if asked.profile:
        for name in asked.methods.split(","):
            calls[name]()
            with cProfile.Profile() as profile:
                calls[name]()
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return 0
    taken = measure.times(calls, asked.runs)
    plain = min(wall for wall, _ in taken["forward"])
    print(f"forward: {len(texts) / plain:.0f} texts a second, {sum(map(len, tokens)) / len(tokens):.1f} tokens each")
    missed = False
    for name in list(calls)[1:]:
        found = measure.ratios(taken["forward"], taken[name])
        reach = REACH.get(name)
        print(
            f"{name:20} {len(texts) / min(w for w, _ in taken[name]):6.1f} texts a second, {found['ratio']:.2f} of the "
            f"plain rate (processor time {found['cpu_ratio']:.2f})" + ("" if reach is None else f", reach {reach}"),
            flush=True,
        )
        missed |= reach is not None and found["ratio"] < reach
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
