"""The texts of a window in two threads of this process: while one makes the small steps between two products, which
leave all cores but one idle, the other makes products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

import torch

from mixlens.capture.offload import device_of, offloaded
from mixlens.dataset.window import Read, Row, Setting, Stopped, read_window, rows_of_texts
from mixlens.errors import OverBudget
from mixlens.evaluation.walk import Window
from mixlens.process import settled

COUNT = 2  # Python runs in one thread at a time: a third would wait for its steps
BLOCK = 16  # texts of like length that stay together, where there are many
PIECES = 8  # blocks of a window with few texts, so that no thread has more to do than another
SECONDS = 0.5  # from one look at how far they are to the next


def divides(model: Any) -> bool:
    """Whether this process has cores for two, and one set of weights that two may read."""
    if device_of(model).type != "cpu" or torch.get_num_threads() < COUNT:
        return False
    return not any(offloaded(module) for module in model.modules())


class Threads:
    """Two threads, each with half of the cores and of the memory.

    The run's own thread reads the next window meanwhile, unless texts are cut: a tokenizer that cuts one text and not
    the next is nothing for two at a time.
    """

    count = 1  # of windows in work; the next one is at hand

    def __init__(self, setting: Setting) -> None:
        memory = None if setting.memory is None else setting.memory // COUNT
        self.setting, self.shared = setting, replace(setting, memory=memory)
        self.stopped = Event()
        self.pool = ThreadPoolExecutor(COUNT, "mixlens", torch.set_num_threads, (torch.get_num_threads() // COUNT,))
        self.parts: list[Future[dict[int, Row]]] = []  # of all windows in work

    def hand(self, window: Window) -> Callable[[Callable[[int], None]], list[Row]]:
        """Read a window and give its texts away; what is called for its rows. Raises what is the call's own fault."""
        if self.setting.truncate:
            return lambda tick: self._begin(window)(tick)
        return self._begin(window)

    def _begin(self, window: Window) -> Callable[[Callable[[int], None]], list[Row]]:
        texts, rows = read_window(self.setting, window)
        done = [len(rows), *[0] * COUNT]
        parts = [
            self.pool.submit(
                settled(rows_of_texts), self.shared, window, part, partial(done.__setitem__, number), self._go_on
            )
            for number, part in enumerate(dealt(texts), 1)
        ]
        self.parts += parts

        def made(tick: Callable[[int], None]) -> list[Row]:
            while wait(parts, SECONDS, FIRST_EXCEPTION).not_done and not any(map(_failed, parts)):
                tick(sum(done))
            for part in sorted(parts, key=_failed, reverse=True):  # what failed is not waited for
                rows.update(part.result())
                self.parts.remove(part)
            self._whole(window, texts, rows)
            return [rows[number] for number, _ in window.rows]

        return made

    def _whole(self, window: Window, texts: Sequence[Read], rows: dict[int, Row]) -> None:
        """Texts that half of the memory is too little for have all of it."""
        large = [text for text in texts if (rows[text[0]]["error"] or "").startswith(OverBudget.__name__)]
        if large:
            wait(self.parts, None, ALL_COMPLETED)
            rows.update(rows_of_texts(self.setting, window, large, lambda count: None))

    def _go_on(self, done: int, total: int) -> None:
        """Raises Stopped where nobody waits any more."""
        if self.stopped.is_set():
            raise Stopped

    def close(self) -> None:
        """Stop them, whatever they do, behind the layer that runs."""
        self.stopped.set()
        try:
            self.pool.shutdown(cancel_futures=True)
        finally:  # (interrupted again) threads that are started later have the number of this one, not of the two
            torch.set_num_threads(torch.get_num_threads())


def dealt(texts: Sequence[Read]) -> list[list[Read]]:
    """The texts, longest first, for two threads with as much to do: neighbours in length stay together."""
    size = max(1, min(BLOCK, len(texts) // PIECES))
    out: list[list[Read]] = [[] for _ in range(COUNT)]
    weights = [0] * COUNT
    for start in range(0, len(texts), size):
        block = texts[start : start + size]
        least = weights.index(min(weights))
        out[least] += block
        weights[least] += sum(len(tokens) for _, _, tokens in block)
    return [part for part in out if part]


def _failed(part: Future[Any]) -> bool:
    return part.done() and part.exception() is not None
