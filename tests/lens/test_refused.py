"""What cannot be explained is refused: texts, methods, options, weights."""

from __future__ import annotations

from dataclasses import replace
from inspect import unwrap

import pytest
import torch

import mixlens
from lens.on import TEXT, lens
from mixlens import Target
from mixlens.errors import (
    EmptyInput,
    InputError,
    ModelError,
    NotFinite,
    TargetError,
    TooLong,
    Undefined,
    UnknownMethod,
    UnknownOption,
)
from mixlens.mixing import MIXING
from models import families
from models.families import PAD

BAD_TEXTS = [
    ("", EmptyInput, "expected a text with at least one token, got an empty one"),
    ("  \n", EmptyInput, "got an empty one"),
    ([], EmptyInput, "got an empty list; pass at least one text"),
    (["w11", ""], EmptyInput, "got an empty one"),
    (("w11", ""), EmptyInput, "nothing can be explained"),
    (mixlens.Words(["w11", " "]), EmptyInput, "must be a non-empty str"),
    ({"input_ids": [[]]}, EmptyInput, "expected at least one token id, got none"),
    ([PAD, PAD], EmptyInput, "got only padding"),
    ("nothing that is known", InputError, "knows no part of this text: all 4 tokens are .UNK."),
    (
        " ".join(["w11"] * 39),
        TooLong,
        "expected at most 40 tokens .*, got 41; shorten the text, .*or pass truncate=True",
    ),
    ([11] * 41, TooLong, "expected at most 40 tokens .*, got 41"),
    ([11, 97], InputError, r"expected token ids below 97 \(the model's embeddings\), got 97"),
    ([11, -1], InputError, "expected token ids of 0 or more, got -1"),
    ([[11, 2.5]], InputError, "expected texts in a list, got a list in it"),
    ({"input_ids": [[11, 2.5]]}, InputError, "expected token ids .whole numbers."),
    ({"input_ids": [[11, 12]], "attention_mask": [[1]]}, InputError, "expected 'attention_mask' as long as"),
    ({"input_ids": [[11, 12, 13]], "attention_mask": [[1, 0, 1]]}, InputError, "padding at one side only"),
    ({"input_ids": [[11]], "pixel_values": [[1]]}, InputError, r"got also \['pixel_values'\]"),
    ({"text": "w11"}, InputError, "expected a mapping with 'input_ids', got the keys"),
    (3, InputError, "expected a str, .*, got int"),
    (b"w11", InputError, "got bytes"),
    (None, InputError, "got NoneType"),
    ([["w11", "w12"]], InputError, "split words go in mixlens.Words"),
]


@pytest.mark.parametrize(("text", "error", "says"), BAD_TEXTS, ids=[str(t[0])[:30] for t in BAD_TEXTS])
def test_bad_texts(text, error, says):
    for ask in (lens().attribute, lens().mixing, lens().mixing_ratio):
        with pytest.raises(error, match=says) as caught:
            ask(text)
        assert type(caught.value) is error


