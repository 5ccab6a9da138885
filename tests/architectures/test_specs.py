"""Specs: every one fits its models, and every change of one is refused; what is not known is refused by name."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import nn

import mixlens
from mixlens.architectures import (
    SPECS,
    Feed,
    ffn_width,
    layer_count,
    layer_modules,
    position_limit,
    shares_layers,
    spec_for,
    takes_positions,
)
from mixlens.errors import MixlensError, UnknownArchitecture, UnsupportedConfig
from mixlens.mixing import MIXING
from models import families, stored
from models.mutations import mutations, refused
from models.translators import TRANSLATORS

QUICK = ("bert", "gemma2")
TEXT = families.text()


def test_every_spec_has_a_family_here():
    kinds = {family.model_type for family in (*families.FAMILIES.values(), *TRANSLATORS.values())}
    heard = {"whisper"}  # tests/subject/test_whisper.py
    assert {*kinds, *families.SINGLE, *heard} == set(SPECS)


@pytest.mark.parametrize("name", families.each())
def test_check_passes(name):
    check = families.lens(name).check()
    assert check.passed
    assert check.worst < 5e-15
    assert len(check.layers) == (4 if name.startswith(("albert", "modernbert")) else 3)
    assert check.causal == families.FAMILIES[name].causal
    spec = spec_for(families.config_of(name))
    lacking = [] if spec.order == "post" else ["norm_resln"]
    lacking += ["hta", "hta_x_input"] if spec.seam == "softmax" else []
    assert [m for m in MIXING if check.supports[m]] == lacking


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2"])
def test_check_passes_where_norms_round_to_float32(name):
    check = mixlens.load(families.make(name, exact=False)).check()
    assert 1e-12 < check.worst < check.tolerance < 1e-5


# --- every mutation of every spec ---

BERT, OPT = (spec_for(families.config_of(name)) for name in ("bert", "opt"))
MEMORY = replace(BERT.attend, reads="memory", qkv=None)


@pytest.mark.parametrize("change", [{"order": "pre"}, {"order": "parallel"}, {"chain": OPT.chain}])
def test_a_norm_that_a_spec_needs_or_cannot_use_is_an_error(change):
    with pytest.raises(ValueError, match=r"expected the norm of every sub-block, but not .* of sub-block 0"):
        replace(BERT, **change)


@pytest.mark.parametrize(
    ("spec", "chain", "says"),
    [
        (BERT, (BERT.feed,), "expected at least one attention sub-block, got"),
        (BERT, (BERT.attend, BERT.attend, BERT.feed), "expected tokens to read each other at the beginning of a layer"),
        (BERT, BERT.chain[::-1], "expected tokens to read each other at the beginning of a layer"),
        (OPT, (OPT.attend, replace(MEMORY, norm=None), OPT.feed), "expected the norm of every sub-block"),
    ],
)
def test_a_chain_that_cannot_be_taken_apart_is_an_error(spec, chain, says):
    with pytest.raises(ValueError, match=says):
        replace(spec, chain=chain)


def test_a_parallel_layer_has_one_attention():
    parallel = replace(OPT, order="parallel")
    with pytest.raises(ValueError, match="no second attention in a parallel one"):
        replace(parallel, chain=(OPT.attend, MEMORY, OPT.feed))


def test_layers_with_several_attentions_have_no_single_one():
    spec = replace(BERT, chain=(BERT.attend, MEMORY, BERT.feed))
    assert spec.attends == (BERT.attend, MEMORY)
    with pytest.raises(ValueError, match="too many values"):
        spec.attend  # noqa: B018
    assert spec.norms == ("attention.output.LayerNorm", "attention.output.LayerNorm", "output.LayerNorm")


@pytest.mark.parametrize(("up", "fused"), [((), False), (("a", "b", "c"), False), (("a", "b"), True), ((), True)])
def test_a_network_has_one_first_map_or_two(up, fused):
    with pytest.raises(ValueError, match="expected one first map, or two where they are gated and not fused"):
        Feed(up, "act", "down", "norm", fused=fused)


# Every family where the self-check lets most pass (bfloat16); the other two precisions where norms stand behind and
# in front of the sub-blocks. One layer is enough, and less for the check to go by.
TRIED = [
    *((name, torch.float64) for name in QUICK),
    *(pytest.param(name, torch.float32, marks=pytest.mark.slow) for name in QUICK),
    *(pytest.param(name, torch.bfloat16, marks=pytest.mark.slow) for name in families.FAMILIES),
]
DEEP = ("albert-groups", "albert-inner", "modernbert", "qwen3_moe")  # their layers are not all alike


@pytest.mark.parametrize(("name", "dtype"), TRIED)
def test_every_mutation_is_refused(name, dtype):
    depth = {"gpt2": "n_layer", "distilbert": "n_layers"}.get(name, "num_hidden_layers")
    model = families.model(name, dtype=dtype, **({} if name in DEEP else {depth: 1}))
    spec = spec_for(model.config)
    layer = layer_modules(model, spec)[-1]
    tried = dict(mutations(spec, layer))
    assert len(tried) > 20
    assert [what for what, make in tried.items() if not refused(model, make)] == []
    assert not refused(model, lambda: spec)


# --- what is not known is refused by name ---


def test_unknown_architecture():
    from transformers import MambaConfig, MambaModel

    model = MambaModel(MambaConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, state_size=4))
    with pytest.raises(
        UnknownArchitecture, match=r"a spec \(albert, .*\) .*, got 'mamba': its attention is seen neither"
    ):
        mixlens.load(model)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("bert", "add_cross_attention", True),
        ("gpt2", "add_cross_attention", True),
        ("bert", "position_embedding_type", "relative_key"),
        ("bert", "quantization_config", {"load_in_8bit": True}),
        ("llama", "quantization_config", {"bits": 4}),
    ],
)
def test_unhandled_settings_are_refused_by_name(name, key, value):
    config = families.config_of(name)
    setattr(config, key, value)
    with pytest.raises(UnsupportedConfig, match=f"of '{config.model_type}' with {key}=.*, got {key}=.*rule"):
        spec_for(config)


def test_a_new_setting_of_a_class_is_refused_by_name():
    """As a later transformers may have it: a key with a default that leaves the mathematics alone, and changed here."""
    from transformers import BertConfig

    class NewConfig(BertConfig):
        depth_scale: float = 1.0

        def to_dict(self):
            return {**super().to_dict(), "depth_scale": self.depth_scale}

    config = NewConfig()
    spec_for(config)
    config.depth_scale = 0.5
    with pytest.raises(UnsupportedConfig, match=r"with depth_scale=1.0, got depth_scale=0.5"):
        spec_for(config)


def test_keys_that_no_class_reads_are_let_through():
    config = families.config_of("bert")
    config.my_own_note = "trained on a Tuesday"
    spec_for(config)


@pytest.mark.parametrize("name", families.FAMILIES)
def test_every_setting_of_the_families_is_handled(name):
    spec_for(families.config_of(name))


# --- what a spec or a model says beside its layers, each against the model's own pass ---


def test_position_limits():
    assert {position_limit(families.model(name), spec_for(families.config_of(name))) for name in families.FAMILIES} == {
        40
    }


@pytest.mark.parametrize("name", families.each())
def test_layers_are_counted_as_they_run(name):
    model = families.model(name)
    spec, ran = spec_for(model.config), []
    modules = layer_modules(model, spec)
    handles = [layer.register_forward_hook(lambda *given: ran.append(given[0])) for layer in modules]
    model(torch.tensor([TEXT]))
    for handle in handles:
        handle.remove()
    assert len(ran) == layer_count(model, spec)
    assert list(dict.fromkeys(ran)) == modules
    assert shares_layers(spec) == (name.startswith("albert"))


@pytest.mark.parametrize("name", families.each())
def test_the_width_of_a_network_is_read_off_its_modules(name):
    model = families.model(name)
    # whatever the configuration calls it; of experts both matrices of the two that a token is sent to, and the router
    widths = {"mixtral": 2 * (96 + 48) + 3, "gpt_oss": 2 * (96 + 48) + 3 * 3, "qwen3_moe": 2 * (48 + 32) + 4}
    assert ffn_width(model, spec_for(model.config)) == widths.get(name, 44)


# relative positions are those of all tokens, whatever the mask says and positions are given
RELATIVE = ("mpnet", "deberta-v2")
WINDOWED = ("mistral", "gemma2", "modernbert", "gpt_oss")  # a window counts the masked token too


@pytest.mark.parametrize("name", families.each(of=[n for n in families.FAMILIES if n not in (*WINDOWED, *RELATIVE)]))
def test_positions_are_taken_as_the_spec_says(name):
    """A token out of the middle: masked padding in its place, or the others keep their positions, or they move up."""
    model = families.model(name)
    positions, pad = spec_for(model.config).positions, model.config.pad_token_id

    def states(ids: list[int], **inputs: list[int]) -> torch.Tensor:
        return model(torch.tensor([ids]), **{k: torch.tensor([v]) for k, v in inputs.items()}).last_hidden_state

    kept = [0, 1, 3, 4, 5, 6]
    short = [TEXT[i] for i in kept]
    first = pad + 1 if positions == "ids" else 0
    masked = states([*TEXT[:2], pad, *TEXT[3:7]], attention_mask=[1, 1, 0, 1, 1, 1, 1])[:, kept]
    stay, move = states(short, position_ids=[first + i for i in kept]), states(short)
    same, other = (stay, move) if positions == "all" else (move, stay)
    assert (masked - same).abs().max() < 1e-9
    assert (masked - other).abs().max() > 1e-3


def test_positions_can_be_given_where_the_forward_takes_them():
    for name, family in families.FAMILIES.items():
        assert takes_positions(families.model(name, "sequence" if "sequence" in family.heads else "causal"))
    model = copy.deepcopy(families.model("bert"))
    model.forward = lambda input_ids, attention_mask: None
    assert not takes_positions(model)


# --- one model in four forms ---


def recast(kind: str) -> tuple[object, list[int]]:
    """MiniLM's weights as another architecture in float64, and what its token ids are shifted by."""
    import transformers

    weights = stored.minilm_weights()
    c = stored.model("minilm").config
    sizes = {
        "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size,
        "num_hidden_layers": c.num_hidden_layers,
        "num_attention_heads": c.num_attention_heads,
        "intermediate_size": c.intermediate_size,
        "max_position_embeddings": c.max_position_embeddings,
        "layer_norm_eps": c.layer_norm_eps,
    }
    if kind == "electra":
        config = transformers.ElectraConfig(**sizes, embedding_size=c.hidden_size)
        model = transformers.ElectraModel(config)
    elif kind == "roberta":
        shifted = {**sizes, "max_position_embeddings": c.max_position_embeddings + 1}
        config = transformers.RobertaConfig(**shifted, type_vocab_size=2, pad_token_id=0)
        model = transformers.RobertaModel(config, add_pooling_layer=False)
        key = "embeddings.position_embeddings.weight"
        weights[key] = torch.cat([torch.zeros(1, c.hidden_size), weights[key]])  # positions start behind the padding's
    else:
        config = transformers.DistilBertConfig(
            vocab_size=c.vocab_size,
            dim=c.hidden_size,
            n_layers=c.num_hidden_layers,
            n_heads=c.num_attention_heads,
            hidden_dim=c.intermediate_size,
            max_position_embeddings=c.max_position_embeddings,
        )
        model = transformers.DistilBertModel(config)
        weights = distil(weights)
    model = model.double().eval()
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert not [key for key in missing if not key.endswith(("position_ids", "token_type_ids"))]
    return model


