"""Commands in processes that need not import what is not ours: one process has, and forks for each.

Imports are most of what a narrow run of tests, or a script on a tiny model, takes. What pytest rewrites and the package
itself are not among them. What is told of a process from its start (its environment, its imports) needs one of its own.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType

HEAVY = ("captum.attr", "matplotlib.pyplot", "pandas", "scipy.stats", "torch", "transformers.modeling_utils")


class Forking:
    """`run` is as `python *words` in a folder whose `src` holds the package, or beside the package in `source`."""

    def __enter__(self) -> Forking:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        env |= {"PYTHONPATH": "", "OMP_NUM_THREADS": "1"}  # (as many threads as the worker that waits)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen([sys.executable, __file__], env=env, **pipes)  # type: ignore[call-overload]
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait() == 0

    def run(self, root: Path, *words: str, source: Path | None = None) -> tuple[int, str]:
        """The exit status, and what was printed."""
        self._process.stdin.write(json.dumps([str(root), words, str(source or root / "src")]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return status, (root / "printed").read_text("utf-8", errors="replace")


def child(root: str, words: list[str], source: str) -> int:
    """The command, here."""
    os.chdir(root)
    printed = os.open("printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.environ["PYTHONPATH"] = source
    sys.path[:1] = [root if words[0] == "-m" else str(Path(root, words[0]).parent), source]
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Fork for each line that comes in; its exit status goes out."""
    for name in HEAVY:
        __import__(name)
    for line in sys.stdin:
        root, words, source = json.loads(line)
        if not (process := os.fork()):
            status = child(root, words, source)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
