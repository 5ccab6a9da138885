"""In which direction a text runs, and where its words stand on a line: the part of Unicode's rules that words need."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

Direction = Literal["ltr", "rtl"]


def strong(text: str) -> Direction | None:
    """The direction of the first character that has one; None for figures, signs and blanks."""
    for char in text:
        kind = unicodedata.bidirectional(char)
        if kind in ("L", "R", "AL"):
            return "ltr" if kind == "L" else "rtl"
    return None


def order(words: Sequence[str], base: Direction) -> list[int]:
    """The words of a line from left to right, by their place in reading order.

    Words that run against the line keep their own order; what has no direction goes with its neighbours
    where they agree, else with the line.
    """
    known = [strong(word) for word in words]
    directions: list[Direction] = []
    for i, direction in enumerate(known):
        before = directions[-1] if directions else base
        after = next((k for k in known[i + 1 :] if k), base)
        directions.append(direction or (before if before == after else base))
    runs = [(direction, list(run)) for direction, run in groupby(range(len(words)), directions.__getitem__)]
    runs = runs[::-1] if base == "rtl" else runs
    return [i for direction, run in runs for i in (run[::-1] if direction == "rtl" else run)]
