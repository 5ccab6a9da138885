"""Numbers, labels and whatever an option may be, as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from torch import Tensor


def spelled(label: object) -> str:
    """A label as text. Of a vocabulary token what it stands for, a blank at its start as `␣`: `ĠParis` is `␣Paris`.

    WordPiece's `##` stays: nothing else says that such a piece goes on a word.
    """
    text = str(label)
    text = text.replace("\u2581", " ") if text.startswith("\u2581") else _from_bytes(text)
    rest = text.lstrip(" ")
    return "␣" * (len(text) - len(rest)) + ("↵" * len(rest) if rest and not rest.strip("\r\n") else rest)


def _from_bytes(piece: str) -> str:
    """What a byte-level piece stands for: `CafÃ©` is `Café`. Anything else, half a character too, stays as it is."""
    try:
        return bytes(_bytes()[c] for c in piece).decode()
    except (KeyError, UnicodeDecodeError):
        return piece


@cache
def _bytes() -> Mapping[str, int]:
    """The letters of byte-level BPE: a byte's own Latin-1 character where that can be seen, else one from U+0100 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in seen]
    return {chr(b): b for b in seen} | {chr(256 + i): b for i, b in enumerate(hidden)}


def number(value: float) -> str:
    """Three significant digits: `0.312`, `-1.20e-05`."""
    if value == 0:
        return "0"
    return f"{value:.2e}" if not 1e-3 <= abs(value) < 1e5 else f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def column(values: Sequence[float]) -> Callable[[float], str]:
    """How to write numbers that stand below each other: all to the third digit of the largest, `0.246` and `0.000`."""
    largest = max(map(abs, values), default=0.0)
    places = 2 - math.floor(math.log10(largest)) if largest else 3
    return (lambda value: f"{value:.{max(places, 0)}f}") if places <= 6 else number


def signed(value: float) -> str:
    """A correlation: two places; a dash for none."""
    return "-" if math.isnan(value) else f"{value:.2f}"


def probability(p: float) -> str:
    """A probability that is not rounded up to 1."""
    return "over 0.999" if 0.999 < p < 1 else number(p)


def value_text(value: Any) -> str:
    """An option or a fact on one line: mappings as `name=value`, lists with commas, a tensor by its shape."""
    if isinstance(value, Mapping):
        pairs = [(k, value_text(v), isinstance(v, (list, tuple)) and len(v) > 1) for k, v in value.items()]
        return ", ".join(f"{k}=({text})" if several else f"{k}={text}" for k, text, several in pairs) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(value_text, value)) or "none"
    if isinstance(value, Tensor):
        return f"tensor {tuple(value.shape)}" if value.ndim else value_text(value.item())
    if isinstance(value, float):
        return f"{value:.4g}"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