BAD_ASKS = [
    ({"method": "altii"}, UnknownMethod, "no attribution method 'altii'; did you mean 'alti'?"),
    ({"method": "norm_res"}, UnknownMethod, r"norm_res is a mixing method: ask for 'norm_res\+rollout'"),
    ({"method": "nrom+rollout"}, UnknownMethod, "no mixing method 'nrom' .*did you mean 'norm'?"),
    ({"method": "norm+rolout"}, UnknownMethod, "no aggregation 'rolout' .*did you mean 'rollout'?"),
    ({"method": "norm+layer"}, UnknownMethod, r"expected 'norm\+layer:k' with a layer number"),
    ({"method": "norm+layer:x"}, UnknownMethod, "expected a layer number in 'norm.layer:x', got 'x'"),
    ({"method": "norm+mean:1"}, UnknownMethod, "or no ':'"),
    ({"method": "norm+layer:3"}, UnknownOption, "expected a layer of -3 to 2, got 3"),
    ({"method": "effective_attention+rollout"}, Undefined, "is signed"),
    ({"method": "alti", "distance": "cosine"}, UnknownOption, "alti would ignore the option 'distance'; its options"),
    ({"method": "random", "p": 2}, UnknownOption, "random would ignore the option 'p'; its options are .*seed"),
    ({"method": "alti", "p": 3}, UnknownOption, "expected p=1 or p=2 for alti, got p=3"),
    ({"method": "alti", "p": True}, UnknownOption, "expected p= a whole number for alti, got True"),
    (
        {"method": "alti", "foil": 1},
        UnknownOption,
        r"option 'foil'; a target says it: mixlens.Target",
    ),
    (
        {"method": "attcat", "mask_special": "x"},
        UnknownOption,
        "expected mask_special= True or False for attcat",
    ),
    ({"method": "grad_x_input", "absolute": "no"}, UnknownOption, "expected absolute= True or False"),
    ({"method": "blank_out", "words": 1}, UnknownOption, "expected words= True or False"),
    ({"normalize": "yes"}, UnknownOption, "expected normalize= True or False"),
    (
        {"method": "alti", "receptive_field": "x"},
        UnknownOption,
        "expected receptive_field= True or False for alti, got 'x'",
    ),
    ({"method": "integrated_gradients", "steps": "a"}, UnknownOption, "expected steps= a whole number for .*, got 'a'"),
    (
        {"method": "integrated_gradients", "steps": None},
        UnknownOption,
        "expected steps= a whole number for .*None",
    ),
    ({"method": "random", "seed": "a"}, UnknownOption, "expected seed= a whole number for random, got 'a'"),
    ({"method": "random", "seed": -1}, UnknownOption, "expected seed= a whole number of 0 or more for random, got -1"),
    ({"readout": 7}, UnknownOption, "expected readout=-7 to 6, 'mean' or 'max', got 7"),
    ({"readout": True}, UnknownOption, "got True"),
    ({"readout": "first"}, UnknownOption, "got 'first'"),
    ({"batch_size": 0}, UnknownOption, "expected batch_size of 1 or more, got 0"),
    ({"target": 2}, TargetError, "expected a label index of 0 to 1, got 2"),
    ({"target": -1}, TargetError, "expected a label index of 0 to 1, got -1"),
    ({"target": "LABEL_2"}, TargetError, "no label 'LABEL_2'; did you mean 'LABEL_"),
    ({"target": Target("LABEL_1", foil=1)}, TargetError, "expected a foil other than the target"),
    ({"target": Target(position=2)}, TargetError, "a position means nothing for a sequence head; .* readout=2"),
    ({"method": "alti", "receptive_field": True}, Undefined, "expected maps of a causal model"),
]


@pytest.mark.parametrize(("ask", "error", "says"), BAD_ASKS, ids=[str(a[0]) for a in BAD_ASKS])
def test_bad_asks(ask, error, says):
    with pytest.raises(error, match=says) as caught:
        lens().attribute(TEXT, **ask)
    assert type(caught.value) is error


@pytest.mark.parametrize("target", [1.0, True, ["LABEL_0"], {"label": 1}])
def test_targets_of_a_wrong_type(target):
    with pytest.raises(TargetError, match=r"expected a label, an index, a token or a mixlens.Target, got"):
        lens().attribute(TEXT, target=target)


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        ({"method": "glob"}, UnknownMethod, "no mixing method 'glob'; did you mean 'globenc'?"),
        ({"method": "attention", "p": 2}, UnknownOption, "attention would ignore the option 'p'; .*per_head"),
        ({"method": "norm", "p": 2}, UnknownOption, "norm would ignore the option 'p'; it has none"),
        ({"method": "alti", "upto": "ln3"}, UnknownOption, "expected upto='ln1' or 'ln2'"),
        ({"method": "value_zeroing", "distance": "cos"}, UnknownOption, "expected a distance of cosine, euclidean"),
    ],
)
def test_bad_asks_for_maps(ask, error, says, monkeypatch):
    plain = {name: replace(facts, function=unwrap(facts.function)) for name, facts in MIXING.items()}
    monkeypatch.setattr("mixlens.mixing.calls.MIXING", plain)  # without annotations that would speak first in tests
    with pytest.raises(error, match=says):
        lens().mixing(TEXT, **ask)


