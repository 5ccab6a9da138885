"""What a terminal is shown: coloured running text, a head, a colour scale.

Everything is a rich `Text`, never a markup string, so that a token like `[red]` stays a token; control characters are
shown as signs. The words stand on white, which reads the same in light and dark terminals.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from mixlens.view.kit import caption, colors, spelling, words
from mixlens.view.kit.drawn import Attribution, LayerMaps
from mixlens.view.kit.visible import Visible

PAPER = "#1a1a1a on #ffffff"
_DIM = "#767676 on #ffffff"


def head(result: Attribution | LayerMaps) -> list[RenderableType]:
    """What it is, what the model says, and what the reader should know before believing the numbers."""
    says = caption.says(result)
    head = [Text(caption.heading(result), style="bold"), *([Text(says)] if says else [])]
    return [*head, *warnings(result)]


def warnings(*results: Attribution | LayerMaps) -> list[RenderableType]:
    """A bold line for each of `caption.warnings`."""
    return [Text(f"warning: {w}", style="bold") for w in caption.warnings(*results)]


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


def running(shown: Sequence[words.Part], scale: colors.Scale) -> Text:
    """The words one behind the other on their colours."""
    text = Text(style=PAPER)
    for part in shown:
        text.append("\n" if part.opens else part.before)
        if part.special:
            text.append(part.text, style=_DIM)
        else:
            text.append(part.text, style=f"#{scale.ink(part.score)} on #{scale.hex(part.score)}")
    return text


def legend(scale: colors.Scale, notes: list[str]) -> Text:
    """The colour scale and the notes on it, on one line."""
    low, high = (spelling.number(v) for v in scale.ends())
    text = Text(f"{low} ", style="dim")
    for step in scale.steps(15):
        text.append(" ", style=f"on #{scale.hex(step)}")
    text.append(f" {high}" + "".join(f" · {n}" for n in notes))
    return text
