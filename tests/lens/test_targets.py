"""What a target means: labels, indices, tokens, one output."""

from __future__ import annotations

import pytest
import torch

import mixlens
from lens.on import TEXT, lens, plain_answer
from mixlens import Target
from mixlens.errors import (
    TargetError,
)
from models import families
from models.families import CLS, MASK, SEP
from models.words import tokenizer


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
