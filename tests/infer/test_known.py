"""What is found is what is written by hand, for every family and setting; and of every change of it, nothing passes."""

from __future__ import annotations

import pytest
import torch

import mixlens
from mixlens.architectures import base_model, layer_modules, spec_for, written
from mixlens.infer import spec_of, twin_of
from mixlens.infer.spec import layers_of
from mixlens.mixing import MIXING
from models import families
from models.mutations import mutations, refused
from oracles import methods

# One for each feature: post-LN with maps to q, k, v; positions by ids, by the mask; parallel; norms of branches and
# 1 + w; an attention without a norm in front, and fused gates; a factor before the sum; no norm in front of a network;
# a network as a whole.
QUICK = ("bert", "roberta", "opt-post", "gpt_neox", "gemma2", "modernbert", "granite", "olmo2", "mixtral")
KNOWN = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in families.FAMILIES
    if not name.startswith("albert")
]


def twin(name: str):
    return twin_of(type(base_model(families.model(name))), families.config_of(name))


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_found_is_what_is_written_by_hand(name):
    assert spec_of(twin(name)) == spec_for(families.config_of(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["albert-groups", "albert-inner"])
def test_so_are_layers_that_run_several_times(name):
    hand = spec_for(families.config_of(name))
    for layer in layers_of(twin(name)):
        assert (layer.spec.chain, layer.spec.order, layer.spec.norm) == (hand.chain, hand.order, hand.norm)


@pytest.mark.parametrize("name", [name for name in families.FAMILIES if not name.startswith("albert")])
def test_a_spec_in_print_makes_it_again(name):
    spec = spec_for(families.config_of(name))
    assert eval(written(spec), {k: getattr(mixlens, k) for k in ("Spec", "Attend", "Feed", "Network")}) == spec


# --- types that no table has ---

FOUND = [
    pytest.param(name, marks=() if name in ("phi", "gemma3_text") else pytest.mark.slow) for name in families.FOUND
]
EXPECTED = {
    "phi": ("parallel", "layer", "all"),
    "gptj": ("parallel", "layer", "all"),
    "stablelm": ("pre", "layer", "all"),
    "biogpt": ("pre", "layer", "all"),
    "gemma3_text": ("pre", "rms", "all"),
    "xlm-roberta-xl": ("pre", "layer", "ids"),
    "nomic_bert": ("post", "layer", "all"),
}


@pytest.mark.parametrize("name", FOUND)
def test_types_without_a_spec_by_hand_are_found_and_pass(name):
    lens = families.lens(name)
    check = lens.check()
    assert (check.origin, len(check.layers)) == ("inferred", 3)
    assert check.worst < 5e-15
    assert (lens.spec.order, lens.spec.norm, lens.spec.positions) == EXPECTED[name]
    assert lens.mixing(families.text()).meta["spec"] == "inferred"


@pytest.mark.parametrize("name", FOUND)
def test_value_zeroing_of_what_is_found_is_zeroing_the_value_in_the_model(name):
    expected = []
    for layer in range(3):
        y, moved = methods.zeroed_outputs(name, families.text(), layer)
        expected.append(torch.from_numpy(methods.distances(y, moved, "cosine")))
    raw = torch.stack(expected)
    if families.family(name).causal:
        raw = raw.tril()
    got = families.lens(name).mixing(families.text(), method="value_zeroing", normalize=False).scores
    assert (got - raw).abs().max() < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("name", families.FOUND)
def test_every_mixing_method_runs_on_what_is_found(name):
    lens, text = families.lens(name), families.text()
    for method, facts in MIXING.items():
        if lens.spec.order in facts.orders:
            maps = lens.mixing(text, method=method)
            assert torch.isfinite(maps.scores).all(), method
            if facts.rows_sum_to_one:
                assert (maps.scores.sum(-1) - 1).abs().max() < 1e-9, method


@pytest.mark.slow
@pytest.mark.parametrize("name", families.FOUND)
def test_every_mutation_of_what_is_found_is_refused(name):
    model, spec = families.model(name), families.lens(name).spec
    tried = dict(mutations(spec, layer_modules(base_model(model), spec)[-1]))
    assert len(tried) > 20
    assert [what for what, make in tried.items() if not refused(model, make)] == []
