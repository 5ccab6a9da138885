"""Who explains the windows of a run: this process, others of this machine (`ENGINES["local"]`), or a Ray cluster.

Whoever does it, windows are read, and their rows written, by the run, in the data's order: its folder is the same.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import chain, cycle
from pathlib import Path
from queue import SimpleQueue
from shutil import rmtree
from tempfile import mkdtemp
from threading import Lock
from typing import Protocol

import torch

from mixlens.capture.offload import device_of
from mixlens.dataset.threads import Threads, divides
from mixlens.dataset.window import Setting, rows_of
from mixlens.dataset.worker import BEGIN, Made, Worker, pack
from mixlens.errors import DataError, WorkerLost, missing
from mixlens.evaluation.walk import Window
from mixlens.files import writing

GROUP = 4  # cores of a worker of a cluster without GPUs
RETRIES = 3  # of a window whose worker was lost: what kills every worker is the window's own fault


Tick = Callable[[int], None]  # told how many rows of a window are done
Rows = Callable[[Tick], Made]


class Engine(Protocol):
    """Workers that a window is handed to."""

    count: int

    def hand(self, window: Window) -> Rows:
        """Give a window away; what is called for its rows. Raises WorkerLost, and what is the call's own fault."""

    def close(self) -> None:
        """Let the workers go."""


def made(
    setting: Setting, windows: Iterator[Window], engine: str, workers: int | None, tick: Tick
) -> Iterator[tuple[Window, Made]]:
    """The windows with their rows, in order. `tick(rows done)`, of the window that is waited for, if it is made here.

    Nobody is hired before there is a window, and no worker waits for another: each has a second window at hand.
    """
    alone = engine == "local" and workers in (None, 1)
    if alone and not divides(setting.lens.model):
        for window in windows:
            yield window, rows_of(setting, window, tick)
        return
    first = next(windows, None)
    if first is None:
        return
    hired = Threads(setting) if alone else ENGINES[engine](setting, workers)
    try:
        under_way: deque[tuple[Window, Rows]] = deque()
        for window in chain((first,), windows):
            under_way.append((window, hired.hand(window)))
            if len(under_way) >= 2 * hired.count:
                window, rows = under_way.popleft()
                yield window, rows(tick)
        while under_way:
            window, rows = under_way.popleft()
            yield window, rows(tick)
    finally:
        hired.close()


