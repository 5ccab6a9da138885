"""From a text to an explanation: which row is read, what a target means, what presets are, and what is refused."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache
from inspect import unwrap
from typing import Any

import pytest
import torch

import mixlens
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
from models.families import CLS, MASK, PAD, SEP
from models.words import tokenizer

TEXT = "w11 w12 w13 w12 w60"
PRESETS = ("attention", "attention_rollout", "norm_rollout", "globenc", "alti", "value_zeroing")


@cache
def lens(name: str = "bert", head: str = "sequence", special: bool = True, **settings: Any) -> mixlens.Lens:
    return mixlens.load(families.model(name, head, **settings), tokenizer(special))


def shares(row: torch.Tensor) -> torch.Tensor:
    return row / row.sum()


def close(got: torch.Tensor, expected: torch.Tensor, tolerance: float = 1e-12) -> None:
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= tolerance


# --- bad input ---

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
    (" ".join(["w11"] * 39), TooLong, "expected at most 40 tokens .*, got 41; shorten the text, or pass truncate=True"),
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
    ({"receptive_field": "x"}, UnknownOption, "expected receptive_field= True, False or None for alti, got 'x'"),
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
    ({"receptive_field": True}, Undefined, "expected maps of a causal model"),
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
    with pytest.raises(Undefined, match=r"norm_resln is defined for post-LN layers, .*; use norm_res or globenc"):
        model.mixing(TEXT, method="norm_resln")
    with pytest.raises(Undefined, match="norm_resln is defined for post-LN layers"):
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


# --- which row is read, and where the answer stands ---


def test_classifiers_that_read_cls():
    for name in ("bert", "roberta", "distilbert", "electra", "albert-groups", "modernbert"):
        got = lens(name).attribute(TEXT, method="attention")
        assert got.meta["readout"] == 0
        close(got.scores, shares(lens(name).mixing(TEXT, method="attention").scores[-1, 0]))


def test_classifiers_that_read_the_mean():
    model = lens("modernbert", classifier_pooling="mean")
    got = model.attribute(TEXT, method="alti")
    assert got.meta["readout"] == "mean"
    close(got.scores, shares(model.mixing(TEXT, method="alti").rollout().scores[-1].mean(0)))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_classifiers_that_read_the_last_token(name):
    model = lens(name, special=False)
    got = model.attribute([TEXT, "w11 w12"], method="attention", receptive_field=False)
    for one, last in zip(got, (4, 1), strict=True):
        assert one.meta["readout"] == last
        close(one.scores, shares(model.mixing(one.text, method="attention").scores[-1, last]))


def plain_answer(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].softmax(-1)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("pad", [None, SEP, -1], ids=["no padding id", "padding is the end", "padding of no token"])
def test_last_token_classifiers_with_odd_padding(name, pad):
    """Models whose configs have no padding id, the end's, or one that no embedding has: batched as alone."""
    model = families.make(name, "sequence", pad_token_id=pad)
    one = mixlens.load(model, tokenizer(special=False))
    texts = [[11, 12, 13, 14], [15, 16], [17, 18, SEP], [19, 20, 21]]
    for text, got in zip(texts, one.attribute(texts, method="alti"), strict=True):
        p = plain_answer(model, text)
        assert got.meta["probability"] == pytest.approx(float(p.max()), rel=1e-10)
        assert got.target.index == int(p.argmax())
        assert got.meta["readout"] == (len(text) - 2 if pad == SEP and text[-1] == SEP else len(text) - 1)
        close(got.scores, one.attribute(text, method="alti").scores)


def test_masked_models_read_the_masked_position():
    model = lens("bert", "masked")
    got = model.attribute("w11 [MASK] w13", method="attention")
    assert got.meta["readout"] == 2
    assert got.tokens[2] == "[MASK]"
    close(got.scores, shares(model.mixing("w11 [MASK] w13", method="attention").scores[-1, 2]))
    by_position = model.attribute("w11 w12 w13", target=Target(position=-2))
    assert by_position.meta["readout"] == 3
    two = model.attribute("[MASK] w12 [MASK]", target=Target("w40", position=1))
    assert (two.meta["readout"], two.target.index, two.target.label) == (1, 40, "w40")


