"""Whisper: both stacks are checked, its encoder's maps are of frames of 20 ms, what is behind the sound is special."""

import numpy as np
import pytest
import torch
import transformers

import mixlens
from mixlens.errors import InputError, TooLong, Undefined

SIZES = {
    "vocab_size": 60,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 44,
    "decoder_ffn_dim": 44,
    "num_mel_bins": 20,
    "max_source_positions": 50,
    "max_target_positions": 30,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(**SIZES)).double().eval()


@pytest.fixture(scope="module")
def extractor():
    return transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=1)


@pytest.fixture(scope="module")
def lens(model, extractor):
    return mixlens.load(model, extractor)


def sound(samples=9000):
    return 0.1 * np.random.default_rng(0).normal(size=samples)


def test_both_stacks_add_up_and_the_encoder_alone_is_the_same(lens, model, extractor):
    check = lens.check()
    assert check.passed and check.worst < 1e-13
    assert [layer.part for layer in check.layers] == ["encoder"] * 2 + ["decoder", "cross"] * 2
    alone = mixlens.load(model.get_encoder(), extractor)
    both = [known.mixing(sound(), method="alti").scores for known in (lens, alone)]
    assert torch.equal(*both) and both[0].shape == (2, 50, 50)


def test_frames_are_20_ms_and_those_behind_the_sound_are_special(lens, extractor):
    spoken = {"array": sound(), "sampling_rate": 16000, "words": [("a", 0.1, 0.2), ("b", 0.3, 0.5)]}
    maps = lens.mixing(spoken, method="value_zeroing")
    stream = maps.source
    assert stream.places[:2] == ((0.0, 0.02), (0.02, 0.04)) and stream.special.index(True) == 29  # 0.5625 s
    assert maps.by_word().source.names == ("…", "a", "…", "b", "…")
    mel = extractor(sound(), sampling_rate=16000, return_tensors="np")["input_features"][0]
    assert np.array_equal(stream.inputs["input_features"].numpy(), mel)


def test_what_has_no_rule_is_refused(lens, model):
    with pytest.raises(Undefined, match=r"what this model reads is a sound.*lens\.mixing\(sound\)"):
        lens.trace(sound(), [5, 6])
    with pytest.raises(Undefined, match="expected a model that reads one text, got an encoder-decoder"):
        lens.attribute(sound())
    with pytest.raises(TooLong, match=r"expected a sound of at most 1 s, .* got 1\.25 s; pass a part"):
        lens.mixing(sound(20000))
    with pytest.raises(InputError, match="needs its model's feature extractor, which says how long a column"):
        mixlens.load(model).mixing(sound())
