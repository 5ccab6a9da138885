"""What a model is fed: by the name of its input, whether that is a text, a picture or a sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixlens.capture.picture import PIXELS, Picture
from mixlens.capture.signal import Signal
from mixlens.capture.sound import MEL, WAVE, Sound

SIGNALS: Mapping[str, type[Signal]] = {PIXELS: Picture, WAVE: Sound, MEL: Sound}
SOUNDS = (WAVE, MEL)


@dataclass(frozen=True)
class TowerProcessor:
    """What a model of two towers needs beside its weights: a tokenizer, and an image processor; None: not there."""

    tokenizer: Any = None
    image_processor: Any = None


def kind(fed: str) -> str:
    """In a word."""
    return "picture" if fed == PIXELS else "sound" if fed in SOUNDS else "text"


def fillers(fed: str) -> tuple[str, ...]:
    """What can stand in the place of a part of it, the default first; none of a text, which has tokens for that."""
    return SIGNALS[fed].fillers if fed in SIGNALS else ()


def listed(names: Sequence[str]) -> str:
    """Names as a message lists them: 'grey', 'blur' or 'zero'."""
    *rest, last = map(repr, names)
    return f"{', '.join(rest)} or {last}" if rest else last
