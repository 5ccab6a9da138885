"""Which row is read, and where the answer stands."""

from __future__ import annotations

import pytest
import torch

import mixlens
from lens.on import TEXT, close, lens, plain_answer, shares
from mixlens import Target
from mixlens.errors import (
    TargetError,
)
from models import families
from models.families import CLS, SEP
from models.words import tokenizer


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