@pytest.mark.parametrize(("text", "count"), [("w11 w12", 0), ("[MASK] w12 [MASK]", 2)])
def test_masked_models_need_one_mask(text, count):
    says = rf"expected one \[MASK\] in the text of a masked language model, got {count}; put \[MASK\] where"
    with pytest.raises(TargetError, match=says):
        lens("bert", "masked").attribute(text)


def test_decoders_read_the_last_token():
    model = lens("gpt2", "causal", special=False)
    got = model.attribute(TEXT, method="attention", receptive_field=False)
    assert got.meta["readout"] == 4
    earlier = model.attribute(TEXT, method="attention", target=Target(position=2), receptive_field=False)
    assert earlier.meta["readout"] == 2
    close(earlier.scores[:3], model.attribute("w11 w12 w13", method="attention", receptive_field=False).scores)
    assert (earlier.scores[3:] == 0).all()
    p = plain_answer(model.model, [11, 12, 13])[-1]
    assert earlier.meta["probability"] == pytest.approx(float(p.max()), rel=1e-10)


def test_token_classifiers_need_a_position():
    model = lens("bert", "token")
    with pytest.raises(TargetError, match=r"position="):
        model.attribute(TEXT)
    got = model.attribute(TEXT, target=Target(position=2), method="attention")
    assert got.meta["readout"] == 2
    with torch.no_grad():
        logits = model.model(torch.tensor([[CLS, 11, 12, 13, 12, 60, SEP]])).logits[0, 2]
    assert got.target.index == int(logits.argmax())


def test_models_without_a_head():
    assert lens("bert", "base").attribute(TEXT, method="attention").meta["readout"] == 0
    assert lens("gpt2", "base", special=False).attribute(TEXT, method="attention").meta["readout"] == 4
    with pytest.raises(TargetError, match="pass readout="):
        lens("bert", "base", special=False).attribute(TEXT, method="attention")
    with pytest.raises(
        TargetError, match="expected no target for a model without a head, got 1; load the model with its"
    ):
        lens("bert", "base").attribute(TEXT, target=1)


@pytest.mark.parametrize("position", [7, -8])
def test_positions_that_are_not_there(position):
    with pytest.raises(TargetError, match=f"expected a position of -7 to 6, got {position}"):
        lens("bert", "masked").attribute(TEXT, target=Target(position=position))


def test_any_row_can_be_read():
    maps = lens().mixing(TEXT, method="alti").rollout().scores[-1]
    for readout, row in ((3, maps[3]), (-1, maps[-1]), ("mean", maps.mean(0)), ("max", maps.amax(0))):
        got = lens().attribute(TEXT, method="alti", readout=readout)
        close(got.scores, shares(row))
        assert got.meta["readout"] == (6 if readout == -1 else readout)


# --- targets ---


def test_labels_and_indices():
    names = {0: "bad", 1: "Good", 2: "odd"}
    model = families.make("bert", "sequence", id2label=names, label2id={v: k for k, v in names.items()})
    one = mixlens.load(model, tokenizer())
    p = plain_answer(model, [CLS, 11, 12, 13, 12, 60, SEP])
    best = int(p.argmax())
    predicted = one.attribute(TEXT)
    assert (predicted.target.index, predicted.target.label) == (best, names[best])
    assert predicted.meta["prediction"] == names[best]
    assert predicted.meta["probability"] == pytest.approx(float(p[best]), rel=1e-10)
    for target in ("Good", "good", 1, "1", Target("Good"), Target(1)):
        got = one.attribute(TEXT, target=target)
        assert (got.target.index, got.target.label) == (1, "Good")
        assert got.meta["target_probability"] == pytest.approx(float(p[1]), rel=1e-10)
        assert got.meta["prediction"] == names[best]
    against = one.attribute(TEXT, target=Target("Good", foil="odd"))
    assert against.meta["foil_probability"] == pytest.approx(float(p[2]), rel=1e-10)
    with pytest.raises(TargetError, match=r"no label 'Gooood'; did you mean 'Good'?"):
        one.attribute(TEXT, target="Gooood")


