"""The embedded model of sounds, `mixlens:tones`: small, trained on synthetic tones by experiments/tones.py.

A word is two tones of two "formants" each, a consonant's and a vowel's. "ka" and "ca" sound the same; which of them is
written is decided by a word elsewhere in the sentence, "lo" (ka) or "ru" (ca). So it is known where the answer is from.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixlens.errors import InputError
from mixlens.progress import quiet

NAME = "tones"
RATE, SAMPLES = 2000, 2600  # samples a second, and of every sentence
WORDS = 6  # of a sentence
ALIKE = {"lo": "ka", "ru": "ca"}  # what the word that sounds alike is written as, by the word that decides
OTHERS = ("ba", "de", "mi", "no", "tu", "be", "do", "ma")
LETTERS = tuple("bdmntkclraeiou")
# Hertz of the two tones of a letter; k and c are one sound.
_TONES = {
    **{"b": (130, 420), "d": (180, 640), "m": (230, 300), "n": (280, 780), "t": (340, 900), "l": (150, 720)},
    **{"k": (400, 560), "c": (400, 560), "r": (460, 840)},
    **{"a": (520, 700), "e": (260, 860), "i": (110, 950), "o": (320, 480), "u": (200, 360)},
}


class Sentence(NamedTuple):
    """A sound with its words as `lens.attribute` takes it, which of them sounds like another, and which decides."""

    sound: dict[str, Any]
    alike: int
    cue: int

    @property
    def text(self) -> str:
        """What is said, as it is written."""
        return " ".join(word for word, _, _ in self.sound["words"])


def sentence(rng: np.random.Generator) -> Sentence:
    """A sentence of six words: one that sounds like another, one that decides, in any order, and four others."""
    cue, alike = (int(i) for i in rng.choice(WORDS, 2, replace=False))
    words = [str(w) for w in rng.choice(OTHERS, WORDS)]
    words[cue] = str(rng.choice(list(ALIKE)))
    words[alike] = ALIKE[words[cue]]
    lengths = rng.integers(220, 300, WORDS)
    free = SAMPLES - int(lengths.sum())
    gaps = rng.dirichlet(np.full(WORDS + 1, 8.0)) * free
    x = rng.normal(0, 0.02, SAMPLES)
    spoken, at = [], 0.0
    for word, length, gap in zip(words, lengths, gaps, strict=False):
        start = int(at + gap)
        at = start + int(length)
        x[start : int(at)] += spelled(word, int(length), rng)
        spoken.append((word, start / RATE, int(at) / RATE))
    return Sentence({"array": x, "sampling_rate": RATE, "words": spoken}, alike, cue)


def spelled(word: str, length: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """The samples of a word: half of it the first letter's tones, half the second's, a little off each time."""
    out = []
    for letter, count in zip(word, (length // 2, length - length // 2), strict=True):
        time = np.arange(count) / RATE
        loud, off = 0.25 * np.exp(rng.normal(0, 0.15)), np.exp(rng.normal(0, 0.01))
        waves = [np.sin(2 * np.pi * (hertz * off * time + rng.random())) for hertz in _TONES[letter]]
        out.append(loud * np.hanning(count + 2)[1:-1] ** 0.5 * (waves[0] + waves[1]))
    return np.concatenate(out)


def held_out(count: int = 200) -> list[Sentence]:
    """Sentences that the model was not trained on, the same each time. Raises InputError.

    Examples:
        >>> sentence = mixlens.embedded_sounds.held_out(1)[0]
        >>> len(sentence.text.split())
        6
    """
    if count < 1:
        raise InputError(f"expected one sentence or more, got {count}")
    rng = np.random.default_rng(1_000_003)
    return [sentence(rng) for _ in range(count)]


def load_tones() -> tuple[Any, Any]:
    """The model, a Wav2Vec2ForCTC, and its processor."""
    import torch
    from safetensors.torch import load
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # the caller's stream stays put
        model = Wav2Vec2ForCTC(Wav2Vec2Config(**provenance()["settings"])).float().eval()
    weights = {name: t.float() for name, t in load(_file()).items()}
    model.load_state_dict(weights)
    model.config._name_or_path = f"mixlens:{NAME}"
    return model, processor()


def processor() -> Any:
    """A feature extractor with a tokenizer of the letters; "|" is between two words, "<pad>" CTC's blank."""
    from transformers import Wav2Vec2CTCTokenizer, Wav2Vec2FeatureExtractor, Wav2Vec2Processor

    names = ["<pad>", "<s>", "</s>", "<unk>", "|", *LETTERS]
    with quiet(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.json"
        path.write_text(json.dumps({name: i for i, name in enumerate(names)}), encoding="utf-8")
        tokenizer = Wav2Vec2CTCTokenizer(str(path))
    extractor = Wav2Vec2FeatureExtractor(sampling_rate=RATE, do_normalize=True, return_attention_mask=False)
    return Wav2Vec2Processor(extractor, tokenizer)


def provenance() -> dict[str, Any]:
    """What the file says of itself: recipe, data, accuracy."""
    data = _file()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    facts: dict[str, Any] = json.loads(header["__metadata__"]["provenance"])
    return facts


@cache
def _file() -> bytes:
    return (files("mixlens") / "data" / "sounds" / "tones.safetensors").read_bytes()
