"""Kills evaluations and watches their memory: `python driver.py MODEL FOLDER`.

Prints the digests of a run's files, a line a way to die, then how much memory 2,000 texts take beyond 200, in KiB.
It forks instead of starting a Python for each: nothing may have started torch's threads before.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import sys
import time
from pathlib import Path

import torch

torch.set_num_threads(1)

import mixlens  # noqa: E402
from mixlens.evaluation import log, windows  # noqa: E402

WORDS = "a deep and meaningful film not bad good slow very".split()
TEXTS = [" ".join(WORDS[(i * k) % 10] for k in range(1, 3 + i % 7)) + " ." for i in range(44)] + ["", "a " * 40]
windows.WINDOW, windows.CHUNK = 20, 6  # several of both


def evaluate(lens: mixlens.Lens, folder: Path, progress: object = None) -> None:
    mixlens.evaluate(
        lens, iter(TEXTS), ["alti"], ["spearman", "aopc", "anisotropy"], folder, resamples=20, progress=progress
    )


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


def grown(lens: mixlens.Lens) -> int:
    """KiB by which the peak rises from 200 texts to 2,000, whose ids alone are 10 MB."""
    windows.WINDOW, windows.CHUNK = 128, 64

    def peak(count: int) -> int:
        rows = ({"text": "a deep film", "id": f"{i:05000d}"} for i in range(count))
        mixlens.evaluate(lens, rows, ["random"], ["special_rank"], resamples=2)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    return peak(200) - peak(2000)


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
        files = [
            (folder / name / file).read_bytes()
            for file in ("table.csv", "results.jsonl", "values.npy", "vectors-0.npy")
        ]
        print(name.replace(" ", "_"), *(hashlib.sha256(data).hexdigest() for data in files))
    read, write = os.pipe()
    assert in_child(lambda: os.write(write, str(-grown(lens)).encode())) == 0
    print("grown", os.read(read, 100).decode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
