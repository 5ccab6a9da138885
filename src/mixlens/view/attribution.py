"""An `Attribution` as a page, a figure, LaTeX, a terminal's text and a pandas table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mixlens.capture.picture import Picture
from mixlens.escape import visible
from mixlens.files import put
from mixlens.view import picture, wave
from mixlens.view.kit import (
    arrays,
    caption,
    colors,
    frames,
    html,
    latex,
    packed,
    pieces,
    spelling,
    terminal,
    windowed,
    words,
)
from mixlens.view.kit.drawn import Attribution

if TYPE_CHECKING:
    import pandas


_TOP = 6
_OPEN = 80  # tokens up to which the table of all is unfolded
_LISTED = 10  # words in a terminal's table
_WORDS = 600  # shown of a text; the table below it looks at all
_BAR = 24
_RTL = (
    r"% needs \usepackage{bidi} (XeLaTeX; last of all) or \usepackage{luabidi} (LuaLaTeX) for text from right to left"
)


def page(attr: Attribution, path: str | os.PathLike[str] | None = None) -> str:
    """The page of an attribution; written to `path` if given. Raises ResultFileError."""
    if isinstance(attr.source, Picture):
        return picture.page(attr, path)
    shown = words.parts(attr)
    text = html.page(
        "attribution.html",
        **html.text(attr, shown),
        wave=wave.uri(attr),
        data=data(attr),
        top=html.bars([(" ".join(p.text.split()), p.score, p.special) for p in words.ranked(shown, _TOP)]),
        tokens=_tokens(attr),
        unfolded=len(attr.tokens) <= _OPEN,
        layers=_layers(attr),
        windows=windowed.shown(attr),
        facts=caption.provenance(attr),
    )
    return put(text, path)


def data(attr: Attribution) -> str | None:
    """What the page's script is given; None of a picture, which stays as it is drawn."""
    source = attr.source
    if isinstance(source, Picture):
        return None
    held = words.held(words.parts(attr), source.units)
    notes = [f"{held[0].upper()}{held[1:]}."] if held else []
    notes += [f"{source.dropped} {source.units} were cut off, as asked."] if source.dropped else []
    notes += [f"{note[0].upper()}{note[1:]}." for note in windowed.notes(attr)]
    text = pieces.facts(source, word=pieces.words(source), token=pieces.tokens(source))
    head = {
        "kind": "attribution",
        "text": text,
        "specific": attr.meta.get("class_specific") is not False,
        "goal": caption.goal(attr),
        "chances": caption.chances(attr),
        "independent": caption.independent(attr),
        "colors": colors.arms(),
        "notes": notes,
    }
    return packed.pack(head, {"scores": arrays.values(attr.scores)})


def fragment(attr: Attribution) -> str:
    """A piece of HTML for a notebook."""
    if isinstance(attr.source, Picture):
        return picture.fragment(attr)
    text, cut = html.text(attr, words.parts(attr)), " · ".join(windowed.notes(attr))
    return html.fill("attribution_fragment.html", **text, tokens=_tokens(attr), cut=cut)


def _tokens(attr: Attribution) -> dict[str, Any]:
    scores = arrays.values(attr.scores).tolist()
    names = [" ".join(visible(t).split()) or "␣" for t in attr.display]
    return html.bars(list(zip(names, scores, attr.special, strict=True)))


def _layers(attr: Attribution) -> dict[str, Any] | None:
    """The picture of an attribution's layers, of the words' tokens alone: others would leave them no colour."""
    if attr.layers is None:
        return None
    kept = [j for j, special in enumerate(attr.special) if not special] or list(range(len(attr.special)))
    names = arrays.labels(attr, 14)
    rows = arrays.values(attr.layers)[:, kept]
    return html.by_layer(rows, [names[j] for j in kept], range(1, len(rows) + 1), attr.source.units) | {
        "all": len(kept) == len(names)
    }


