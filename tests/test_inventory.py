"""The facts table against what the methods do: each runs where it says so, and is refused elsewhere with the reason."""

from __future__ import annotations

import time
from importlib import resources

import pytest
import torch

import mixlens
from mixlens import inventory
from mixlens.architectures import SPECS, spec_for, variants
from mixlens.architectures.table import CHOICES
from mixlens.attribute import ATTRIBUTIONS
from mixlens.errors import Undefined
from mixlens.mixing import MIXING
from models import families
from models.translators import TRANSLATORS

FACTS = [fact for fact in mixlens.methods() if fact["stage"] in ("mixing", "attribute")]
QUICK = ("bert", "gpt2", "opt-post", "modernbert")
# What a tiny random model without a tokenizer needs to be told.
OPTIONS = {"blank_out": {"replace": "delete"}, "context_cite": {"units": "token"}, "leave_one_out": {"units": "token"}}
OPTIONS |= {"integrated_gradients": {"steps": 2, "tolerance": 1e9}}
KINDS = {translator.model_type for translator in TRANSLATORS.values()}
TRANSLATED = {*KINDS, *(f"{kind} (is_gated_act={gated})" for kind in ("t5", "mt5", "umt5") for gated in (False, True))}
TRANSLATED |= {"whisper"}


def label(name: str) -> tuple[str, str]:
    """The model type of a family, and how the facts call its variant."""
    config = families.config_of(name)
    kind = config.model_type
    key = CHOICES[kind][0] if kind in CHOICES else None
    return kind, kind if key is None else f"{kind} ({key}={getattr(config, key)})"


@pytest.mark.parametrize("name", families.each(QUICK))
def test_each_method_runs_where_it_says_so_and_nowhere_else(name):
    """On some families all that are said to; on each other one a fourth of them in turn, and all that are not."""
    text, heads, turn = families.text(5), families.FAMILIES[name].heads, [*families.FAMILIES].index(name)
    for k, fact in enumerate(FACTS):
        if name not in QUICK and (k + turn) % 4 and not set(fact["architectures"]).isdisjoint(label(name)):
            continue
        head = (fact["heads"] or ["sequence" if "sequence" in heads else "causal"])[0]
        if head not in heads:
            assert set(fact["architectures"]).isdisjoint(label(name))
            continue
        lens = families.lens(name, head)
        claimed = not set(fact["architectures"]).isdisjoint(label(name))
        how = OPTIONS.get(fact["name"], {})
        call = lens.mixing if fact["stage"] == "mixing" else lens.attribute
        try:
            found = call(text, method=fact["name"], **how)
        except Undefined as reason:
            assert not claimed, fact["name"]
            lacks = (lens.spec.order, "needs queries and keys", "is known as a whole")
            assert any(what in str(reason) for what in lacks)
            assert fact["name"] in str(reason)
        else:
            assert claimed, fact["name"]
            assert torch.isfinite(found.scores).all(), fact["name"]
            assert found.scores.abs().sum() > 0, fact["name"]


def test_some_are_not_defined_everywhere():
    """Else the test above could not fail."""
    some = {(f["stage"], f["name"]) for f in FACTS if {*f["architectures"]} - TRANSLATED != set(SPECS) - TRANSLATED}
    assert some == {
        *(("mixing", name) for name in ("norm_resln", "hta", "hta_x_input")),
        *(
            ("attribute", name)
            for name in ("grad_sum", "partial_lrp", "trans_att", "head_logit", "alti_logit", "flashtrace")
        ),
        *(("attribute", name) for name in ("leave_one_out", "context_cite")),
        *(("attribute", name) for name in ("cp_lrp", "attn_lrp", "gim", "libragrad", "path_logit")),
    }


def test_encoder_decoders_have_the_maps_of_texts_and_the_attributions_of_two_streams():
    for fact in FACTS:
        there = {kind for kind in TRANSLATED if kind in fact["architectures"]}
        if fact["stage"] == "attribute":
            assert bool(there) == fact["two_streams"], fact["name"]
        else:
            assert {"bart", "mbart"} & there, fact["name"]


@pytest.mark.parametrize("name", families.each())
def test_check_says_the_same(name):
    supports = families.lens(name).check().supports
    for fact in FACTS:
        # a map and an attribution may have one name: it says what the map says
        if fact["stage"] != "attribute" or fact["name"] not in MIXING:
            claimed = not set(fact["architectures"]).isdisjoint(label(name))
            if fact["heads"] is not None:  # (a model without a head)
                assert supports[fact["name"]] is not None
                continue
            assert (supports[fact["name"]] is None) == claimed, fact["name"]


@pytest.mark.parametrize("name", families.FAMILIES)
def test_variants_are_the_specs_of_real_configurations(name):
    config = families.config_of(name)
    chosen = {key: getattr(config, key) for key, _ in CHOICES.values() if hasattr(config, key)}
    setting = next((f"{k}={v}" for k, v in chosen.items() if config.model_type in CHOICES), "")
    ours, real = variants(config.model_type)[setting], spec_for(config)
    assert (ours.order, ours.chain) == (real.order, real.chain)


def test_what_is_written_down_is_what_the_tables_say():
    assert mixlens.measures() == inventory._measures()  # tuples as tuples, infinity as a number
    if variants("t5")["is_gated_act=False"].seam != "interface":  # an older transformers: see `mixlens.methods`
        lacking = {name: {"t5", "mt5", "umt5"} for name in ("hta", "hta_x_input")}
        for written, there in zip(mixlens.methods(), inventory._methods(), strict=True):
            kinds = written["architectures"]
            left = kinds and [kind for kind in kinds if kind not in lacking.get(written["name"], ())]
            assert {**written, "architectures": left} == there
        return
    stale = inventory.to_write() != (resources.files("mixlens") / inventory.FILE).read_text("utf-8")
    assert not stale, "run: python tests/test_docs.py"
    assert mixlens.methods() == inventory._methods()
    mixlens.methods()[0]["options"].clear()
    assert mixlens.methods()[0]["options"] == inventory._methods()[0]["options"]


def test_facts_are_whole():
    assert [f["name"] for f in FACTS if f["stage"] == "mixing"] == list(MIXING)
    assert [f["name"] for f in FACTS if f["stage"] == "attribute"] == list(ATTRIBUTIONS)
    keys = "signed class_specific needs cost architectures cite summary options".split()
    assert all(fact[key] is not None for fact in FACTS for key in keys)
    assert len({frozenset(fact) for fact in mixlens.methods()}) == 1


def test_methods_is_quick():
    start = time.process_time()
    mixlens.methods()
    assert time.process_time() - start < 1
