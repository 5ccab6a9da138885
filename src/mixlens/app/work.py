"""Work for one thread, in the order in which it comes; so much may wait, and what nobody waits for is not done."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Tick = Callable[..., None]  # called as the work goes on, as `progress=` is; raises `Dropped`


class Full(Exception):
    """As much waits as may."""


class Dropped(Exception):
    """Nobody waits for this any more."""


@dataclass(eq=False)
class Job:
    """A piece of work. `finished` is called, in the thread that does it, when what comes out can be taken.

    (No `Future`: chained to asyncio's it is a cycle, which keeps the page until the collector's last generation.)
    """

    call: Callable[[Tick], Any]
    finished: Callable[[], None]
    stop: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None

    def tick(self, *_: Any) -> None:
        """Go on, or raise `Dropped`."""
        if self.stop.is_set():
            raise Dropped

    def run(self) -> None:
        """Do it."""
        try:
            self.tick()
            self.result = self.call(self.tick)
        except BaseException as error:
            self.error = error.with_traceback(None)  # whose frames would hold what they had in hand
        self.finished()

    def take(self) -> Any:
        """What came out, once; raises what went wrong."""
        result, error = self.result, self.error
        self.result = self.error = None
        try:
            if error is not None:
                raise error
            return result
        finally:
            del error


class Work:
    """A queue of at most `room` jobs that wait, and the thread that does them."""

    def __init__(self, room: int) -> None:
        self.room, self.seconds = room, 1.0
        self.jobs: deque[Job] = deque()
        self.current: Job | None = None
        self.closed = False
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None

    def put(self, call: Callable[[Tick], Any], finished: Callable[[], None]) -> Job:
        """The job, waiting. Raises Full."""
        with self.changed:
            if self.closed or len(self.jobs) >= self.room:
                raise Full
            if self.thread is None:
                self.thread = threading.Thread(target=self._work, name="mixlens work", daemon=True)
                self.thread.start()
            job = Job(call, finished)
            self.jobs.append(job)
            self.changed.notify()
            return job

    def drop(self, job: Job) -> None:
        """Not begun, it never is; begun, it ends with the next layer or pass that it reports."""
        with self.changed:
            job.stop.set()
            if job not in self.jobs:
                return
            self.jobs.remove(job)
        job.error = Dropped()
        job.finished()

    def patience(self) -> int:
        """About how many seconds until what waits now is done."""
        return max(1, round(self.seconds * (len(self.jobs) + 1)))

    def close(self) -> None:
        """Drop everything, and do no more."""
        with self.changed:
            self.closed = True
            jobs = [*self.jobs, *([self.current] if self.current else [])]
            self.changed.notify()
        for job in jobs:
            self.drop(job)

    def _work(self) -> None:
        while self._next():
            job, begin = self.current, time.monotonic()
            assert job is not None
            job.run()
            self.seconds = 0.8 * self.seconds + 0.2 * (time.monotonic() - begin)
            self.current = job = None

    def _next(self) -> bool:
        with self.changed:
            self.changed.wait_for(lambda: self.jobs or self.closed)
            if self.closed:
                return False
            self.current = self.jobs.popleft()
            return True
