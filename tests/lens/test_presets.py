"""A preset is its parts put together; and where every result comes from."""

from __future__ import annotations

import pytest
import torch

import mixlens
from lens.on import PRESETS, TEXT, close, lens, shares
from mixlens.errors import (
    NotFinite,
)

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
    got = model.attribute(TEXT, method=method, receptive_field=True)
    close(got.scores, shares(maps.scores[-1, -1]))
    assert got.meta["receptive_field"] is True
    usual = model.attribute(TEXT, method=method)  # alti's rollout does not drain into the first token
    assert usual.meta["receptive_field"] is (method != "alti")
    without = model.attribute(TEXT, method=method, receptive_field=False)
    assert without.meta["receptive_field"] is False
    if method != "attention":  # the last row of one layer sees all tokens
        assert (without.scores - got.scores).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("method", "field"), [("alti+rollout", False), ("ifr+rollout", False), ("norm_res+rollout", True)]
)
def test_rollouts_by_name_have_the_presets_receptive_field(method, field):
    assert lens("gpt2", "causal", special=False).attribute(TEXT, method=method).meta["receptive_field"] is field


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
    own.attribute("a deep film", "alti")
    own.model.half()
    for ask in (own.attribute, own.mixing, own.plan, own.attribute):
        with pytest.raises(NotFinite, match="holds NaN or infinity"):
            ask("a deep film")
    with pytest.raises(NotFinite):
        own.self_check_residual  # noqa: B018
