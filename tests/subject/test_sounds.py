"""Sounds as they come, whatever they come as; their words; what a CTC head says; and what is refused."""

import numpy as np
import pytest
import torch
from scipy.io import wavfile

import mixlens
from mixlens.errors import EmptyInput, InputError, TargetError, UnknownOption, UnsupportedConfig
from models import sounds


@pytest.fixture(scope="module")
def lens():
    return sounds.lens("wav2vec2-classes")


@pytest.fixture(scope="module")
def ctc():
    return sounds.lens("wav2vec2-ctc")


def test_an_array_a_tensor_a_pair_a_mapping_a_file_and_what_the_extractor_gives_are_one_sound(lens, tmp_path):
    pcm = (sounds.sound() * 32768).astype(np.int16)
    x = pcm / 32768
    wavfile.write(tmp_path / "it.wav", sounds.RATE, pcm)
    given = [
        x,
        torch.from_numpy(x),
        (x, sounds.RATE),
        pcm,
        {"array": x, "sampling_rate": sounds.RATE},
        {"raw": x, "sampling_rate": sounds.RATE, "path": None},
        tmp_path / "it.wav",
        str(tmp_path / "it.wav"),
        {"input_values": sounds.extractor()(x, sampling_rate=sounds.RATE)["input_values"][0]},
    ]
    scores = [lens.attribute(item, method="alti").scores for item in given]
    assert all(torch.allclose(scores[0], other, rtol=1e-6, atol=1e-9) for other in scores[1:])
    assert len(lens.attribute(given[:2], method="random")) == 2


def test_words_may_be_triples_or_what_a_pipeline_gives(lens):
    triples = sounds.spoken()
    chunks = [{"text": f" {text}", "timestamp": (start, end)} for text, start, end in sounds.WORDS]
    both = [triples, {"array": triples["array"], "sampling_rate": sounds.RATE, "chunks": chunks, "text": "one two one"}]
    first, second = (lens.attribute(given, method="alti").words() for given in both)
    assert first == second
    assert [(w.text, w.special) for w in first] == [
        ("…", True),
        ("one", False),
        ("…", True),
        ("two", False),
        ("one", False),
        ("…", True),
    ]
    assert (first[1].start, first[1].end) == (0.02, 0.14)
    assert first[1].indices == (1, 2, 3, 4, 5)  # frames whose middles are in the word
    assert sorted(i for w in first for i in w.indices) == list(range(24))


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (np.zeros(0), EmptyInput, "expected a sound with samples, got none"),
        ([], EmptyInput, "expected a sound or several, got an empty list"),
        (np.zeros(500), InputError, "got silence: all 500 samples are 0"),
        (np.full(500, 0.25), InputError, "got silence: all 500 samples are 0.25"),
        (np.zeros((2, 500)), InputError, r"expected one channel.*\(2, 500\).*x\[0\] or x\.mean\(0\)"),
        (np.zeros((500, 2)), InputError, r"expected one channel.*x\[:, 0\] or x\.mean\(1\)"),
        (np.array([0.1, np.nan] * 90), InputError, "expected finite samples, got NaN or infinity"),
        ((sounds.sound(), 1500), InputError, r"expected 1,000 samples a second.*1,500.*resample_poly\(x, 2, 3\)"),
        (sounds.sound() * 32768, InputError, "expected samples of -1 to 1, got .*; divide them"),
        (np.arange(500), InputError, "expected samples as floating-point numbers.*got int64"),
        (sounds.sound(39), EmptyInput, r"at least one frame, 40 samples \(0.040 s at 1,000 a second\), got 39"),
        ("no.wav", InputError, "expected the path of a WAV file, got 'no.wav': no such file"),
        (3, InputError, "expected a sound: a 1-D array.*got int: 3"),
        ((sounds.sound(), 1000, 3), InputError, "got a tuple of 3"),
        ((sounds.sound(), float("nan")), InputError, "expected a rate, a whole number of samples a second.*got nan"),
        ((sounds.sound(), float("inf")), InputError, "expected a rate, a whole number .* above 0, got inf"),
        ((sounds.sound(), 0), InputError, "expected a rate, .* above 0, got 0"),
        ((sounds.sound(), 1000.5), InputError, "expected a rate, a whole number .*, got 1000.5"),
        (np.array(0.5), InputError, "expected a sound: a 1-D array.*got a single number: 0.5"),
        ({**sounds.spoken(), "words": [(" ", 0.2, 0.4)]}, InputError, "a word that is written.*word 0 is"),
        ({"array": sounds.sound()}, InputError, r"'sampling_rate' and.*got \['array'\]"),
        ({**sounds.spoken(), "words": [("a", 0.2, 0.1)]}, InputError, "begin before they end, between 0 and 0.500 s"),
        ({**sounds.spoken(), "words": [("a", 0.2, 0.7)]}, InputError, "word 0 .'a'. is 0.2 to 0.7; times are seconds"),
        (
            {**sounds.spoken(), "words": [("a", 0.2, 0.4), ("b", 0.3, 0.5)]},
            InputError,
            "one after the other, word 1 .'b'. begins at 0.3, before 'a' ends at 0.4",
        ),
        ({**sounds.spoken(), "words": ["a"]}, InputError, r"expected \(word, start, end\), .*, word 0 is 'a'"),
        ({**sounds.spoken(), "words": []}, InputError, "expected at least one word"),
    ],
)
def test_what_is_no_sound_is_refused(lens, given, error, says):
    with pytest.raises(error, match=says):
        lens.attribute(given, method="alti")


