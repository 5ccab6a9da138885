"""What the progress line shows beside its bar; imported with rich, when a line is made."""

from __future__ import annotations

import time
from datetime import timedelta

from rich.progress import ProgressColumn, Task
from rich.text import Text


class Counted(ProgressColumn):
    """`52/400`; the count alone where nobody knows of how many, nothing before the first."""

    def render(self, task: Task) -> Text:
        """The text of a task now."""
        if task.total is None:
            return Text(f"{task.completed:.0f}" if task.completed else "", style="progress.download")
        return Text(f"{task.completed:.0f}/{task.total:.0f}", style="progress.download")


class Times(ProgressColumn):
    """`0:00:52 elapsed, 0:00:45 left`; what is left only where the rate and the total are known.

    The field `ends` of a task is the moment, by `time.monotonic`, at which it is done if it goes on like this.
    """

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """The text of a task now."""
        ends = task.fields.get("ends")
        left = "" if ends is None else f", {_clock(ends - time.monotonic())} left"
        return Text(f"{_clock(task.elapsed or 0.0)} elapsed{left}", style="progress.elapsed")


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=max(0, round(seconds))))