def distil(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """BERT's names to DistilBERT's, the token types' first row put into the positions."""
    names = {
        "encoder.layer": "transformer.layer",
        "attention.self.query": "attention.q_lin",
        "attention.self.key": "attention.k_lin",
        "attention.self.value": "attention.v_lin",
        "attention.output.dense": "attention.out_lin",
        "attention.output.LayerNorm": "sa_layer_norm",
        "intermediate.dense": "ffn.lin1",
        "output.dense": "ffn.lin2",
        "output.LayerNorm": "output_layer_norm",
    }
    out = {}
    for key, tensor in weights.items():
        for old, new in names.items():
            key = key.replace(old, new)
        out[key] = tensor
    types = out.pop("embeddings.token_type_embeddings.weight")
    out["embeddings.position_embeddings.weight"] = out["embeddings.position_embeddings.weight"] + types[0]
    return out


@cache
def minilm_map(method: str) -> torch.Tensor:
    return stored.lens("minilm").mixing(MINILM_TEXT, method=method).scores


MINILM_TEXT = [101, 1037, 2784, 1998, 15902, 2143, 1012, 102]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "tolerance"), [("electra", 1e-12), ("roberta", 1e-12), ("distilbert", 1.2e-6)])
def test_minilm_in_another_form_has_the_same_maps(kind, tolerance):
    lens = mixlens.load(recast(kind))
    for method, facts in MIXING.items():
        if facts.work != "jacobian" or (kind, method) == ("distilbert", "hta"):  # thousands of gradients: once
            got, expected = lens.mixing(MINILM_TEXT, method=method).scores, minilm_map(method)
            assert (got - expected).abs().max() <= tolerance * expected.abs().max(), method


def test_layers_that_are_built_in_another_way_are_refused():
    model = copy.deepcopy(families.model("bert"))
    model.encoder.layer[1].output.LayerNorm = nn.Identity()
    with pytest.raises(MixlensError):
        mixlens.load(model)
    model = copy.deepcopy(families.model("bert"))
    model.encoder.layer[1].output.dense.register_forward_hook(lambda module, args, out: out * 2)  # not the model itself
    mixlens.load(model)