def test_a_rate_may_be_a_number_of_numpy(lens):
    assert len(lens.attribute((sounds.sound(), np.float32(1000)), method="alti", readout=0).scores) == 24


def test_a_file_that_is_none_is_refused(lens, tmp_path):
    (tmp_path / "a.wav").write_text("no")
    with pytest.raises(InputError, match=r"expected a WAV file, .* cannot be read: .*soundfile"):
        lens.attribute(tmp_path / "a.wav", method="alti")


def test_a_file_that_breaks_off_is_refused(lens, tmp_path):
    """A copy that was cut, or a header that says more than there is: what is left is another sound."""
    path = tmp_path / "a.wav"
    wavfile.write(path, sounds.RATE, (sounds.sound() * 1000).astype(np.int16))
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    said, there = len(whole) - 44, len(whole) - 144
    with pytest.raises(InputError, match=rf"a\.wav' breaks off: it says .* {said:,} bytes of samples, .* {there:,};"):
        lens.attribute(path, method="alti", readout=0)
    path.write_bytes(whole[:4] + b"\xff" * 4 + whole[8:40] + b"\xff" * 4 + whole[44:])  # written as a stream
    lens.attribute(path, method="alti", readout=0)


def test_a_file_with_two_lots_of_samples_is_refused(lens, tmp_path):
    path = tmp_path / "a.wav"
    wavfile.write(path, sounds.RATE, (sounds.sound() * 1000).astype(np.int16))
    body = path.read_bytes()[8:]
    body += body[28:]
    path.write_bytes(b"RIFF" + len(body).to_bytes(4, "little") + body)
    with pytest.raises(InputError, match=r"samples in one piece, .*a\.wav' has them in 2; write it anew"):
        lens.attribute(path, method="alti", readout=0)


def test_one_of_several_sounds_is_named_by_its_number(lens):
    with pytest.raises(InputError, match=r"^sound 1: expected a sound, got silence"):
        lens.attribute([sounds.sound(), np.zeros(500)], method="alti")


def test_options_of_texts_are_refused_and_what_takes_a_frames_place_is_named(lens):
    with pytest.raises(UnknownOption, match="truncate=True cuts texts, this model reads sounds"):
        lens.attribute(sounds.sound(), method="alti", truncate=True)
    with pytest.raises(UnknownOption, match=r"expected replace='silence' for blank_out of a sound, got 'unk'"):
        lens.attribute(sounds.sound(), method="blank_out", replace="unk")
    with pytest.raises(InputError, match=r"expected a processor or a feature extractor.*got object"):
        mixlens.load(sounds.model("wav2vec2"), object())


def test_without_an_extractor_a_sound_needs_one_and_its_numbers_do_not():
    lens = mixlens.load(sounds.model("wav2vec2"))
    with pytest.raises(InputError, match=r"needs its model's feature extractor: mixlens.load\(model, processor\)"):
        lens.mixing(sounds.sound())
    assert len(lens.mixing({"input_values": sounds.sound()}, method="alti").source) == 24


