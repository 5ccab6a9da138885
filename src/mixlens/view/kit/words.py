"""The words of an attribution in reading order, what stands between them, and which are coloured and ranked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mixlens.escape import visible
from mixlens.view.kit import colors
from mixlens.view.kit.arrays import values
from mixlens.view.kit.direction import Direction, strong
from mixlens.view.kit.drawn import Attribution
from mixlens.view.kit.spelling import number


@dataclass(frozen=True)
class Part:
    """A word (or a token, where no text is known) as it is shown."""

    text: str
    score: float
    special: bool
    before: str  # blanks and whatever no token covers, between the part before and this one
    pieces: tuple[tuple[str, float], ...]  # its tokens
    opens: bool = False  # first of the second text of a pair

    @property
    def detail(self) -> str:
        """One line: the score, and the pieces' scores where there are several."""
        pieces = " + ".join(f"{t} {number(s)}" for t, s in self.pieces) if len(self.pieces) > 1 else ""
        return f"{self.text}: {number(self.score)}" + (f" ({pieces})" if pieces else "")


def parts(attr: Attribution) -> list[Part]:
    """The words of an attribution in reading order where there are offsets, else its tokens."""
    display = [visible(t) for t in attr.display]
    scores = values(attr.scores).tolist()
    if not attr.source.has_words:
        return [
            Part(text or "␣", score, special, " " if i else "", ((text, score),))
            for i, (text, score, special) in enumerate(zip(display, scores, attr.special, strict=True))
        ]
    out: list[Part] = []
    segment = None
    for unit in attr.units():
        pieces = tuple((display[i], scores[i]) for i in unit.indices)
        opens = None not in (segment, unit.segment) and unit.segment != segment
        segment = segment if unit.segment is None else unit.segment
        before = unit.before
        if out and (unit.special or out[-1].special):  # no part of the text, so always set off
            before = before or " "
        score = sum(scores[i] for i in unit.indices)
        out.append(Part(visible(unit.text) or "␣", score, unit.special, visible(before), pieces, opens))
    return out


def content(shown: Sequence[Part]) -> list[Part]:
    """The words: what is coloured and ranked. All there is, where a text is of special tokens alone."""
    return [p for p in shown if not p.special] or list(shown)


def scale(shown: Sequence[Part]) -> colors.Scale:
    """The colours and bars of the words. Special tokens are left out: they often take most of the score."""
    return colors.scale([p.score for p in content(shown)])


def ranked(shown: Sequence[Part], count: int) -> list[Part]:
    """The `count` words with the largest sizes, first ones first where they are equal."""
    return sorted(content(shown), key=lambda p: -abs(p.score))[:count]


def colours(signed: bool, specific: bool) -> str:
    """What the colours mean. What is not specific to a class speaks neither for nor against it."""
    if not signed:
        return "the stronger the colour, the larger the score"
    return "orange speaks for it, blue against it" if specific else "orange is above zero, blue below it"


def held(shown: Sequence[Part], units: str = "tokens") -> str | None:
    """In words what the special `units` hold, since no colour and no bar says it; None where nothing is left out."""
    special = [p for p in shown if p.special]
    total = sum(abs(p.score) for p in shown)
    if not special or len(special) == len(shown) or not total or not math.isfinite(total):
        return None
    share = 100 * sum(abs(p.score) for p in special) / total
    top = max(special, key=lambda p: abs(p.score))
    amount = "under 1" if share < 1 else "over 99" if share > 99 else f"{share:.0f}"
    sizes = "the scores' sizes" if any(p.score < 0 for p in shown) else "the scores"
    largest = f" (largest: {' '.join(top.text.split())} {number(top.score)})" if top.score else ""
    return f"special {units} hold {amount} % of {sizes}{largest}"


def lines(shown: Sequence[Part]) -> list[tuple[Direction, list[Part]]]:
    """The parts text by text (two of a pair), each with its direction: by its own words, no special token's."""
    out: list[list[Part]] = [[]]
    for part in shown:
        if part.opens:
            out.append([])
        out[-1].append(part)
    return [(strong("".join(p.before + p.text for p in line if not p.special)) or "ltr", line) for line in out]
