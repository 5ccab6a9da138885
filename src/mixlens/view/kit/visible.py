"""Whatever a terminal is shown, without what would steer it. Imports nothing that knows a result."""

from __future__ import annotations

from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment

from mixlens.escape import visible


class Visible:
    """Whatever is shown, with signs for every character in its text that would steer the terminal."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in console.render(self.shown, options):
            yield part if part.control else Segment(visible(part.text), part.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self.shown)
