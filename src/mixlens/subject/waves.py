"""Samples and words as people have them: arrays with their rate, WAV files, alignments; what is no sound is refused."""

from __future__ import annotations

import os
import struct
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mixlens.capture.sound import Spoken
from mixlens.errors import EmptyInput, InputError

LOUDEST = 64  # beyond which floating-point samples are no sound of -1 to 1, and none that was normalised
_UNSAID = 0xFFFFFFFF  # how long the samples are, of who wrote a WAV file as a stream
_PCM = {"int16": (0, 1 << 15), "int32": (0, 1 << 31), "uint8": (128, 128)}  # the middle and the reach of samples
_EXPECTED = (
    "expected a sound: a 1-D array of samples at the model's rate, a pair (array, rate), a mapping with 'array' and "
    "'sampling_rate', or the path of a WAV file"
)


@dataclass(frozen=True)
class Wave:
    """Samples of one channel, at the model's rate."""

    samples: NDArray[np.float64]


def wave_of(given: Any, rate: int | None) -> Wave:
    """The samples in whatever they came in. `rate`: the model's, None: theirs is not to be asked. Raises InputError."""
    if isinstance(given, (str, os.PathLike)):
        given = _file(given)
    came = rate
    if isinstance(given, tuple):
        if (
            len(given) != 2
            or isinstance(given[1], bool)
            or not isinstance(given[1], (int, float, np.integer, np.floating))
        ):
            raise InputError(f"{_EXPECTED}, got a tuple of {len(given)}: {given!r:.60}")
        if not (np.isfinite(given[1]) and given[1] > 0 and given[1] == int(given[1])):
            raise InputError(f"expected a rate, a whole number of samples a second above 0, got {given[1]}")
        given, came = given[0], int(given[1])
    samples = _array(given)
    if samples.ndim == 0:
        raise InputError(f"{_EXPECTED}, got a single number: {samples}")
    if samples.ndim != 1:
        raise InputError(
            f"expected one channel, an array (sample,), got the shape {samples.shape}; take one, or their mean: "
            f"{'x[0] or x.mean(0)' if samples.shape[0] <= samples.shape[-1] else 'x[:, 0] or x.mean(1)'}"
        )
    if len(samples) == 0:
        raise EmptyInput("expected a sound with samples, got none")
    if came != rate and rate is not None and came is not None:
        common = gcd(rate, came) or 1
        raise InputError(
            f"expected {rate:,} samples a second, the model's rate, got {came:,}; resample it: "
            f"scipy.signal.resample_poly(x, {rate // common}, {came // common})"
        )
    if not np.isfinite(samples).all():
        raise InputError("expected finite samples, got NaN or infinity; look at how the sound was read")
    if np.abs(samples).max() > LOUDEST:
        raise InputError(
            f"expected samples of -1 to 1, got {np.abs(samples).max():,.0f}; divide them by what full scale is (32,768 "
            "of 16 bits)"
        )
    if (samples == samples[0]).all():
        raise InputError(
            f"expected a sound, got silence: all {len(samples):,} samples are {samples[0]:.4g}; of nothing there is "
            "nothing to explain"
        )
    return Wave(samples)


def _array(given: Any) -> NDArray[np.float64]:
    """Samples as floats; whole numbers as the samples of a WAV file are meant. Raises InputError."""
    if isinstance(given, Tensor):
        if given.is_meta or given.is_sparse or given.is_quantized:
            raise InputError("expected a tensor whose numbers are there, dense, got another; pass a dense one")
        given = given.detach().cpu().double().numpy() if given.is_floating_point() else given.cpu().numpy()
    if isinstance(given, (list, np.ndarray)):
        try:
            array = np.asarray(given)
        except ValueError as error:
            raise InputError(f"{_EXPECTED}, got a list of lists of several lengths") from error
        if array.dtype.name in _PCM:
            middle, reach = _PCM[array.dtype.name]
            return (array.astype(np.float64) - middle) / reach
        if array.dtype.kind == "f" or array.size == 0:
            return array.astype(np.float64)
        raise InputError(
            f"expected samples as floating-point numbers of -1 to 1, int16, int32 or uint8, got {array.dtype}"
        )
    raise InputError(f"{_EXPECTED}, got {type(given).__name__}: {given!r:.60}")