def test_tokens_as_targets():
    model = lens("bert", "masked")
    text = "w11 [MASK] w13"
    for target in ("w50", 50, Target("w50")):
        got = model.attribute(text, target=target)
        assert (got.target.index, got.target.label) == (50, "w50")
    for bad, says in (
        ("w50 w51", r"expected a target of one token, 'w50 w51' is 2: \['w50', 'w51'\]; use one of them"),
        ("unheard", "expected a target of one token"),
        (97, "expected a token index of 0 to 96, got 97"),
    ):
        with pytest.raises(TargetError, match=says):
            model.attribute(text, target=bad)
    with pytest.raises(TargetError, match="a target token needs a tokenizer; pass its id instead of 'w50'"):
        families.lens("bert", "masked").attribute([5, MASK], target=Target("w50", position=1))


def test_one_output():
    model = families.make("bert", "sequence", num_labels=1)
    one = mixlens.load(model, tokenizer())
    got = one.attribute(TEXT)
    with torch.no_grad():
        out = model(torch.tensor([[CLS, 11, 12, 13, 12, 60, SEP]])).logits
    assert got.meta["output"] == pytest.approx(float(out), rel=1e-10)
    assert "probability" not in got.meta
    with pytest.raises(TargetError, match="expected no target for a regression head"):
        one.attribute(TEXT, target=1)


# --- presets ---

BY_HAND = {
    "attention": lambda lens: lens.mixing(TEXT, method="attention").layer(-1),
    "attention_rollout": lambda lens: lens.mixing(TEXT, method="attention").rollout(residual=0.5),
    "norm_rollout": lambda lens: lens.mixing(TEXT, method="norm_resln").rollout(normalize=True),
    "globenc": lambda lens: lens.mixing(TEXT, method="globenc").rollout(),
    "alti": lambda lens: lens.mixing(TEXT, method="alti").rollout(),
    "value_zeroing": lambda lens: lens.mixing(TEXT, method="value_zeroing").rollout(),
    "attention+rollout": lambda lens: lens.mixing(TEXT, method="attention").rollout(residual=None),
    "norm_res+rollout": lambda lens: lens.mixing(TEXT, method="norm_res").rollout(),
    "globenc+layer:1": lambda lens: lens.mixing(TEXT, method="globenc").layer(1),
    "alti+layer:-2": lambda lens: lens.mixing(TEXT, method="alti").layer(-2),
    "norm+mean": lambda lens: lens.mixing(TEXT, method="norm").mean(),
    "value_zeroing+sum": lambda lens: lens.mixing(TEXT, method="value_zeroing").sum(),
}


@pytest.mark.parametrize("method", BY_HAND)
def test_presets_are_their_parts_put_together(method):
    maps = BY_HAND[method](lens())
    got = lens().attribute(TEXT, method=method)
    close(got.scores, shares(maps.scores[-1, 0]))
    assert float(got.scores.sum()) == pytest.approx(1)
    raw = lens().attribute(TEXT, method=method, normalize=False)
    close(raw.scores, maps.scores[-1, 0])  # a preset makes the rows it reads alone: the same but for rounding
    if "layer" not in method and method != "attention":
        close(got.layers, maps.scores[:, 0] / maps.scores[:, 0].sum(-1, keepdim=True))


