"""How memory goes with the number of texts: `python flat.py` prints a line of JSON for each 64 texts.

First of a run as it is, then of one that keeps every chunk ("leak"), as a run must not: what is measured can be seen.
"""

from __future__ import annotations

import gc
import json
import os
from itertools import islice, permutations
from pathlib import Path

import torch

torch.set_num_threads(1)

import mixlens  # noqa: E402
from mixlens.evaluation import chunk, windows  # noqa: E402
from mixlens.tasks import SAMPLE, source  # noqa: E402

STEP = 64
windows.WINDOW, windows.CHUNK = STEP, STEP // 2


def texts(count: int):
    """Pairs of short sentences, no two alike, in an order in which no window is longer than the first."""
    sentences = sorted((row["text"] for row in source(SAMPLE).rows()), key=len)[21::-1]
    return islice(permutations(sentences, 2), count)


def resident() -> float:
    """MiB of the process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measured(lens: mixlens.Lens, name: str, count: int) -> None:
    seen = set()

    def progress(done: int, total: int | None) -> None:
        if done and done % STEP == 0 and done not in seen:
            seen.add(done)
            gc.collect()
            facts = {"run": name, "texts": done, "mib": resident(), "objects": len(gc.get_objects())}
            print(json.dumps(facts), flush=True)

    measures = ["special_rank", ("half", "aopc", {"levels": [0.5]})]
    mixlens.evaluate(lens, texts(count), ["alti"], measures, task="pairs", resamples=2, progress=progress)


def main() -> None:
    lens = mixlens.load("mixlens:inference")
    measured(lens, "flat", 4 * STEP)
    kept, whole = [], chunk.scored

    def scored(*args):
        kept.append(whole(*args))
        return kept[-1]

    chunk.scored = scored
    measured(lens, "leak", 3 * STEP)


if __name__ == "__main__":
    main()