def _file(path: Any) -> tuple[NDArray[Any], int]:
    """The samples and the rate of a WAV file. Raises InputError."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"expected the path of a WAV file, got {str(path)!r:.200}: no such file")
    return sound_in(file, str(path))


def sound_in(source: Any, name: str) -> tuple[NDArray[Any], int]:
    """The samples and the rate of a WAV file that is there, or of what is read as one. Raises InputError."""
    from scipy.io import wavfile

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # chunks of other programs
            rate, samples = wavfile.read(source)
        _require_whole(source, name)
    except InputError:
        raise
    except Exception as error:  # whatever it says of a damaged file
        raise InputError(
            f"expected a WAV file, {name!r:.200} cannot be read: {str(error).partition(chr(10))[0]}; another kind "
            "of file is read by soundfile: mixlens takes what soundfile.read(path) gives"
        ) from error
    return samples, int(rate)


def _require_whole(source: Any, name: str) -> None:
    """Raises InputError for a WAV file that ends before its samples do, or that has two lots of them: scipy reads what
    is there, and the last lot.
    """
    with open(source, "rb") if isinstance(source, Path) else nullcontext(source) as file:
        order = ">" if file.read(4) == b"RIFX" else "<"
        end, at, lots = file.seek(0, os.SEEK_END), 12, 0
        while at + 8 <= end:
            file.seek(at)
            kind, size = struct.unpack(f"{order}4sI", file.read(8))
            at += 8
            lots += kind == b"data"
            if kind == b"data" and at + size > end and size != _UNSAID:
                raise InputError(
                    f"expected a whole WAV file, {name!r:.200} breaks off: it says that it holds {size:,} bytes of "
                    f"samples, and holds {end - at:,}; copy it again, or pass what soundfile.read(path) gives"
                )
            at += size + size % 2
    if lots > 1:
        raise InputError(
            f"expected a WAV file with its samples in one piece, {name!r:.200} has them in {lots}; write it anew, or "
            "pass (samples, rate)"
        )


def words_of(given: Any, seconds: float) -> tuple[Spoken, ...]:
    """Words with their times, in order. Raises InputError.

    (word, start, end) each, or a mapping as pipelines give them: 'text' or 'word'; 'timestamp', or 'start' and 'end'.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise InputError(f"expected words= a list of (word, start, end) in seconds, got {type(given).__name__}")
    out: list[Spoken] = []
    for number, word in enumerate(given):
        text, start, end = _word(word, number)
        if not (0 <= start < end <= seconds + 0.05):
            raise InputError(
                f"expected words that begin before they end, between 0 and {seconds:.3f} s, word {number} ({text!r}) "
                f"is {start} to {end}; times are seconds"
            )
        if out and start < out[-1][2] - 1e-6:
            raise InputError(
                f"expected words one after the other, word {number} ({text!r}) begins at {start}, before "
                f"{out[-1][0]!r} ends at {out[-1][2]}; sort them, or cut overlaps"
            )
        out.append((text, start, end))
    if not out:
        raise InputError("expected at least one word in words=, got none; leave it out where words are not known")
    return tuple(out)


def _word(word: Any, number: int) -> Spoken:
    if isinstance(word, Mapping):
        text = word.get("text", word.get("word"))
        times = word.get("timestamp", (word.get("start"), word.get("end")))
        word = (text, *times) if isinstance(times, (tuple, list)) else word
    if isinstance(word, (tuple, list)) and len(word) == 3 and isinstance(word[0], str):
        try:
            times = [float(t) for t in word[1:]]
        except (TypeError, ValueError):
            times = []
        if len(times) == 2 and np.isfinite(times).all() and word[0].strip():
            return word[0].strip(), times[0], times[1]
    raise InputError(f"expected (word, start, end), a word that is written and seconds, word {number} is {word!r:.80}")
