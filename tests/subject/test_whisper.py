"""Whisper: both stacks are checked, its encoder's maps are of frames of 20 ms, what is behind the sound is special."""

import copy
import warnings

import numpy as np
import pytest
import torch

import mixlens
from mixlens.errors import InputError, TooLong, Undefined, UnknownOption
from models import speech


@pytest.fixture(scope="module")
def model():
    return speech.make().double()


@pytest.fixture(scope="module")
def extractor():
    return speech.extractor()


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


def test_a_folder_without_a_vocabulary_has_no_tokenizer(tmp_path):
    """Not transformers' empty one, for which no id has a name."""
    lens = mixlens.load(speech.whisper(tmp_path))
    trace = lens.trace((sound(), 16000), [5, 6], "saliency")
    assert trace.answer.names == ("5", "6") and trace.prompt.names[50] == "3" and "0.30 s" in trace.to_html()


def test_frames_are_20_ms_and_those_behind_the_sound_are_special(lens, extractor):
    spoken = {"array": sound(), "sampling_rate": 16000, "words": [("a", 0.1, 0.2), ("b", 0.3, 0.5)]}
    maps = lens.mixing(spoken, method="value_zeroing")
    stream = maps.source
    assert stream.places[:2] == ((0.0, 0.02), (0.02, 0.04)) and stream.special.index(True) == 29  # 0.5625 s
    assert maps.by_word().source.names == ("…", "a", "…", "b", "…")
    mel = extractor(sound(), sampling_rate=16000, return_tensors="np")["input_features"][0]
    assert np.array_equal(stream.inputs["input_features"].numpy(), mel)


def test_what_has_no_rule_is_refused(lens, model):
    with pytest.raises(InputError, match="documents= are put into a prompt of text, this one is a sound"):
        lens.trace(sound(), [5, 6], documents={"a": "b"})
    with pytest.raises(Undefined, match="head_logit"):
        lens.trace(sound(), [5, 6], "head_logit")
    with pytest.raises(Undefined, match="expected a model that reads one text, got an encoder-decoder"):
        lens.attribute(sound())
    with pytest.raises(TooLong, match=r"expected a sound of at most 1 s, .* got 1\.25 s; pass a part"):
        lens.mixing(sound(20000))
    with pytest.raises(InputError, match="needs its model's feature extractor, which says how long a column"):
        mixlens.load(model).mixing(sound())


@pytest.mark.parametrize("method", ["alti", "value_zeroing+mean", "saliency"])
def test_an_answer_is_traced_to_frames_and_to_the_answer_before(lens, model, extractor, method, tmp_path):
    spoken = {"array": sound(), "sampling_rate": 16000, "words": [("a", 0.1, 0.2), ("b", 0.3, 0.5), ("a", 0.5, 0.55)]}
    trace = lens.trace(spoken, [7, 8, 9], method)
    assert trace.scores.shape == (3, 50 + 1 + 3) and trace.meta["source_tokens"] == 50
    assert torch.allclose(trace.scores.sum(1), torch.ones(3, dtype=trace.scores.dtype))
    assert trace.prompt.names[:2] == ("0.00 s", "0.02 s") and trace.prompt.names[50] == "3"
    assert trace.meta["documents"] == {"a": (5, 10), "b": (15, 25), "a (2)": (25, 27)}
    mel = torch.from_numpy(extractor(sound(), sampling_rate=16000, return_tensors="np")["input_features"]).double()
    logits = model(input_features=mel, decoder_input_ids=torch.tensor([[3, 7, 8]])).logits[0].detach()
    p = logits.log_softmax(-1)[range(3), [7, 8, 9]].exp()
    assert np.allclose([told["target_probability"] for told in trace.said], p.numpy(), rtol=1e-9)
    units = trace.units("document")
    assert [unit.name for unit in units.sources[:3]] == ["a", "b", "a (2)"]
    back = mixlens.read(trace.save(tmp_path / "a"))
    assert back.to_dict() == trace.to_dict() and "0.30 s" in trace.to_html()


def test_saliency_of_frames_is_the_gradient_at_the_encoder_s_first_layer(lens, model, extractor):
    mel = torch.from_numpy(extractor(sound(), sampling_rate=16000, return_tensors="np")["input_features"]).double()
    kept = []

    def cut(module, args, kwargs):
        kept.append(args[0].detach().requires_grad_())
        return (kept[0], *args[1:]), kwargs

    handle = model.model.encoder.layers[0].register_forward_pre_hook(cut, with_kwargs=True)
    logits = model(input_features=mel, decoder_input_ids=torch.tensor([[3, 7]])).logits
    handle.remove()
    (gradient,) = torch.autograd.grad(logits[0, 1, 8], kept[0])
    trace = lens.trace(sound(), [7, 8], "grad_l2", normalize=False)
    assert torch.allclose(trace.scores[1, :50], gradient[0].norm(dim=-1), rtol=1e-9)


def test_of_many_frames_some_rows_are_checked_from_the_first_to_the_last(lens, monkeypatch):
    from mixlens.decompose import Block, check

    rows, only = [], Block.only
    monkeypatch.setattr(check, "ROWS", 7)
    monkeypatch.setattr(Block, "only", lambda block, queries: rows.append(queries[0].tolist()) or only(block, queries))
    assert 0 < lens.check().worst < 1e-13
    assert [0, 8, 16, 24, 33, 41, 49] in rows and len(rows) == 6


def test_an_answer_is_the_model_s_own(model, extractor):
    mel = extractor(sound(), sampling_rate=16000, return_tensors="pt")["input_features"].double()
    own = copy.deepcopy(model)
    own.generation_config.suppress_tokens = [3]  # what it starts from is no answer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own, of a configuration without lengths
        wanted = own.generate(input_features=mel, max_new_tokens=5, do_sample=False)[0].tolist()
    lens = mixlens.load(own, extractor)
    trace = lens.trace(sound(), method="saliency", max_new_tokens=5)
    assert list(trace.answer.ids) == wanted and trace.prompt.ids[-1] == 3
    given = lens.trace(sound(), [3, *wanted], "saliency")
    assert torch.equal(trace.scores, given.scores)
    assert own.generation_config.max_new_tokens is None  # the user's model is as it was


def test_a_language_that_is_heard_is_what_the_decoder_starts_from(model, extractor):
    """As Whisper's generation settings have it: a start, a language, a task, no times."""
    own = copy.deepcopy(model)
    told = {"is_multilingual": True, "lang_to_id": {"<|en|>": 4, "<|de|>": 5}, "no_timestamps_token_id": 59}
    for name, value in {**told, "task_to_id": {"transcribe": 6, "translate": 7}}.items():
        setattr(own.generation_config, name, value)
    lens = mixlens.load(own, extractor)

    def start(**generate):
        return list(lens.trace(sound(), method="saliency", max_new_tokens=3, generate=generate or None).prompt.ids[50:])

    assert start() in ([3, 4, 59], [3, 5, 59])
    assert start(language="<|de|>", task="translate") == [3, 5, 7, 59]
    own.generation_config.no_timestamps_token_id = 8  # all above it are times
    with pytest.raises(InputError, match=r"answers in one go, it went over it \d+ times"):
        start()
    with pytest.raises(UnknownOption, match="the model's generate has no argument 'tongue'"):
        start(tongue="de")
    with pytest.raises(UnknownOption, match=r"'use_cache': \.\.\.\} is not taken"):
        start(use_cache=False)
