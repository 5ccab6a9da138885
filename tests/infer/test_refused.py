"""What has no room in a spec is refused with the reason; what a user has changed is found or refused, never guessed."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn

import mixlens
from mixlens.errors import SelfCheckFailed, UnknownArchitecture, UnknownOption, UnsupportedConfig
from mixlens.infer import found, infer
from models import families

REASONS = {
    "Bart": "an encoder-decoder: two streams of tokens",
    "Mamba": "its attention is seen neither at transformers' attention interface nor at a softmax",
    "BitNet": "a norm between attention and its output projection",
    "Qwen3Next": "hybrid|gated attention output|opaque FFN",
    "DiffLlama": "2 attention calls in one layer",
    "Esm": "a feed-forward network in pieces",
    "CLIP": "two towers",
    "Afmoe": "gated attention output",
}

SETTINGS = {"Esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32}}


@pytest.mark.parametrize(
    "prefix", [pytest.param(p, marks=() if p in ("Mamba", "Bart") else pytest.mark.slow) for p in REASONS]
)
def test_what_has_no_room_is_refused_with_the_reason(prefix):
    kind, config = (getattr(transformers, prefix + end) for end in ("Model", "Config"))
    with pytest.raises(UnknownArchitecture, match=rf"expected a model type with a spec .*: .*({REASONS[prefix]})"):
        infer(kind, config(**SETTINGS.get(prefix, {})))


@pytest.mark.slow
def test_layers_that_run_several_times_are_refused():
    with pytest.raises(UnknownArchitecture, match="got 'albert': layers that run several times"):
        infer(transformers.AlbertModel, families.config_of("albert-inner"))


def test_a_quantised_model_is_refused_by_name():
    config = families.config_of("phi")
    config.quantization_config = {"bits": 4}
    with pytest.raises(UnsupportedConfig, match="of 'phi' with quantization_config=None"):
        infer(transformers.PhiModel, config)


# --- a model that its user has changed ---


def test_a_norm_of_another_kind_is_refused():
    model = copy.deepcopy(families.model("phi"))
    model.layers[1].input_layernorm = nn.RMSNorm(32).double()
    with pytest.raises(SelfCheckFailed, match="norms of layer 1 is off by"):
        mixlens.load(model)


def test_an_attention_whose_heads_are_scaled_is_refused():
    class Scaled(nn.Linear):
        def forward(self, x):
            return super().forward(x.tanh())

    model = copy.deepcopy(families.model("phi"))
    model.layers[2].self_attn.dense.__class__ = Scaled
    with pytest.raises(SelfCheckFailed, match="sum_of_terms of layer 2 is off by"):
        mixlens.load(model)


@pytest.mark.parametrize(
    ("dim", "match"),
    [
        (1, "'mlp.fc2' of PhiDecoderLayer 1 to map each token alone"),
        (-1, "'mlp.activation_fn' .* map each number alone"),
    ],
)
def test_an_activation_that_mixes_tokens_or_numbers_is_refused(dim, match):
    model = copy.deepcopy(families.model("phi"))
    model.layers[1].mlp.activation_fn = nn.Softmax(dim)
    with pytest.raises(SelfCheckFailed, match=match):
        mixlens.load(model)


@pytest.mark.parametrize("token", [0, -1])
def test_a_network_that_reads_one_token_at_every_other_is_refused(token):
    class Beside(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x) * (1 + 0.5 * x[:, [token]].tanh())

    model = copy.deepcopy(families.model("mixtral"))
    model.layers[1].mlp = Beside(model.layers[1].mlp)
    with pytest.raises(SelfCheckFailed, match="'mlp' of MixtralDecoderLayer 1 to map each token alone"):
        mixlens.load(model)


def test_a_norm_that_rounds_to_float32_is_no_fault_of_a_float64_model():
    config = transformers.CohereConfig(**families.FOUND["stablelm"].settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.CohereModel(config).double().eval()
        families.randomize(model)
    check = mixlens.load(model).check()
    assert check.origin == "inferred"
    assert 1e-12 < check.worst < check.tolerance < 1e-5


def test_a_layer_that_is_none_is_refused():
    class Through(nn.Module):
        def forward(self, hidden_states, **kwargs):
            return hidden_states

    model = copy.deepcopy(families.model("phi"))
    model.layers[1] = Through()
    with pytest.raises(SelfCheckFailed, match="expected Through to have 'self_attn'"):
        mixlens.load(model)


def test_fewer_layers_are_found():
    model = copy.deepcopy(families.model("phi"))
    del model.layers[1]
    lens = mixlens.load(model)
    assert len(lens.check().layers) == 2
    assert lens.check().worst < 5e-15


# --- what inference leaves as it is, and what it costs ---


def test_the_model_the_configuration_and_the_random_state_stay():
    model = families.make("phi", "sequence")
    weights, config = {k: t.clone() for k, t in model.state_dict().items()}, model.config.to_dict()
    state, mode = torch.get_rng_state(), torch.is_grad_enabled()
    found._found.clear()
    mixlens.load(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled() == mode
    assert model.config.to_dict() == config
    assert all(torch.equal(t, weights[k]) for k, t in model.state_dict().items())


def test_a_class_and_configuration_are_looked_at_once(monkeypatch):
    config, again = families.config_of("phi"), families.config_of("phi")
    first = infer(transformers.PhiModel, config)
    monkeypatch.setattr(found, "twin_of", None)
    assert infer(transformers.PhiModel, again) is first
    again.num_attention_heads = 8
    with pytest.raises(TypeError):
        infer(transformers.PhiModel, again)


# --- a spec of one's own ---


def test_a_spec_that_is_given_is_used_and_checked():
    model, spec = families.model("bert"), families.lens("bert").spec
    lens = mixlens.load(model, spec=spec)
    assert lens.check().origin == "given"
    assert lens.mixing(families.text()).meta["spec"] == "given"
    assert "spec" not in families.lens("bert").mixing(families.text()).meta
    with pytest.raises(SelfCheckFailed):
        mixlens.load(model, spec=replace(spec, norm="rms"))


@pytest.mark.parametrize("layers", [lambda base: base.encoder.layer[:2], lambda base: base.encoder.layer[1:]])
def test_a_spec_of_some_of_the_layers_is_refused(layers):
    spec = replace(families.lens("bert").spec, layers=layers)
    with pytest.raises(SelfCheckFailed, match=r"to name all of its layers, 'encoder\.layer\.[02]' runs beside them"):
        mixlens.load(families.model("bert"), spec=spec)


def test_layers_that_are_no_list_and_a_spec_that_is_none_are_refused_by_name():
    model, spec = families.model("bert"), families.lens("bert").spec
    with pytest.raises(SelfCheckFailed, match="list of layers at the spec's path 'pooler' of BertModel, got BertPool"):
        mixlens.load(model, spec=replace(spec, layers="pooler"))
    for wrong in ("bert", {}):
        with pytest.raises(UnknownOption, match=r"expected spec= a mixlens\.Spec, got (str|dict)"):
            mixlens.load(model, spec=wrong)