@pytest.mark.parametrize("method", PRESETS)
def test_presets_of_causal_models_undo_the_receptive_field(method):
    model = lens("gpt2", "causal", special=False)
    how = {"attention": ("attention", "layer", {"k": -1}), "attention_rollout": ("attention", "rollout", {})}
    rows = {"residual": None, "normalize": True}
    how |= {"norm_rollout": ("norm_res", "rollout", rows), "globenc": ("globenc", "rollout", rows)}
    mixing, aggregation, options = how.get(method, (method, "rollout", {}))
    maps = getattr(model.mixing(TEXT, method=mixing), aggregation)(**options, receptive_field=True)
    got = model.attribute(TEXT, method=method)
    close(got.scores, shares(maps.scores[-1, -1]))
    assert got.meta["receptive_field"] is True
    without = model.attribute(TEXT, method=method, receptive_field=False)
    assert without.meta["receptive_field"] is False
    if method != "attention":  # the last row of one layer sees all tokens
        assert (without.scores - got.scores).abs().max() > 1e-3


def test_signed_maps_are_not_divided_by_their_sum():
    got = lens().attribute(TEXT, method="effective_attention+layer:-1")
    assert torch.equal(got.scores, lens().mixing(TEXT, method="effective_attention").scores[-1, 0])


def test_options_reach_the_method():
    for method, options in (
        ("alti", {"p": 2}),
        ("alti", {"upto": "ln2"}),
        ("value_zeroing", {"distance": "euclidean"}),
    ):
        got = lens().attribute(TEXT, method=method, **options)
        close(got.scores, shares(lens().mixing(TEXT, method=method, **options).rollout().scores[-1, 0]))
        assert (got.scores - lens().attribute(TEXT, method=method).scores).abs().max() > 1e-4
        assert dict(got.options) == options


def test_random_is_seeded_and_knows_no_batch():
    one, again = (lens().attribute(TEXT, method="random") for _ in range(2))
    assert torch.equal(one.scores, again.scores)
    assert float(one.scores.sum()) == pytest.approx(1)
    batched = lens().attribute([TEXT, "w11"], method="random")
    assert torch.equal(batched[0].scores, one.scores)
    assert (lens().attribute(TEXT, method="random", seed=1).scores - one.scores).abs().max() > 1e-3
    other = lens().attribute("w11 w12 w13 w12 w61", method="random")
    assert (other.scores - one.scores).abs().max() > 1e-3
    raw = lens().attribute(TEXT, method="random", normalize=False).scores
    assert (raw >= 0).all()
    assert (raw < 1).all()
    close(shares(raw), one.scores)


def test_every_result_says_where_it_comes_from():
    got = lens().attribute(TEXT, method="alti")
    assert got.method == "alti"
    assert got.text == TEXT
    for key in ("model", "architecture", "dtype", "mixlens", "transformers", "torch", "self_check", "class_specific"):
        assert key in got.meta
    assert got.meta["self_check"] == lens().self_check_residual
    assert got.meta["class_specific"] is False
    maps = lens().mixing(TEXT, method="alti")
    assert (maps.meta["dtype"], maps.meta["architecture"]) == ("float64", "bert")


def test_the_check_is_run_again_when_the_dtype_changed(tiny_bert_folder):
    own = mixlens.load(tiny_bert_folder)
    before = own.self_check_residual
    own.model.double()
    for meta in (own.attribute("a deep film").meta, own.mixing("a deep film").meta):
        assert (meta["dtype"], meta["self_check"]) == ("float64", own.check().worst)
    assert own.self_check_residual < 1e-6 * before
    own.model.half()
    assert own.self_check_residual == own.check().worst > before


def test_a_check_that_fails_later_raises_as_at_load(tiny_bert_folder):
    own = mixlens.load(tiny_bert_folder)
    own.model.bert.encoder.layer[1].output.dense.bias.data += 1e6  # more than half precision can hold
    own.attribute("a deep film")
    own.model.half()
    for ask in (own.attribute, own.mixing, own.plan, own.attribute):
        with pytest.raises(NotFinite, match="holds NaN or infinity"):
            ask("a deep film")
    with pytest.raises(NotFinite):
        own.self_check_residual  # noqa: B018


# --- texts in, results out ---


