"""What a caller passes as a sound, to the streams that a model reads; what it cannot read is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mixlens.architectures import Spec, base_model, fed
from mixlens.capture.frames import Timing, timing_of
from mixlens.capture.offload import device_of
from mixlens.capture.run import Reading, run
from mixlens.capture.sound import MEL, WAVE, Sound
from mixlens.capture.spectrogram import shape_of
from mixlens.errors import EmptyInput, InputError, TooLong
from mixlens.progress import quiet
from mixlens.subject.head import Head
from mixlens.subject.waves import Wave, wave_of, words_of

DRAWN = 400  # stretches of a sound whose lowest and highest samples are kept to be drawn
_TIMINGS: WeakKeyDictionary[Any, Timing] = WeakKeyDictionary()


def listed(data: Any) -> tuple[list[Any], bool]:
    """The sounds in `data`, and whether it was a single one: a list holds several. Raises EmptyInput."""
    if isinstance(data, list) and not (data and all(isinstance(x, (int, float)) for x in data)):
        if not data:
            raise EmptyInput("expected a sound or several, got an empty list; pass at least one sound")
        return list(data), False
    return [data], True


def sound_of(item: Any, model: Any, spec: Spec, processor: Any, head: Head) -> Sound:
    """One sound as a stream. Raises InputError."""
    extractor = getattr(processor, "feature_extractor", processor)
    if fed(model) == MEL:
        return _of_spectrogram(item, model, processor)
    if isinstance(item, Mapping) and WAVE in item:
        words = item.get("words")
        wave = wave_of(item[WAVE], None) if set(item) <= {WAVE, "words"} else None
        if wave is None:
            raise InputError(f"expected a mapping with '{WAVE}' and 'words' alone, got {sorted(map(str, item))}")
        numbers, rate = torch.from_numpy(wave.samples), getattr(extractor, "sampling_rate", None) or 16000
    else:
        if extractor is None:
            raise InputError(
                f"a sound needs its model's feature extractor: mixlens.load(model, processor), or pass {{'{WAVE}': "
                "numbers}} as the feature extractor gives"
            )
        rate = int(extractor.sampling_rate)
        given, words = item, None
        if isinstance(item, Mapping):
            given, words = _taken(item)
        wave = wave_of(given, rate)
        numbers = extracted(extractor, wave)
    return _stream(numbers, wave, rate, words, model, spec, head)


def _of_spectrogram(item: Any, model: Any, processor: Any) -> Sound:
    """One sound of a model that is fed spectrograms of one length. Raises InputError."""
    extractor = getattr(processor, "feature_extractor", processor)
    if extractor is None:
        raise InputError(
            "a sound needs its model's feature extractor, which says how long a column of a spectrogram is: "
            "mixlens.load(model, processor)"
        )
    rate, words = int(extractor.sampling_rate), None
    if isinstance(item, Mapping):
        item, words = _taken(item)
    wave = wave_of(item, rate)
    seconds, most = len(wave.samples) / rate, int(extractor.n_samples)
    if len(wave.samples) > most:
        raise TooLong(
            f"expected a sound of at most {most / rate:g} s, which {type(model).__name__} hears at a time, got "
            f"{seconds:.2f} s; pass a part of it"
        )
    numbers = extracted(extractor, wave, MEL)
    bands, columns = shape_of(model)
    if tuple(numbers.shape) != (bands, columns):
        raise InputError(
            f"expected the spectrogram of {bands} bands and {columns:,} columns that {type(model).__name__} reads, "
            f"{type(extractor).__name__} gives {tuple(numbers.shape)}; load the extractor that belongs to the model"
        )
    frames = int(base_model(model).config.max_source_positions)
    step, each = columns // frames, extractor.hop_length / rate
    places = tuple((i * step * each, (i + 1) * step * each) for i in range(frames))
    return Sound(
        places=places,
        rate=rate,
        seconds=seconds,
        peaks=_peaks(wave.samples),
        cuts=tuple((i * step, (i + 1) * step) for i in range(frames)),
        words=None if words is None else words_of(words, seconds),
        silent=tuple(start >= seconds for start, _ in places),
        inputs={MEL: numbers.detach().to("cpu")},
    )


def _taken(item: Mapping[Any, Any]) -> tuple[Any, Any]:
    """What a mapping as data sets and pipelines have them holds: the sound with its rate, and its words."""
    known = {"array", "raw", "sampling_rate", "words", "chunks", "path", "text"}
    arrays = [item[key] for key in ("array", "raw") if item.get(key) is not None]
    if set(item) - known or len(arrays) != 1 or "sampling_rate" not in item:
        raise InputError(
            "expected a mapping with 'array', 'sampling_rate' and, where they are known, 'words', a list of (word, "
            f"start, end) in seconds; got {sorted(map(str, item))}"
        )
    words = item["words"] if item.get("words") is not None else item.get("chunks")
    return (arrays[0], item["sampling_rate"]), words


def extracted(extractor: Any, wave: Wave, name: str = WAVE) -> Tensor:
    """(sample,), or (band, column): what a feature extractor makes of a sound. Raises InputError."""
    try:
        with quiet():
            made = extractor(wave.samples, sampling_rate=extractor.sampling_rate, return_tensors="pt")
        (numbers,) = made[name]
    except Exception as error:  # whatever it says of what it cannot take
        raise InputError(
            f"expected a sound that {type(extractor).__name__} takes, got one of {len(wave.samples):,} samples: "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        ) from error
    return numbers if isinstance(numbers, Tensor) else torch.from_numpy(np.asarray(numbers))


def _stream(numbers: Tensor, wave: Wave, rate: int, words: Any, model: Any, spec: Spec, head: Head) -> Sound:
    """The stream of what a model is fed. Raises TooShort for less than a frame."""
    if model not in _TIMINGS:
        _TIMINGS[model] = timing_of(model, spec)
    timing, samples = _TIMINGS[model], len(numbers)
    if timing.count(samples) == 0:
        raise EmptyInput(
            f"expected a sound of at least one frame, {timing.field:,} samples ({timing.field / rate:.3f} s at "
            f"{rate:,} a second), got {samples:,}; pass a longer one"
        )
    cuts = timing.cuts(samples)
    seconds = samples / rate
    sound = Sound(
        places=tuple((start / rate, end / rate) for start, end in cuts),
        rate=rate,
        seconds=seconds,
        peaks=_peaks(wave.samples),
        cuts=cuts,
        words=None if words is None else words_of(words, seconds),
        inputs={WAVE: numbers.detach().to("cpu")},
    )
    return _heard(sound, model, spec, head) if head.task == "ctc" else sound


@torch.no_grad()
def _heard(sound: Sound, model: Any, spec: Spec, head: Head) -> Sound:
    """With what a CTC head says in each frame, and (where nobody said them) the words of that with their times."""
    fed_with = {WAVE: sound.numbers[None].to(device_of(model), model.dtype)}
    logits = getattr(run(model, spec, fed_with, lambda seen: None, Reading(heads=True)), str(head.keys[0]))[0]
    path = logits.argmax(-1).tolist()
    emitted = tuple(None if label == head.pad else label for label in path)
    words = sound.words
    if words is None and hasattr(head.tokenizer, "word_delimiter_token"):
        offsets = head.tokenizer.decode(path, output_word_offsets=True).word_offsets
        times = [(o["word"], sound.places[o["start_offset"]][0], sound.places[o["end_offset"] - 1][1]) for o in offsets]
        words = tuple(times) or None
    return replace(sound, emitted=emitted, words=words)


def _peaks(samples: NDArray[np.float64]) -> tuple[tuple[float, float], ...]:
    parts = np.array_split(samples, min(DRAWN, len(samples)))
    return tuple((round(float(p.min()), 5), round(float(p.max()), 5)) for p in parts)
