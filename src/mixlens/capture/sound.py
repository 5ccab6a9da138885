"""`Sound`: the stream of speech, a position a frame; what is fed, drawn and said of it, and its changed copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from mixlens.capture.signal import Signal
from mixlens.capture.stream import Place
from mixlens.errors import UnknownOption

WAVE = "input_values"  # what models of waves call their input: (sound, sample)
MEL = "input_features"  # what models of spectrograms call theirs: (sound, band, column)
SILENCE = "silence"
Spoken = tuple[str, float, float]  # a word, and the seconds where it begins and ends


@dataclass(frozen=True)
class Sound(Signal):
    """The stream of one sound. `places`: the seconds where each frame begins and ends.

    rate: samples a second of what came in
    seconds: how long it is
    peaks: the lowest and highest sample of each of as many stretches as are drawn
    words: what is said and when, where that is known
    emitted: the class that a CTC head gives in each frame, None for its blank; None altogether for other heads
    silent: which frames are none of the sound: what a model fills it up with
    cuts: the part of what the model is fed that each frame stands for, [start, end) on its last axis
    inputs: `input_values` (sample), or `input_features` (band, column), as the model is fed
    """

    noun: ClassVar[str] = "sound"
    unit = "frame"
    axes = ("start", "end")
    fed: ClassVar[str] = WAVE
    fillers: ClassVar[tuple[str, ...]] = (SILENCE,)

    places: tuple[Place, ...]
    rate: int
    seconds: float
    peaks: tuple[tuple[float, float], ...]
    cuts: tuple[tuple[int, int], ...]
    words: tuple[Spoken, ...] | None = None
    emitted: tuple[int | None, ...] | None = None
    silent: tuple[bool, ...] | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many frames there are."""
        return len(self.places)

    @property
    def names(self) -> tuple[str, ...]:
        """Where each begins."""
        digits = 2 if self.n < 2 or self.places[1][0] - self.places[0][0] >= 0.01 else 3
        return tuple(f"{start:.{digits}f} s" for start, _ in self.places)

    @property
    def special(self) -> tuple[bool, ...]:
        """Which are none of the sound."""
        return (False,) * self.n if self.silent is None else self.silent

    @property
    def numbers(self) -> Tensor:
        """What the model is fed."""
        (numbers,) = self.inputs.values()
        assert isinstance(numbers, Tensor)
        return numbers

    @property
    def replaceable(self) -> tuple[int, ...]:
        """The frames of the sound."""
        return tuple(i for i, silent in enumerate(self.special) if not silent)

    @property
    def has_words(self) -> bool:
        """Whether it is known what is said when."""
        return bool(self.words)

    def homes(self) -> list[int | None]:
        """The number of the word that holds the middle of each frame."""
        middles = [(start + end) / 2 for start, end in self.places]
        return [
            next((k for k, (_, start, end) in enumerate(self.words or ()) if start <= middle < end), None)
            for middle in middles
        ]

    def without(self, removed: Sequence[int], filler: str) -> Sound:
        """The same sound with silence in the place of some frames. Raises UnknownOption."""
        known(filler)
        numbers = self.numbers.clone()
        low = quiet_level(self)
        for i in removed:
            start, end = self.cuts[i]
            numbers[..., start:end] = low
        return replace(self, inputs={next(iter(self.inputs)): numbers})

    def validate(self) -> None:
        """Raises ValueError where lengths or times do not go together."""
        for name in ("cuts", "emitted", "silent"):
            row = getattr(self, name)
            if row is not None and len(row) != len(self):
                raise ValueError(f"{len(row)} {name} for {len(self)} frames")
        if any(len(place) != 2 for place in self.places):
            raise ValueError("a place that is no stretch of time")
        if any(len(word) != 3 for word in self.words or ()):
            raise ValueError("a word without its times")


def known(filler: str) -> str:
    """What takes a frame's place. Raises UnknownOption."""
    if filler != SILENCE:
        raise UnknownOption(f"expected 'silence' in the place of a frame, got {filler!r}")
    return SILENCE


def quiet_level(sound: Sound) -> float:
    """Silence as a model is fed it: of a wave 0, of a spectrogram its own least number."""
    return 0.0 if WAVE in sound.inputs else float(sound.numbers.min())