def test_a_list_gives_a_list_in_its_order_whatever_the_batches():
    texts = ["w11 w12 w13 w14 w15", "w16", "w17 w18 w19", "w20 w21", "w11 w12 w13 w14 w15"]
    alone = [lens().attribute(text, method="globenc") for text in texts]
    for size in (1, 2, 3, 32):
        got = lens().attribute(texts, method="globenc", batch_size=size)
        assert [one.text for one in got] == texts
        for one, other in zip(got, alone, strict=True):
            close(one.scores, other.scores)
            close(one.layers, other.layers)
            assert one.target == other.target
            assert one.meta["probability"] == pytest.approx(other.meta["probability"], rel=1e-12)
    maps = lens().mixing(texts, method="alti", batch_size=2)
    assert [len(one.tokens) for one in maps] == [7, 3, 5, 4, 7]
    ratios = lens().mixing_ratio(texts, batch_size=2)
    close(ratios[1], lens().mixing_ratio(texts[1]))
    assert isinstance(lens().attribute([TEXT]), list)
    assert not isinstance(lens().attribute(TEXT), list)


def test_every_way_to_give_a_text():
    by_text = lens().attribute(TEXT, method="alti")
    ids = [CLS, 11, 12, 13, 12, 60, SEP]
    batch = tokenizer()(TEXT, return_tensors="pt")
    ways = [ids, torch.tensor(ids), {"input_ids": ids}, {"input_ids": torch.tensor([ids])}, batch]
    ways += [mixlens.Words(TEXT.split()), {**batch, "labels": torch.tensor([1])}]
    for way in ways:
        assert torch.equal(lens().attribute(way, method="alti").scores, by_text.scores)
    pair = lens().attribute(("w11 w12", "w13"), method="alti")
    assert pair.tokens == ("[CLS]", "w11", "w12", "[SEP]", "w13", "[SEP]")
    types = {"input_ids": [CLS, 11, 12, SEP, 13, SEP], "token_type_ids": [0, 0, 0, 0, 1, 1]}
    assert torch.equal(lens().attribute(types, method="alti").scores, pair.scores)
    without = lens().attribute({"input_ids": types["input_ids"]}, method="alti")
    assert (without.scores - pair.scores).abs().max() > 1e-4
    assert len(lens().attribute([("w11 w12", "w13"), "w14"], method="alti")) == 2


def test_token_types_that_a_model_does_not_take_are_dropped():
    """Today's tokenizers hand them out whatever the model; it would ignore them itself."""
    model, ids = lens("distilbert"), [CLS, 11, 12, SEP, 13, SEP]
    assert any(tokenizer()("w11 w12", "w13")["token_type_ids"])
    alone = model.attribute({"input_ids": ids}, "alti")
    for given in (("w11 w12", "w13"), {"input_ids": ids, "token_type_ids": [0, 0, 0, 0, 1, 1]}):
        got = model.attribute(given, "alti")
        assert got.tokens == ("[CLS]", "w11", "w12", "[SEP]", "w13", "[SEP]")
        assert torch.equal(got.scores, alone.scores)
        assert got.meta["probability"] == pytest.approx(float(plain_answer(model.model, ids).max()), rel=1e-10)
        assert torch.equal(model.mixing(given, "norm").scores, model.mixing(ids, "norm").scores)
    pairs = [{"premise": "w11 w12", "hypothesis": "w13", "label": 0}] * 2
    table = mixlens.evaluate(model, pairs, ["alti"], ["aopc"], task="pairs")
    assert [(row.n, row.n_errors) for row in table.rows] == [(2, 0)]


def test_positions_that_a_model_does_not_take_are_refused():
    class Fixed(type(families.model("bert", "sequence"))):
        def forward(self, input_ids, attention_mask=None):
            return super().forward(input_ids, attention_mask)

    model = copy.deepcopy(families.model("bert", "sequence"))
    model.__class__ = Fixed
    with pytest.raises(InputError, match="the model takes no position_ids, got some; leave them out"):
        mixlens.load(model).attribute({"input_ids": [11, 12], "position_ids": [1, 0]})


def test_progress_is_told():
    told: list[tuple[int, int]] = []
    lens().mixing([TEXT, "w11"], method="norm", batch_size=1, progress=lambda done, total: told.append((done, total)))
    assert told == [(i, 6) for i in range(1, 7)]


