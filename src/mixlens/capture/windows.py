"""Overlapping windows of a text: parts of its tokens, each between the special tokens that stand around the whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from mixlens.arguments import is_whole, shown
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, UnknownOption

T = TypeVar("T")


@dataclass(frozen=True)
class TextWindow:
    """A part of a text as the model reads it. `places`: where each of its tokens stands in the whole text.

    `first`, `last`: the places of its part of the text that is cut.
    """

    tokens: Tokens
    places: tuple[int, ...]
    first: int
    last: int

    def at(self, places: tuple[int, ...]) -> tuple[int, ...] | None:
        """Where tokens of the whole text stand in this window; None where not all of them do."""
        mine = {place: i for i, place in enumerate(self.places)}
        return tuple(mine[place] for place in places) if set(places) <= set(mine) else None


def windows_of(text: Tokens, window: int, stride: int | None, limit: int | None) -> list[TextWindow]:
    """The text in windows of `window` tokens, the special ones counted, each `stride` tokens behind the one before.

    Of a pair the second text is cut, and the first stands in every window. The last window is moved back so that it is
    as long as the others. `stride` None: half of the tokens of the cut text in a window. `limit`: the positions of the
    model. Raises InputError for token ids, and for a pair whose first text leaves no room, UnknownOption.
    """
    if not text.text or "position_ids" in text.inputs:
        raise InputError(
            "expected a text to cut into windows, got token ids, of which nobody knows what frames them; pass the "
            "text, or explain parts of the ids"
        )
    first, end = _content(text)
    frame = first + len(text) - end
    special = sum(text.special) if len(text.text) > 1 else frame
    _check(window, frame, special, limit)
    room = window - frame
    step = max(1, room // 2) if stride is None else stride
    if not is_whole(step) or not 1 <= step <= room:
        wrong = InputError if is_whole(step) and 1 <= step <= window - special else UnknownOption  # a pair's fault
        raise wrong(
            f"expected stride= of 1 to {room}, so that none is left out of windows with {room} tokens of the text "
            f"between {frame} others, got {shown(stride)}"
        )
    if len(text) <= window:
        return [TextWindow(text, tuple(range(len(text))), first, end - 1)]
    starts = [*range(first, end - room, step), end - room]
    return [_window(text, first, end, start, start + room) for start in starts]


def _content(text: Tokens) -> tuple[int, int]:
    """The tokens [first, end) of what is cut: the text, or the second of a pair. Raises InputError."""
    if text.spans is None:
        if len(text.text) > 1:
            raise InputError("expected a fast tokenizer to cut the second text of a pair into windows, got a slow one")
        plain = [i for i, special in enumerate(text.special) if not special]
    else:
        segment = len(text.text) - 1
        plain = [i for i, span in enumerate(text.spans) if span is not None and span[0] == segment]
    return plain[0], plain[-1] + 1


def _check(window: int, frame: int, special: int, limit: int | None) -> None:
    """Raises UnknownOption for a size that is none, InputError for a pair whose first text fills it."""
    if limit is not None and window > limit:
        raise UnknownOption(f"expected window= of at most {limit} tokens (the model's positions), got {window}")
    if window <= special:
        raise UnknownOption(
            f"expected window= of more than {special} tokens, which stand in every window (the special tokens), got "
            f"{window}"
        )
    if window <= frame:
        raise InputError(
            f"expected window= of more than {frame} tokens, which stand in every window (the special tokens and the "
            f"first text), got {window}"
        )


def _window(text: Tokens, first: int, end: int, start: int, stop: int) -> TextWindow:
    """The tokens [start, stop) of the text between what stands before and behind [first, end)."""
    places = (*range(first), *range(start, stop), *range(end, len(text)))

    tokens = replace(
        text,
        ids=part(text.ids, places),
        pieces=part(text.pieces, places),
        special=part(text.special, places),
        spans=None if text.spans is None else part(text.spans, places),
        groups=None if text.groups is None else part(text.groups, places),
        roles=None if text.roles is None else part(text.roles, places),
        inputs={name: part(row, places) for name, row in text.inputs.items()},
    )
    return TextWindow(tokens, places, start, stop - 1)


def part(row: tuple[T, ...], places: tuple[int, ...]) -> tuple[T, ...]:
    """The entries at some places."""
    return tuple(row[i] for i in places)
