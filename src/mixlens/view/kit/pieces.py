"""A stream as a running text whose pieces (tokens, words, sentences) can be pointed at.

A piece is (what stands before it, its text, its tokens, a sum of `SPECIAL` and `OPENS`): befores and texts one behind
the other are the text that came in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mixlens.capture.sound import Sound
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens
from mixlens.capture.words import units
from mixlens.escape import visible
from mixlens.view.kit import spelling
from mixlens.view.kit.direction import strong

SPECIAL, OPENS = 1, 2  # no content; first of another text

Piece = tuple[str, str, list[int], int]


def tokens(stream: Stream) -> list[Piece]:
    """A piece a token. A blank at a token's front stands before it; a token of blanks alone shows as a sign."""
    if not isinstance(stream, Tokens) or not stream.has_words or not stream.text:
        return _names(stream)
    out: list[Piece] = []
    segment, at, left = None, 0, ""
    for i, (place, name) in enumerate(zip(stream.places or (), stream.display, strict=False)):
        special, sign = bool(stream.special[i]), visible(spelling.spelled(name)).strip("␣ ")
        if place is None:
            out.append((left or (" " if out else ""), sign or "␣", [i], SPECIAL * special))
            left = " "
            continue
        opens = segment is not None and place[0] != segment
        at = at if place[0] == segment else 0
        segment, text = place[0], stream.text[place[0]]
        start, end = max(at, place[1]), max(at, place[2])
        held = text[start:end]
        shown = held.strip()
        front = held[: len(held) - len(held.lstrip())]
        before = "" if opens else (text[at:start] + front or left)
        if left.strip(" ") and not opens:  # line ends that the token before ends with
            before = left + text[at:start] + front
        left = held[len(held.rstrip()) :] if shown else ""
        if not shown:  # blanks alone, or characters that the token before has shown
            shown = sign.strip() or "↵" * before.count("\n") or "␣"
        out.append((visible(before), visible(shown), [i], SPECIAL * special + OPENS * opens))
        at = end
    return out


def _names(stream: Stream) -> list[Piece]:
    """Pieces of a stream whose text is not known: their names, a blank between two."""
    out: list[Piece] = []
    for i, (name, special) in enumerate(zip(stream.display, stream.special, strict=True)):
        shown = visible(spelling.spelled(name)).lstrip("␣") or "␣"
        out.append((" " if i else "", shown, [i], SPECIAL * bool(special)))
    return out


def words(stream: Stream) -> list[Piece]:
    """A piece a word; a piece a token where no words are known."""
    if isinstance(stream, Sound) and stream.has_words:
        return [(u.before, visible(u.text), list(u.indices), SPECIAL * u.special) for u in units(stream)]
    alone = tokens(stream)
    return grouped(alone, (unit.indices for unit in units(stream))) if stream.has_words else alone


def grouped(alone: Sequence[Piece], groups: Iterable[Sequence[int]]) -> list[Piece]:
    """The tokens' pieces put together by `groups` of neighbours; whatever is in none stands alone."""
    home = {i: k for k, indices in enumerate(groups) for i in indices}
    out: list[Piece] = []
    last: int | None = None
    for before, text, indices, kind in alone:
        group = home.get(indices[0])
        if group is not None and group == last:
            first, start, held, shared = out[-1]
            sign = text if text.strip("␣↵") else ""  # inside a group a blank is seen
            out[-1] = (first, start + before + sign, [*held, *indices], (shared & ~SPECIAL) | (shared & kind & SPECIAL))
        else:
            out.append((before, text, indices, kind))
        last = group
    return [_bare(*piece) for piece in out]


def _bare(before: str, text: str, indices: list[int], kind: int) -> Piece:
    """A piece without the signs of the blanks at its front; the blanks themselves stand before it."""
    rest = text.lstrip("␣↵ \n\t")
    blanks = "".join(c for c in text[: len(text) - len(rest)] if c not in "␣↵")
    return (before + blanks, rest, indices, kind) if rest else (before, text, indices, kind)


def facts(stream: Stream, **grains: list[Piece]) -> dict[str, Any]:
    """What a page's script is told of a stream: its pieces by grain, the direction of each text, its unit's name.

    A grain that cuts as the one before it is left out.
    """
    kept: dict[str, list[Piece]] = {}
    for name, pieces in grains.items():
        if not any(len(pieces) == len(others) for others in kept.values()):
            kept[name] = pieces
    first = next(iter(kept.values()))
    lines: list[str] = [""]
    for before, text, _, kind in first:
        lines += [""] * bool(kind & OPENS)
        lines[-1] += "" if kind & SPECIAL else before + text
    return {
        "grains": {
            name: [[before, text, indices, kind] for before, text, indices, kind in pieces]
            for name, pieces in kept.items()
        },
        "directions": [strong(line) or "ltr" for line in lines],
        "unit": stream.unit,
        "units": stream.units,
    }
