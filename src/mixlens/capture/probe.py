"""A picture or a sound to try a model on, the same for every model of a size."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mixlens.architectures import fed
from mixlens.capture.frames import probe_length, random_sound
from mixlens.capture.layout import random_picture, shape_of
from mixlens.capture.picture import PIXELS
from mixlens.capture.sound import MEL
from mixlens.capture.spectrogram import random_spectrogram


def random_signal(model: Any) -> Tensor:
    """(1, ...): what a model of pictures or sounds is tried on. Raises UnsupportedConfig."""
    if fed(model) == PIXELS:
        return random_picture(shape_of(model))
    if fed(model) == MEL:
        return random_spectrogram(model)
    return random_sound(probe_length(model))
