"""What a caller passes to a model that is fed no text, to the streams that it reads: a line a kind of input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mixlens.architectures import Spec
from mixlens.capture.fed import kind
from mixlens.capture.picture import PIXELS
from mixlens.capture.signal import Signal
from mixlens.capture.sound import MEL, WAVE
from mixlens.errors import InputError, UnknownOption
from mixlens.subject import pictures, sounds
from mixlens.subject.head import Head
from mixlens.subject.read import Texts
from mixlens.subject.several import numbered


@dataclass(frozen=True)
class Reader:
    """`listed`: the items in what a caller passes, and whether it was a single one; `stream`: an item, the model, the
    spec of its layers, its processor and its head -> what the model is fed. Both raise InputError.
    """

    listed: Callable[[Any], tuple[list[Any], bool]]
    stream: Callable[[Any, Any, Spec, Any, Head], Signal]


# By what a model calls its input, as in `capture/fed.py`.
READERS: Mapping[str, Reader] = {
    PIXELS: Reader(pictures.listed, pictures.picture_of),
    WAVE: Reader(sounds.listed, sounds.sound_of),
    MEL: Reader(sounds.listed, sounds.sound_of),
}


def read_signals(data: Any, model: Any, spec: Spec, processor: Any, head: Head, truncate: bool) -> Texts:
    """The signals of a call. Raises InputError where a single one cannot be read."""
    noun, reader = kind(head.fed), READERS[head.fed]
    if truncate:
        raise UnknownOption(f"truncate=True cuts texts, this model reads {noun}s, which are never cut; leave it out")
    items, single = reader.listed(data)
    signals: list[Signal | InputError] = []
    for number, item in enumerate(items):
        try:
            signals.append(reader.stream(item, model, spec, processor, head))
        except InputError as error:
            if single:
                raise
            signals.append(numbered(error, number, noun))
    return Texts(signals, single)
