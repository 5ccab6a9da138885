"""Tiny random models of sounds, float64, all weights random; a sound, and their feature extractor and processor."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from models.families import randomize

RATE, HOP, FIELD = 1000, 20, 40  # samples a second; between two frames, and seen by one
SAMPLES = 500  # 24 frames, and a few samples that none sees
LETTERS = "E T A O N I H".split()
WORDS = [("one", 0.02, 0.14), ("two", 0.18, 0.3), ("one", 0.3, 0.42)]
_SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 44,
    "conv_dim": (16, 16, 16),
    "conv_kernel": (10, 3, 3),
    "conv_stride": (5, 2, 2),
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
}
_STABLE = (("do_stable_layer_norm", True), ("feat_extract_norm", "layer"))


class Kind(NamedTuple):
    """The class of a model, of its configuration, and settings."""

    model: str
    config: str
    settings: tuple[tuple[str, Any], ...] = ()


KINDS = {
    "wav2vec2": Kind("Wav2Vec2Model", "Wav2Vec2Config"),
    "wav2vec2-stable": Kind("Wav2Vec2Model", "Wav2Vec2Config", _STABLE),
    "wav2vec2-classes": Kind("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", (("num_labels", 5),)),
    "wav2vec2-ctc": Kind("Wav2Vec2ForCTC", "Wav2Vec2Config", (("vocab_size", 12), ("pad_token_id", 0))),
    "wav2vec2-frames": Kind("Wav2Vec2ForAudioFrameClassification", "Wav2Vec2Config", (("num_labels", 5),)),
    "hubert": Kind("HubertModel", "HubertConfig"),
    "hubert-classes": Kind("HubertForSequenceClassification", "HubertConfig", (("num_labels", 5),)),
    "hubert-stable": Kind("HubertModel", "HubertConfig", _STABLE),
    "wavlm": Kind("WavLMModel", "WavLMConfig"),
    "wavlm-stable": Kind("WavLMModel", "WavLMConfig", _STABLE),
    "data2vec": Kind("Data2VecAudioModel", "Data2VecAudioConfig"),
    "unispeech": Kind("UniSpeechModel", "UniSpeechConfig"),
    "unispeech-sat": Kind("UniSpeechSatModel", "UniSpeechSatConfig"),
    "sew": Kind("SEWModel", "SEWConfig", (("squeeze_factor", 2),)),
}


def make(name: str, dtype: torch.dtype = torch.float64, seed: int = 0, **settings: Any) -> Any:
    """A fresh model in eval mode."""
    kind = KINDS[name]
    config = getattr(transformers, kind.config)(**{**_SIZES, **dict(kind.settings), **settings})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, kind.model)(config).double()
        with torch.no_grad():
            randomize(model)
    return model.to(dtype).eval()


@cache
def model(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """`make`, once for all tests."""
    return make(name, dtype)


@cache
def lens(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """A lens on `model`, once for all tests."""
    import mixlens

    return mixlens.load(model(name, dtype), processor() if name.endswith("ctc") else extractor())


def extractor(**settings: Any) -> Any:
    """A feature extractor that normalises sounds."""
    return transformers.Wav2Vec2FeatureExtractor(**{"sampling_rate": RATE, "return_attention_mask": False, **settings})


@cache
def processor() -> Any:
    """The feature extractor with a tokenizer of letters."""
    names = ["<pad>", "<s>", "</s>", "<unk>", "|", *LETTERS]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.json"
        path.write_text(json.dumps({name: i for i, name in enumerate(names)}))
        tokenizer = transformers.Wav2Vec2CTCTokenizer(str(path))
    return transformers.Wav2Vec2Processor(extractor(), tokenizer)


def sound(samples: int = SAMPLES, seed: int = 0) -> NDArray[np.float64]:
    """Noise that is louder and softer."""
    draw = np.random.default_rng(seed)
    return 0.1 * draw.normal(size=samples) * (1.5 + np.sin(np.arange(samples) / 40))


def spoken(seed: int = 0) -> dict[str, Any]:
    """The same as data sets have it, with its words."""
    return {"array": sound(seed=seed), "sampling_rate": RATE, "words": WORDS}
