"""What a model is fed: by the name of its input, a text or which kind of signal, and a random one to try it on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mixlens.architectures import fed
from mixlens.capture.frames import probe_length, random_sound
from mixlens.capture.layout import random_picture, shape_of
from mixlens.capture.picture import PIXELS, Picture
from mixlens.capture.signal import Signal
from mixlens.capture.sound import MEL, WAVE, Sound
from mixlens.capture.spectrogram import random_spectrogram


@dataclass(frozen=True)
class Kind:
    """A kind of input that is no text. `stream`: its class. `random`: what a model is tried on, (1, ...), the same for
    every model of a size; it raises UnsupportedConfig.
    """

    stream: type[Signal]
    random: Callable[[Any], Tensor]


# By what a model calls its input (`main_input_name`). How a caller's data become such a stream: `subject/signals.py`.
SIGNALS: Mapping[str, Kind] = {
    PIXELS: Kind(Picture, lambda model: random_picture(shape_of(model))),
    WAVE: Kind(Sound, lambda model: random_sound(probe_length(model))),
    MEL: Kind(Sound, random_spectrogram),
}
SOUNDS = (WAVE, MEL)


@dataclass(frozen=True)
class TowerProcessor:
    """What a model of two towers needs beside its weights: a tokenizer, and an image processor; None: not there."""

    tokenizer: Any = None
    image_processor: Any = None


def kind(fed: str) -> str:
    """In a word."""
    return SIGNALS[fed].stream.noun if fed in SIGNALS else "text"


def random_signal(model: Any) -> Tensor:
    """(1, ...): what a model of signals is tried on. Raises UnsupportedConfig."""
    return SIGNALS[fed(model)].random(model)


def fillers(fed: str) -> tuple[str, ...]:
    """What can stand in the place of a part of it, the default first; none of a text, which has tokens for that."""
    return SIGNALS[fed].stream.fillers if fed in SIGNALS else ()


def listed(names: Sequence[str]) -> str:
    """Names as a message lists them: 'grey', 'blur' or 'zero'."""
    *rest, last = map(repr, names)
    return f"{', '.join(rest)} or {last}" if rest else last