def test_standardize_must_fit():
    good = torch.zeros(3, 32), torch.ones(3, 32)
    for bad, says in (
        ((good[0][:, :31], good[1][:, :31]), r"each of shape \(layer, 32\), got \(3, 31\)"),
        ((good[0][:2], good[1][:2]), r"got \(2, 32\)"),
        ((good[0], good[1] * 0), "expected positive deviations"),
    ):
        with pytest.raises(UnknownOption, match=says):
            lens().mixing(TEXT, method="value_zeroing", standardize=bad)


def test_a_ratio_that_is_not_defined():
    with pytest.raises(UnknownMethod, match="no mixing ratio is defined for 'alti'"):
        lens().mixing_ratio(TEXT, method="alti")
    with pytest.raises(Undefined, match="no norm follows"):
        lens("gpt2", special=False).mixing_ratio(TEXT, method="norm_resln")


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox"])
def test_what_is_not_defined_without_a_norm_behind_the_sum(name):
    model = lens(name, special=False)
    with pytest.raises(
        Undefined, match=r"norm_resln needs a norm behind the residual sum \(post-LN\); .*; use norm_res or globenc"
    ):
        model.mixing(TEXT, method="norm_resln")
    with pytest.raises(Undefined, match="norm_resln needs a norm behind the residual sum"):
        model.attribute(TEXT, method="norm_resln+rollout")
    with pytest.raises(Undefined, match="upto='ln2' needs a norm behind the FFN"):
        model.mixing(TEXT, method="alti", upto="ln2")
    assert model.attribute(TEXT, method="norm_rollout").meta["mixing"] == "norm_res"


def test_a_path_that_does_not_exist(tmp_path):
    with pytest.raises(ModelError, match=r"config.json and weights.* or a hub id, got '.*absent': no such folder"):
        mixlens.load(str(tmp_path / "absent"))
    with pytest.raises(ModelError, match=r"a folder without config.json"):
        mixlens.load(tmp_path)
    with pytest.raises(ModelError, match="a reachable hub id, got 'no-one/nothing'"):
        mixlens.load("no-one/nothing")
    with pytest.raises(UnknownOption, match=r"expected no options beside a loaded model, got \['dtype'\]"):
        mixlens.load(families.model("bert"), dtype=torch.float32)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(value):
    model = families.make("bert", "sequence")
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight[3, 4] = value
    with pytest.raises(NotFinite, match=r"bert.encoder.layer.1.output.dense.weight holds NaN .*; load an intact"):
        mixlens.load(model)


@pytest.mark.parametrize("method", ["blank_out", "random", "attcat", "alti", "attention", "integrated_gradients"])
def test_an_answer_that_is_no_number(method):
    lens = mixlens.load(families.make("bert", "sequence"))
    with torch.no_grad():
        lens.model.classifier.bias[0] = float("inf")
    with pytest.raises(NotFinite, match=r"expected finite weights, classifier\.bias holds NaN or infinity"):
        lens.attribute(families.text(), method, **({"replace": 4} if method == "blank_out" else {}))


def test_a_plan_takes_the_options_of_its_call():
    for name, options in (("alti", {"foo": 1}), ("attcat", {"indexng": "input"}), ("norm", {"p": 2})):
        with pytest.raises(UnknownOption, match=f"{name} would ignore the option"):
            lens().plan(TEXT, name, **options)


def test_activations_that_overflow():
    model = families.make("bert", dtype=torch.float16)
    with torch.no_grad():
        model.encoder.layer[1].output.dense.weight.fill_(60000)
    with pytest.raises(NotFinite, match="though all weights are finite; load the model in float32"):
        mixlens.load(model)


def test_a_text_without_a_tokenizer():
    with pytest.raises(InputError, match=r"a text needs a tokenizer: mixlens.load\(model, tokenizer\)"):
        families.lens("bert").mixing("w11")


def test_truncation_is_asked_for_and_recorded():
    long = " ".join(f"w{i}" for i in range(20, 65))
    got = lens().attribute(long, truncate=True)
    assert len(got.scores) == 40
    assert got.meta["dropped"] == 7
    assert got.tokens[-1] == "[SEP]"
    assert lens().mixing(long, truncate=True).meta["dropped"] == 7
    assert "dropped" not in lens().attribute(TEXT, truncate=True).meta
    with pytest.raises(InputError, match="token ids are never cut: got 41, the model takes 40; cut them yourself"):
        lens().attribute([11] * 41, truncate=True)