def test_words_that_nobody_says_are_asked_for(lens):
    attr = lens.attribute(sounds.sound(), method="alti")
    with pytest.raises(InputError, match="words need to be known with their times"):
        attr.words()


def test_blank_out_of_words_silences_each_as_a_whole(lens):
    given = sounds.spoken()
    attr = lens.attribute(given, method="blank_out", words=True)
    stream = attr.source
    x = stream.inputs["input_values"].double()
    model, index = lens.model, attr.target.index

    def chance(x):
        return float(model(x[None]).logits[0].detach().softmax(-1)[index])

    for word in attr.words():
        other = x.clone()
        for i in word.indices:
            start, end = (round(t * sounds.RATE) for t in stream.places[i])
            other[start:end] = 0
        assert word.score == pytest.approx(chance(x) - chance(other), rel=1e-9)


def test_a_ctc_head_says_words_and_is_asked_about_them(ctc):
    stream = ctc.subject.read(sounds.sound()).require()[0]
    logits = ctc.model(stream.inputs["input_values"][None].double()).logits[0].detach()
    path = logits.argmax(-1).tolist()
    assert stream.emitted == tuple(None if k == 0 else k for k in path)
    tokenizer = sounds.processor().tokenizer
    assert " ".join(word for word, _, _ in stream.words) == tokenizer.decode(path)
    once = next(w for w, _, _ in stream.words if [v for v, _, _ in stream.words].count(w) == 1)
    attr = ctc.attribute(sounds.sound(), method="grad_x_input", target=once)
    (home,) = (k for k, (w, _, _) in enumerate(stream.words) if w == once)
    frames = [i for i, h in enumerate(stream.homes()) if h == home and path[i]]
    assert attr.target.label == once and tuple(attr.meta["readout"]) == tuple(frames)
    p = float(torch.stack([logits[i].log_softmax(-1)[path[i]] for i in frames]).sum().exp())
    assert attr.meta["probability"] == pytest.approx(p, rel=1e-9)
    parts = [ctc.attribute(sounds.sound(), "grad_x_input", mixlens.Target(path[i], position=i)).scores for i in frames]
    assert torch.allclose(attr.scores, torch.stack(parts).sum(0), rtol=1e-10, atol=1e-14)


def test_what_a_ctc_head_is_not_asked_is_said(ctc):
    said = r"a CTC head says something in every frame: ask about a word .*mixlens\.Target\(position=i\)"
    with pytest.raises(TargetError, match=said):
        ctc.attribute(sounds.sound(), method="alti")
    with pytest.raises(TargetError, match=r"'one' is said 2 times; pass \(\d+, \d+\) or \(\d+, \d+\) as mixlens"):
        ctc.attribute(sounds.spoken(), method="alti", target="one")
    with pytest.raises(TargetError, match=r"expected a frame of -24 to 23, got 24"):
        ctc.attribute(sounds.sound(), method="alti", target=mixlens.Target(position=24))
    with pytest.raises(TargetError, match="expected no foil for a word of several frames"):
        ctc.attribute(sounds.spoken(), method="alti", target=mixlens.Target("two", foil="E"))


def test_a_folder_brings_its_processor(tmp_path):
    sounds.make("wav2vec2-ctc", torch.float32).save_pretrained(tmp_path)
    sounds.processor().save_pretrained(tmp_path)
    lens = mixlens.load(tmp_path)
    assert (
        lens.subject.read(sounds.sound()).require()[0].words
        == sounds.lens("wav2vec2-ctc", torch.float32).subject.read(sounds.sound()).require()[0].words
    )
    for name in ("preprocessor_config.json", "processor_config.json"):
        (tmp_path / name).unlink(missing_ok=True)
    assert mixlens.load(tmp_path).tokenizer is None


def test_spectrograms_of_patches_are_refused():
    import transformers

    config = transformers.ASTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=44, max_length=64, num_mel_bins=32
    )
    with pytest.raises((UnsupportedConfig, mixlens.errors.UnknownArchitecture), match=r"spectrogram|a sound"):
        mixlens.load(transformers.ASTModel(config).eval())