# --- a word that decides ---


@cache
def planted() -> Any:
    """BERT whose every token attends to w60 almost alone: its key answers the one query that all tokens ask."""
    model = families.make("bert", "sequence", seed=3, num_hidden_layers=2)
    with torch.no_grad():
        embeddings = model.bert.embeddings
        embeddings.word_embeddings.weight[:, 0] = -3.0
        embeddings.word_embeddings.weight[60, 0] = 30.0  # one dimension says w60
        for layer in model.bert.encoder.layer:
            attention = layer.attention.self
            attention.query.weight.zero_()
            attention.query.bias.fill_(1.0)
            attention.key.weight.zero_()
            attention.key.bias.zero_()
            attention.key.weight[:, 0] = 1.0
            for linear in (layer.attention.output.dense, layer.output.dense, layer.intermediate.dense):
                linear.bias.zero_()
            layer.attention.output.dense.weight *= 3
            layer.output.dense.weight *= 0.1
            layer.attention.output.LayerNorm.weight.fill_(1.0)
            layer.output.LayerNorm.weight.fill_(1.0)
    return mixlens.load(model, tokenizer())


@pytest.mark.parametrize("method", PRESETS)
def test_a_word_that_decides_comes_first(method):
    for text in ("w11 w60 w13 w14", "w60 w12 w13", "w20 w21 w22 w23 w24 w60"):
        got = planted().attribute(text, method=method)
        assert got.tokens[int(got.scores.argmax())] == "w60"
        assert max(got.words(), key=lambda word: word.score).text == "w60"


ZERO = [("bert", d, torch.float32) for d in ("cosine", "euclidean", "spearman")]
ZERO += [("bert", "cosine", torch.float64), ("gpt_neox", "cosine", torch.float64), ("gemma2", "cosine", torch.float32)]


@pytest.mark.parametrize(("name", "distance", "dtype"), ZERO)
def test_a_map_of_zeros_is_an_error(name, distance, dtype):
    """A model whose values reach nothing: all that is left of a distance is rounding, and no share is made of that."""
    model = families.make(name, dtype=dtype)
    with torch.no_grad():
        for path, module in model.named_modules():
            if path.endswith(("attention.output.dense", "attn.c_proj", "attention.dense", "o_proj")):
                module.weight.zero_()
    with pytest.raises(ModelError, match="value_zeroing is zero everywhere: no token reaches any other"):
        mixlens.load(model).mixing([CLS, 11, 12, 13], method="value_zeroing", distance=distance)


def test_a_row_of_zeros_stays_zero_and_is_named():
    model = families.make("bert", "sequence")
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.output.dense.weight.zero_()
    got = mixlens.load(model).mixing([CLS, 11, 12], method="value_zeroing")
    assert (got.scores[1] == 0).all()
    assert got.meta["zero_rows"] == ((1, 0), (1, 1), (1, 2))
    assert torch.isfinite(got.rollout().scores).all()


@pytest.mark.parametrize(
    "method",
    [
        *("globenc", "attcat", "blank_out", "trans_att", "hta", "random"),
        pytest.param("integrated_gradients", marks=pytest.mark.slow),
    ],
)
def test_each_text_has_its_own_target(method):
    texts, targets = [TEXT, "w60 w12", TEXT], ["LABEL_1", 0, Target(0)]
    together = lens().attribute(texts, method=method, target=targets, batch_size=2)
    for text, target, got in zip(texts, targets, together, strict=True):
        alone = lens().attribute(text, method=method, target=target)
        assert got.target.index == alone.target.index == (1 if target == "LABEL_1" else 0)
        close(got.scores, alone.scores, 1e-6 if method == "integrated_gradients" else 1e-12)


