"""The one colour scale of terminal, pages, LaTeX and figures.

Scores without a sign run from white to orange; signed scores from blue (against the target) over white to orange (for
it). Orange and blue stay apart for every common kind of colour blindness, and lightness falls with the size on both
arms, so that a grey print keeps the order. A scale always ends at the largest size of what is shown: colours compare
within a picture, not between pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

RGB = tuple[int, int, int]

# From zero to the largest size, evenly spaced. On a dark page the scale starts at the page instead of white.
_LIGHT = {"warm": ("ffffff", "fdd5ab", "fd9a4f", "e2590f"), "cool": ("ffffff", "c9dff1", "79b5dc", "2b7bba")}
_DARK = {"warm": ("17191d", "5a3013", "b5581c", "ff9f55"), "cool": ("17191d", "17395a", "2d6da6", "8cc6f5")}
SPECIAL = "9a9a9a"  # bars of special tokens: grey, since they are no words of the text


@dataclass(frozen=True)
class Scale:
    """Colours for scores of -`top` to `top` (`signed`) or 0 to `top`; what lies outside gets the end's colour."""

    top: float
    signed: bool

    def share(self, score: float) -> float:
        """`score` as a share of `top`, -1 to 1; 0 where all scores are 0."""
        if not self.top or math.isnan(score):
            return 0.0
        return max(-1.0 if self.signed else 0.0, min(1.0, score / self.top))

    def rgb(self, score: float, dark: bool = False) -> RGB:
        """The background, three numbers of 0 to 255."""
        return _at(self.share(score), dark)

    def hex(self, score: float, dark: bool = False) -> str:
        """The background as six hexadecimal digits, without `#`."""
        return "{:02x}{:02x}{:02x}".format(*self.rgb(score, dark))

    def ink(self, score: float, dark: bool = False) -> str:
        """The text colour on that background, black or white by the larger contrast (always 4.5 : 1 or more)."""
        return ink(self.rgb(score, dark))

    def ends(self) -> tuple[float, float]:
        """The smallest and the largest score of the scale."""
        return (-self.top if self.signed else 0.0), self.top

    def steps(self, count: int) -> list[float]:
        """`count` evenly spaced scores from end to end, for a legend."""
        low, high = self.ends()
        return [low + (high - low) * i / (count - 1) for i in range(count)]


def scale(scores: Iterable[float]) -> Scale:
    """The scale of these scores: up to the largest size, with two arms if any is negative."""
    values = [s for s in scores if math.isfinite(s)]
    return Scale(max(map(abs, values), default=0.0), any(s < 0 for s in values))


def ink(ground: RGB) -> str:
    """Black or white, by the larger contrast to a ground."""
    luminance = _luminance(ground)
    return "000000" if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05) else "ffffff"


def strong(score: float) -> str:
    """The end colour of a score's arm, for bars, whose length says the size."""
    return _LIGHT["cool" if score < 0 else "warm"][-1]


def stops(signed: bool) -> list[tuple[float, str]]:
    """Places of 0 to 1 and `#` colours of the whole scale, as matplotlib's `from_list` takes them."""
    shares = [i / 6 for i in range(-6 if signed else 0, 7)]
    return [((s + 1) / 2 if signed else s, "#{:02x}{:02x}{:02x}".format(*_at(s, False))) for s in shares]


def arms() -> dict[str, object]:
    """The colours as a page's script takes them, from zero to the largest size."""
    return {"light": _LIGHT, "dark": _DARK}


def _at(share: float, dark: bool) -> RGB:
    arm = (_DARK if dark else _LIGHT)["cool" if share < 0 else "warm"]
    place = abs(share) * (len(arm) - 1)
    i = min(int(place), len(arm) - 2)
    low, high, part = bytes.fromhex(arm[i]), bytes.fromhex(arm[i + 1]), place - i
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _luminance(rgb: RGB) -> float:
    """Relative luminance (WCAG 2.2)."""
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