class Processes:
    """Processes of this machine: they share its cores, its memory, the pages of the weights, and its GPUs in turn."""

    def __init__(self, setting: Setting, workers: int | None) -> None:
        self.count = workers or 1
        device = device_of(setting.lens.model)
        threads = max(1, torch.get_num_threads() // self.count)
        with writing("a temporary folder"):
            self.folder = Path(mkdtemp(prefix="mixlens-"))
        try:
            with writing(self.folder), open(self.folder / "setting.pt", "wb") as file:
                memory = None if setting.memory is None else setting.memory // self.count
                pack(replace(setting, memory=memory), file)
        except BaseException:
            rmtree(self.folder, ignore_errors=True)
            raise
        self.idle: SimpleQueue[_Process] = SimpleQueue()
        self.all = [_Process((file.name, on(device, i), threads)) for i in range(self.count)]
        for process in self.all:
            self.idle.put(process)
        self.waiting = ThreadPoolExecutor(self.count)  # a thread a process, which waits for it

    def hand(self, window: Window) -> Rows:
        """To whichever of them is free first."""
        future: Future[Made] = self.waiting.submit(self._rows, window)
        return lambda tick: future.result()

    def _rows(self, window: Window) -> Made:
        process = self.idle.get()
        try:
            return process.rows(window)
        finally:
            self.idle.put(process)

    def close(self) -> None:
        """Stop them, whatever they do."""
        self.waiting.shutdown(wait=False, cancel_futures=True)
        for process in self.all:
            process.end(for_good=True)
        self.waiting.shutdown()
        rmtree(self.folder, ignore_errors=True)


class _Process:
    """One of them, started as the first window comes, and again where it was lost.

    No module of the caller's is run in it, as `multiprocessing` would: scripts need no `if __name__ == "__main__"`.
    """

    def __init__(self, given: tuple[str, str, int]) -> None:
        self.given, self.ended, self.lock = given, False, Lock()
        self.child: subprocess.Popen[bytes] | None = None

    def rows(self, window: Window) -> Made:
        """Raises WorkerLost, DataError, and what is the call's own fault."""
        try:
            sent = pickle.dumps(pickle.dumps(window))  # twice: what is not known there does not end its reading
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise DataError(f"expected rows that can be sent to a worker, got: {error}; leave workers= out") from error
        for _ in range(RETRIES):
            answer = self._ask(sent)
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return answer
            self.end()
        raise lost(window)

    def _ask(self, sent: bytes) -> Made | Exception | None:
        """None where the process is lost."""
        try:
            child = self._running()
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write(sent)
            child.stdin.flush()
            answer: Made | Exception = pickle.load(child.stdout)
            return answer
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            return None

    def _running(self) -> subprocess.Popen[bytes]:
        """Raises WorkerLost where no more of them are wanted."""
        with self.lock:
            if self.ended:
                raise WorkerLost("expected a run that goes on, got its end")
            if self.child is None:
                threads = {name: str(self.given[2]) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
                self.child = subprocess.Popen(
                    [sys.executable, "-c", BEGIN],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, **threads},
                )
                assert self.child.stdin is not None
                self.child.stdin.write(pickle.dumps(sys.path) + pickle.dumps(self.given))
            return self.child

    def end(self, for_good: bool = False) -> None:
        """Stop it."""
        with self.lock:
            child, self.child, self.ended = self.child, None, self.ended or for_good
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                with suppress(OSError):  # what it did not read any more
                    pipe.close()  # type: ignore[union-attr]


class Ray:
    """Actors of a Ray cluster, the running one, or one of this machine that is started for the run.

    One a GPU, where the cluster has some, else one for every `GROUP` cores. Ray starts a lost one again, elsewhere if
    need be, and gives it the window that was lost with it.
    """

    def __init__(self, setting: Setting, workers: int | None) -> None:
        try:
            import ray
        except ImportError:
            raise missing("engine='ray'", "ray", "ray") from None
        file = io.BytesIO()
        pack(setting, file)
        self.ray, self.started = ray, not ray.is_initialized()
        if self.started:
            ray.init(include_dashboard=False, log_to_driver=False)
        has = ray.cluster_resources()
        gpus, cores = int(has.get("GPU", 0)), int(has.get("CPU", 1))
        self.count = workers or gpus or max(1, cores // GROUP)
        threads = max(1, cores // max(self.count, gpus))
        needs = {"num_gpus": min(1.0, gpus / self.count)} if gpus else {"num_cpus": threads}
        kind = ray.remote(max_restarts=-1, max_task_retries=RETRIES, **needs)(Worker)
        packed = ray.put(file.getvalue())
        self.actors = [kind.remote(packed, "cuda" if gpus else "cpu", threads) for _ in range(self.count)]
        self.turns = cycle(self.actors)

    def hand(self, window: Window) -> Rows:
        """To the next in turn."""
        answer = next(self.turns).rows.remote(window)

        def rows(tick: Tick) -> Made:
            try:
                return list(self.ray.get(answer))
            except self.ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self.ray.exceptions.RayActorError as error:
                raise lost(window) from error

        return rows

    def close(self) -> None:
        """Stop them, whatever they do, and the cluster where it was started here."""
        for actor in self.actors:
            self.ray.kill(actor)
        if self.started:
            self.ray.shutdown()


ENGINES: dict[str, Callable[[Setting, int | None], Engine]] = {"local": Processes, "ray": Ray}


def on(device: torch.device, number: int) -> str:
    """Where a worker of that number computes: all GPUs in turn, where the model is on one."""
    if device.type != "cuda":
        return str(device)
    return f"cuda:{number % torch.cuda.device_count()}"


def lost(window: Window) -> WorkerLost:
    """The error for a window that ends each worker it is given to."""
    first, last = window.rows[0][0], window.rows[-1][0]
    return WorkerLost(
        f"expected the rows {first} to {last} explained, got {RETRIES} workers lost over them (no memory left? then "
        "fewer workers=, a smaller batch_size= or memory=); the same call goes on from what is there"
    )
