"""A word that decides comes first; and what is said of texts that say little."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import mixlens
from lens.on import PRESETS, TEXT, close, lens
from mixlens import Target
from mixlens.errors import (
    InputError,
    ModelError,
    TargetError,
)
from models import families
from models.families import CLS, PAD, SEP
from models.words import tokenizer


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
