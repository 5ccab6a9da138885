"""How memory goes with the number of texts: `python flat.py MODEL` prints MiB after each quarter of a run.

First of a run as it is, in one thread and in two, then of one that keeps what each window made ("leak"), as a run must
not.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import torch

torch.set_num_threads(1)

import mixlens  # noqa: E402
from mixlens.dataset import engines, explain  # noqa: E402

ROWS, QUARTERS = 256, 4
explain.WINDOW = 16
WORDS = "a deep and meaningful film not bad good slow very".split()


def texts():
    """Texts of one length, no two windows alike in their ids."""
    for i in range(ROWS):
        yield {"text": " ".join(WORDS[(i + k) % 10] for k in range(24)), "id": f"{i:0400d}", "note": f"{i:0190d}"}


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measured(lens: mixlens.Lens, name: str) -> None:
    seen: dict[int, float] = {}

    def progress(done: int, total: int | None) -> None:
        quarter = done * QUARTERS // ROWS
        if quarter and quarter not in seen:
            gc.collect()
            seen[quarter] = resident()

    mixlens.explain_data(lens, texts(), "alti", progress=progress)
    print(name, *(f"{mib:.1f}" for mib in seen.values()), flush=True)


def main() -> None:
    lens = mixlens.load(sys.argv[1])
    measured(lens, "warm")
    measured(lens, "flat")
    torch.set_num_threads(2)
    measured(lens, "warm")
    measured(lens, "flat")
    torch.set_num_threads(1)
    kept, whole = [], engines.rows_of

    def rows_of(*asked):
        rows = whole(*asked)
        kept.append([bytearray(20_000) for _ in rows])
        return rows

    engines.rows_of = rows_of
    measured(lens, "leak")


if __name__ == "__main__":
    main()
