"""Texts in, results out: lists, batches, every way to give a text."""

from __future__ import annotations

import copy

import pytest
import torch

import mixlens
from lens.on import TEXT, close, lens, plain_answer
from mixlens.errors import (
    InputError,
)
from models import families
from models.families import CLS, SEP
from models.words import tokenizer


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


LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 5,
    "long_factor": [4.0] * 5,
    "original_max_position_embeddings": 8,
    "factor": 5.0,
}


@pytest.mark.parametrize("attention", ["attention", "value_zeroing"])
def test_a_rotation_that_goes_by_the_longest_text_is_each_text_s_own(attention):
    model = families.make("llama", rope_parameters=LONGROPE)
    before = {name: t.clone() for name, t in model.named_buffers()}
    lens, texts = mixlens.load(model), families.texts((20, 4, 12, 4))
    alone = [lens.mixing(text, attention).scores for text in texts]
    for one, other in zip(lens.mixing(texts, attention), alone, strict=True):
        close(one.scores, other)
    lens.mixing(texts[0], attention)  # the last pass: a long one
    assert before
    assert all(torch.equal(t, before[name]) for name, t in model.named_buffers())


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