def tex(attr: Attribution) -> str:
    r"""A group of `\colorbox`es to `\input`.

    The first comment line names the packages. Words without an escape in LaTeX (ideographs, emoji) are left as they
    are and need XeLaTeX or LuaLaTeX with a font that has them.
    """
    shown = words.parts(attr)
    scale = words.scale(shown)
    low, high = (spelling.number(v) for v in scale.ends())
    hue = "blue to white to orange" if scale.signed else "white to orange"
    says, held = caption.says(attr), words.held(shown, attr.source.units)
    lines = [
        r"% needs \usepackage[T1]{fontenc} and \usepackage{xcolor}; XeLaTeX or LuaLaTeX for text beyond Latin scripts",
        *([_RTL] if latex.has_rtl(shown) else []),
        f"% mixlens: {latex.comment(caption.heading(attr))}",
        *([f"% {latex.comment(says)}"] if says else []),
        f"% colours: {hue} for {low} to {high}" + (f"; {latex.comment(held)} and are grey" if held else ""),
        r"{\setlength{\fboxsep}{1.5pt}\raggedright",
    ]
    return "\n".join([*lines, latex.running(shown, scale) + r"\par}", ""])


def printout(attr: Attribution) -> RenderableType:
    """The text with its words on their colours, and the words with the largest scores as bars."""
    if isinstance(attr.source, Picture):
        return picture.printout(attr)
    shown = words.parts(attr)
    scale = words.scale(shown)
    rows: list[RenderableType] = terminal.head(attr)
    rows.append(Padding(terminal.running(shown[:_WORDS], scale), (0, 1), style=terminal.PAPER))
    notes = []
    if len(shown) > _WORDS:
        pieces = "words" if attr.source.unit == "token" else attr.source.units
        notes.append(f"the first {_WORDS} of {len(shown)} {pieces}; to_html() shows all")
    if attr.source.dropped:
        notes.append(f"{attr.source.dropped} {attr.source.units} were cut off, as asked")
    if attr.target is not None and attr.meta.get("class_specific") is False:
        notes.append("not specific to the target")
    if scale.signed and attr.target is not None:
        notes.append(words.colours(True, attr.meta.get("class_specific") is not False))
    held = words.held(shown, attr.source.units)
    if held:
        notes.append(f"{held} and are not coloured")
    notes += windowed.notes(attr)
    rows.append(terminal.legend(scale, notes))
    rows.append(_table(shown, scale))
    return Group(*rows)


def _table(shown: list[words.Part], scale: colors.Scale) -> Table:
    """The words with the largest scores; what the special tokens hold is told in words."""
    top = words.ranked(shown, _LISTED)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(Text("largest"), no_wrap=True, max_width=32, overflow="ellipsis")
    table.add_column(Text("score"), justify="right", no_wrap=True)
    table.add_column(Text(""), no_wrap=True)
    for part in top:
        style = "dim" if part.special else ""
        word = " ".join(part.text.split()) or "␣"
        table.add_row(Text(word, style=style), Text(spelling.number(part.score), style=style), _bar(part, scale))
    return table


def _bar(part: words.Part, scale: colors.Scale) -> Text:
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


def data_frame(attr: Attribution) -> pandas.DataFrame:
    """A row a token: token, score, start, end, special; for a pair also segment, the text that start and end count in.

    start and end are missing where there are no offsets; a stream that is no text has its places' own numbers there.
    `.attrs` holds method and model. Raises MissingExtra.
    """
    pd = frames.pandas_module()
    places = {
        axis: pd.array(column, dtype="Float64" if any(isinstance(v, float) for v in column) else "Int64")
        for axis, column in attr.source.columns().items()
    }
    made = {**columns(attr), **places, "score": frames.numbers(attr.scores)}
    return frames.with_origin(pd.DataFrame(made), attr)


def columns(attr: Attribution) -> dict[str, list[Any]]:
    """The columns of `data_frame` as plain data, None where a place is missing."""
    places = {axis: list(column) for axis, column in attr.source.columns().items()}
    segment = {name: places.pop(name) for name in ("segment",) if name in places}
    names = {attr.source.unit: list(attr.tokens), "score": attr.scores.tolist()}
    return {**names, **places, "special": list(attr.special), **segment}
