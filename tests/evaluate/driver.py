"""A driver that kills evaluations: `python killing.py MODEL FOLDER`; prints the tables' digests, one a line.

It forks instead of starting a Python for each death: nothing may have started torch's threads before.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

import torch

torch.set_num_threads(1)

import mixlens
from mixlens.evaluation import log, run

WORDS = "a deep and meaningful film not bad good slow very".split()
TEXTS = [" ".join(WORDS[(i * k) % 10] for k in range(1, 3 + i % 7)) + " ." for i in range(44)] + ["", "a " * 40]
run.WINDOW, run.CHUNK = 20, 6  # several of both


def evaluate(lens: mixlens.Lens, folder: Path, progress: object = None) -> None:
    mixlens.evaluate(lens, iter(TEXTS), ["alti"], ["spearman", "aopc"], folder, resamples=20, progress=progress)


def in_child(work: object, seconds: float | None = None) -> int:
    """Run `work` in a fork, killed after so many seconds; how it ended (a signal is negative)."""
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(number: int):
    """A progress that is the end at its n-th call."""
    calls = 0

    def progress(done: int, total: int | None) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            die()

    return progress


def torn(share: float, chunk: int):
    """An `append` that dies in the middle of writing the n-th chunk."""
    whole, calls = log.Log.append, 0

    def append(self: log.Log, records: object, mark: log.Mark) -> None:
        nonlocal calls
        calls += 1
        if calls < chunk:
            return whole(self, records, mark)
        before = os.path.getsize(self.folder / log.RESULTS)
        whole(self, records, mark)
        after = os.path.getsize(self.folder / log.RESULTS)
        os.truncate(self.folder / log.RESULTS, before + int(share * (after - before)))
        die()

    return append


def main(model: str, folder: Path) -> None:
    lens = mixlens.load(model)
    undisturbed = folder / "undisturbed"
    assert in_child(lambda: evaluate(lens, undisturbed)) == 0

    def tear(share: float, chunk: int) -> None:
        log.Log.append = torn(share, chunk)
        evaluate(lens, out)

    deaths = {
        "once": [lambda: evaluate(lens, out, at_call(33))],
        "often": [lambda n=n: evaluate(lens, out, at_call(n)) for n in (1, 2, 9, 17)],
        "torn": [lambda c=c, s=s: tear(s, c) for c, s in ((1, 0.5), (2, 0.999), (3, 0.0), (1, 0.2))],
    }
    for name, works in deaths.items():
        out = folder / name
        for work in works:
            assert in_child(work) == -signal.SIGKILL, name
    out = folder / "from outside"
    for seconds in (0.1, 0.4):
        in_child(lambda: evaluate(lens, out), seconds)
    for name in ("undisturbed", *deaths, "from outside"):
        assert in_child(lambda name=name: evaluate(lens, folder / name)) == 0
        files = [(folder / name / file).read_bytes() for file in ("table.csv", "results.jsonl", "values.npy")]
        print(name, *(hashlib.sha256(data).hexdigest() for data in files))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
