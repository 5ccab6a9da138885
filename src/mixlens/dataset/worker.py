"""Another process's part of a run: a lens of its own, windows in, their rows out."""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
from dataclasses import replace
from typing import IO, Any

import torch

from mixlens.capture.offload import offloaded
from mixlens.dataset.window import Setting, rows_of
from mixlens.errors import DataError, ModelError
from mixlens.evaluation.walk import Window

Made = list[dict[str, Any]]  # the rows of a window, explained
BEGIN = """
import os, pickle, sys
answers = os.dup(1)
os.dup2(2, 1)  # what anybody prints is no answer
sys.path[:] = pickle.load(sys.stdin.buffer)
import mixlens.dataset.worker as worker
worker.main(answers)
"""


def pack(setting: Setting, file: IO[bytes]) -> None:
    """Write what all windows have in common, the model with it. Raises ModelError where that cannot be."""
    if any(offloaded(module) for module in setting.lens.model.modules()):
        raise ModelError(
            "expected a model whose weights are all in memory, got one with weights that accelerate keeps elsewhere: "
            "workers would each load them again and again; leave workers= and engine= out"
        )
    task = replace(setting.task, names=dict(setting.task.names))  # a mapping proxy cannot be sent
    try:
        torch.save(replace(setting, task=task), file)
    except (pickle.PicklingError, TypeError, AttributeError, RuntimeError) as error:
        raise ModelError(
            "expected a model, options and a task that can be sent to another process (pickled), got: "
            f"{' '.join(str(error).split())[:300]}; leave workers= and engine= out"
        ) from error


class Worker:
    """A lens that was sent here, on a device and a number of threads of its own."""

    def __init__(self, packed: str | bytes, device: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.packed, self.device = packed, device
        self.setting: Setting | None = None

    def rows(self, window: Window) -> Made:
        """A row for each row of the window. Raises what is the call's own fault."""
        if self.setting is None:  # not before: what goes wrong here is an answer, not a worker that cannot be started
            self.setting, self.packed = self._unpacked(), ""
        return rows_of(self.setting, window, lambda count: None)

    def _unpacked(self) -> Setting:
        """Raises ModelError for classes that are not known here."""
        file = io.BytesIO(self.packed) if isinstance(self.packed, bytes) else self.packed
        shared = isinstance(self.packed, str) and self.device == "cpu"  # workers of a machine share the pages
        try:
            setting: Setting = torch.load(file, map_location=self.device, weights_only=False, mmap=shared)
        except (AttributeError, ImportError) as error:
            raise ModelError(
                f"expected a model, options and a task whose classes a worker can import, got: {error}; put them into "
                "a module of their own, or leave workers= and engine= out"
            ) from error
        return setting


def main(handle: int) -> None:
    """Windows from standard input, what they gave to the open file of that number, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's to take
    windows, answers = sys.stdin.buffer, os.fdopen(handle, "wb")
    worker: Worker | None = None
    packed, device, threads = pickle.load(windows)
    while True:
        try:
            sent = pickle.load(windows)
        except EOFError:
            return
        try:
            worker = worker or Worker(packed, device, threads)
            answer: Made | Exception = worker.rows(_window(sent))
        except Exception as error:
            answer = _sendable(error)
        pickle.dump(answer, answers)
        answers.flush()


def _window(sent: bytes) -> Window:
    """Raises DataError for rows of classes that are not known here."""
    try:
        window: Window = pickle.loads(sent)
    except (AttributeError, ImportError) as error:
        raise DataError(f"expected rows whose classes a worker can import, got: {error}; leave workers= out") from error
    return window


def _sendable(error: Exception) -> Exception:
    """The error, or what it says, where it does not come out of a pickle as it went in."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")
