"""Results in a terminal: coloured running text, a short table with bars, layer x token tables.

Everything is a rich `Text`, never a markup string, so that a token like `[red]` stays a token; control characters are
shown as signs. The words stand on white, which reads the same in light and dark terminals.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mixlens.escape import visible
from mixlens.view import colors, reading

if TYPE_CHECKING:
    from mixlens.results import Attribution, LayerMaps

_PAPER = "#1a1a1a on #ffffff"
_DIM = "#767676 on #ffffff"
_WORDS = 600  # shown of a text; the table below it looks at all
_TOP = 10
_BAR = 24
_ROWS = 40  # tokens in a layer table
_NUMBERS = 12  # layers up to which the cells hold numbers
_SHADES = " ░▒▓█"


class Visible:
    """Whatever is shown, with signs for every character in its text that would steer the terminal."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in console.render(self.shown, options):
            yield part if part.control else Segment(visible(part.text), part.style)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self.shown)


def attribution(attr: Attribution) -> RenderableType:
    """The text with its words on their colours, and the words with the largest scores as bars."""
    shown = reading.parts(attr)
    scale = reading.scale(shown)
    rows: list[RenderableType] = _head(attr)
    rows.append(Padding(running(shown[:_WORDS], scale), (0, 1), style=_PAPER))
    notes = []
    if len(shown) > _WORDS:
        notes.append(f"the first {_WORDS} of {len(shown)} words; to_html() shows all")
    if attr.source.dropped:
        notes.append(f"{attr.source.dropped} tokens were cut off, as asked")
    if attr.target is not None and attr.meta.get("class_specific") is False:
        notes.append("not specific to the target")
    if scale.signed and attr.target is not None:
        notes.append(reading.colours(True, attr.meta.get("class_specific") is not False))
    held = reading.held(shown)
    if held:
        notes.append(f"{held} and are not coloured")
    rows.append(_legend(scale, notes))
    rows.append(_bars(shown, scale))
    return Group(*rows)


def maps(maps: LayerMaps) -> RenderableType:
    """A table token x layer of what flows into the read-out row (`meta["readout"]`), else of the mean over queries."""
    rows, name = reading.readout(maps)
    scale = colors.scale(rows.ravel())
    labels = reading.labels(maps)
    kept = sorted(sorted(range(rows.shape[1]), key=lambda j: -abs(rows[:, j]).max())[:_ROWS])
    numbers = len(rows) <= _NUMBERS
    table = Table(box=None, padding=(0, 0), pad_edge=False, header_style="bold")
    table.add_column(Text("token"), no_wrap=True)
    layers = reading.layers(maps)
    for layer in layers:
        head = str(layer) if numbers or layer % 5 == 0 or layer == layers[0] else ""
        table.add_column(Text(f"{head} " if numbers else head), justify="right", no_wrap=True, min_width=2)
    for j in kept:
        special = maps.special[j] if len(labels) == len(maps.special) else False
        cells = [_cell(float(v), scale, numbers) for v in rows[:, j]]
        table.add_row(Text(labels[j] + " ", style="dim" if special else ""), *cells)
    whole = layers == list(range(1, len(layers) + 1))
    notes = [f"layers {f'1 to {len(layers)}' if whole else ', '.join(map(str, layers))} across, {name}"]
    if numbers and not 0.1 <= scale.top < 10:
        notes.append("percent of the largest score")
    if len(kept) < rows.shape[1]:
        notes.append(f"the {len(kept)} of {rows.shape[1]} tokens with the largest scores, in reading order")
    return Group(*_head(maps), _legend(scale, notes), table)


def _head(result: Attribution | LayerMaps) -> list[RenderableType]:
    """What it is, what the model says, and what the reader should know before believing the numbers."""
    says = reading.says(result)
    head = [Text(reading.heading(result), style="bold"), *([Text(says)] if says else [])]
    return [*head, *warnings(result)]


def warnings(*results: Attribution | LayerMaps) -> list[RenderableType]:
    """A bold line for each of `reading.warnings`."""
    return [Text(f"warning: {w}", style="bold") for w in reading.warnings(*results)]


def as_text(renderable: RenderableType, width: int = 100) -> str:
    """What a terminal of `width` columns would show, without colour codes."""
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False, force_jupyter=False)
    state = random.getstate()  # rich draws numbers for its styles; whoever seeded has not asked for that
    try:
        console.print(Visible(renderable))
    finally:
        random.setstate(state)
    file: Any = console.file
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def running(shown: Sequence[reading.Part], scale: colors.Scale) -> Text:
    """The words one behind the other on their colours."""
    text = Text(style=_PAPER)
    for part in shown:
        text.append("\n" if part.opens else part.before)
        if part.special:
            text.append(part.text, style=_DIM)
        else:
            text.append(part.text, style=f"#{scale.ink(part.score)} on #{scale.hex(part.score)}")
    return text


def _legend(scale: colors.Scale, notes: list[str]) -> Text:
    low, high = (reading.number(v) for v in scale.ends())
    text = Text(f"{low} ", style="dim")
    for step in scale.steps(15):
        text.append(" ", style=f"on #{scale.hex(step)}")
    text.append(f" {high}" + "".join(f" · {n}" for n in notes))
    return text


def _bars(shown: list[reading.Part], scale: colors.Scale) -> Table:
    """The words with the largest scores; what the special tokens hold is told in words."""
    top = reading.ranked(shown, _TOP)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(Text("largest"), no_wrap=True, max_width=32, overflow="ellipsis")
    table.add_column(Text("score"), justify="right", no_wrap=True)
    table.add_column(Text(""), no_wrap=True)
    for part in top:
        style = "dim" if part.special else ""
        word = " ".join(part.text.split()) or "␣"
        table.add_row(Text(word, style=style), Text(reading.number(part.score), style=style), _bar(part, scale))
    return table


def _bar(part: reading.Part, scale: colors.Scale) -> Text:
    """A bar of eighths of a character; signed ones run to both sides of a line."""
    half = _BAR // 2 if scale.signed else _BAR
    eighths = round(abs(scale.share(part.score)) * half * 8)
    full = "█" * (eighths // 8) + ("", *"▏▎▍▌▋▊▉")[eighths % 8]
    # There are no eighths from the right, so a negative bar is rounded to whole characters.
    left = "█" * max(round(eighths / 8), 1 if eighths else 0) if part.score < 0 else ""
    hue = f"#{colors.SPECIAL if part.special else colors.strong(part.score)}"
    line = Text(f"{left:>{half}}", style=hue) if scale.signed else Text()
    line.append("│" if scale.signed else "", style="dim")
    return line.append("" if part.score < 0 else full, style=hue)


def _cell(value: float, scale: colors.Scale, numbers: bool) -> Text:
    if not numbers:
        shade = _SHADES[round(abs(scale.share(value)) * (len(_SHADES) - 1))]
        return Text(shade * 2, style=f"#{colors.strong(value)}")
    digits = f"{value:.2f}".replace("0.", ".", 1) if 0.1 <= scale.top < 10 else f"{100 * scale.share(value):.0f}%"
    return Text(f" {digits} ", style=f"#{scale.ink(value)} on #{scale.hex(value)}")