@pytest.mark.parametrize("ask", ["mixing", "attribute", "mixing_ratio", "output_statistics"])
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_results_are_plain_whatever_mode_the_caller_is_in(ask, mode):
    def call() -> torch.Tensor:
        found = getattr(lens(), ask)(TEXT)
        return found[0] if isinstance(found, tuple) else getattr(found, "scores", found)

    expected = call()
    with mode():
        before = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        got = call()
        assert (torch.is_inference_mode_enabled(), torch.is_grad_enabled()) == before
    assert torch.equal(got, expected)
    assert not got.is_inference() and not got.requires_grad


def test_a_lens_may_be_made_in_inference_mode(tiny_bert_folder):
    with torch.inference_mode():
        made = [mixlens.load(tiny_bert_folder), mixlens.load(families.model("bert", "sequence"))]
    for one in made:
        assert not any(p.is_inference() for p in one.model.parameters())
        assert one.attribute([7, 8, 9], "attcat").scores.isfinite().all()


def test_weights_that_cannot_be_differentiated():
    with torch.inference_mode():
        model = families.make("bert", "sequence")
    with pytest.raises(ModelError, match=r"made under torch\.inference_mode\(\); load the model outside of it"):
        mixlens.load(model)


def test_as_many_targets_as_texts():
    with pytest.raises(TargetError, match="expected one target, or one for each of 2 texts, got 3"):
        lens().attribute([TEXT, TEXT], target=[0, 1, 0])


def test_two_classes_of_one_name():
    names = {0: "odd", 1: "Good", 2: "odd", 3: "GOOD"}
    model = families.make("bert", "sequence", id2label=names, label2id={"odd": 2, "Good": 1, "GOOD": 3})
    one = mixlens.load(model, tokenizer())
    with pytest.raises(TargetError, match="'odd' names classes 0 and 2; pass the index"):
        one.attribute(TEXT, target="odd")
    with pytest.raises(TargetError, match="'good' names classes 1 and 3; pass the index"):
        one.attribute(TEXT, target=Target(0, foil="good"))
    assert [one.attribute(TEXT, target=t).target.index for t in (0, 2, "Good", "GOOD")] == [0, 2, 1, 3]


@pytest.mark.parametrize("ids", [[[11, 12, PAD, PAD], [PAD, 13, 14, 15]], torch.tensor([[11, 12, PAD, PAD]])])
def test_padding_without_a_mask_is_said(ids):
    got = lens(special=False).attribute(ids, "norm_rollout")
    for one, count in zip(got, (2, 1), strict=False):
        (said,) = one.meta["warnings"]
        assert said.startswith(f"{count} padding tokens at an end are explained as text")
    again = lens(special=False).mixing({"input_ids": ids if isinstance(ids, list) else ids.tolist()}, "norm")
    assert all("warnings" in one.meta for one in (again if isinstance(again, list) else [again]))


def test_padding_that_is_none_is_not_said():
    for ids in ({"input_ids": [[11, 12, PAD]], "attention_mask": [[1, 1, 0]]}, [11, PAD, 12], [11, 12]):
        assert "warnings" not in lens(special=False).attribute(ids, "norm_rollout").meta
    ends = mixlens.load(families.make("gpt2", "causal", pad_token_id=SEP), tokenizer(special=False))
    assert "warnings" not in ends.attribute([11, 12, SEP], "norm_rollout").meta
    assert "warnings" in ends.attribute([[11, 12, PAD, PAD]], "norm_rollout")[0].meta


def test_a_warning_stands_in_the_terminal():
    got = lens(special=False).attribute([[11, 12, PAD, PAD]], "norm_rollout")[0]
    assert "warning: 2 padding tokens at an end are explained as text" in str(got)


def test_a_pair_is_no_text_for_a_language_model():
    model = lens("gpt2", "causal", special=False)
    for ask in (model.attribute, model.mixing, model.compare, model.plan):
        with pytest.raises(InputError, match=r"expected one text for a language model, got a pair.*prompt \+ answer"):
            ask(("w11 w12", "w13"))
    classifier = lens("gpt2", "sequence", special=False)
    assert classifier.attribute(("w11 w12", "w13"), "norm_rollout").tokens == ("w11", "w12", "w13")
