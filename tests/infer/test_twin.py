"""Small models of large ones: the same but for sizes, a layer of each kind, and nothing of the large one built."""

from __future__ import annotations

import pytest
import torch
import transformers

from mixlens.infer import spec_of, twin_of
from mixlens.infer.sizes import Size, small
from models import families

LARGE = {
    "Phi3": {  # 128k positions: a factor for each dimension of a head
        "hidden_size": 3072,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "intermediate_size": 8192,
        "vocab_size": 32064,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "sliding_window": 262144,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0 + i / 48 for i in range(48)],
            "long_factor": [1.0 + i for i in range(48)],
            "original_max_position_embeddings": 4096,
        },
    },
    "Cohere2": {
        "hidden_size": 12288,
        "num_hidden_layers": 64,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "intermediate_size": 36864,
        "vocab_size": 256000,
    },
    "DeepseekV3": {},  # 671 billion numbers by default
}


@pytest.mark.parametrize("prefix", [pytest.param(p, marks=() if p == "Phi3" else pytest.mark.slow) for p in LARGE])
def test_large_models_are_looked_at_in_small(prefix):
    kind, config = (getattr(transformers, prefix + end) for end in ("Model", "Config"))
    twin = twin_of(kind, config(**LARGE[prefix]))
    assert sum(p.numel() for p in twin.model.parameters()) < 1_000_000
    assert spec_of(twin).layers == "layers"


def test_of_layers_of_several_kinds_each_is_there():
    kinds = ["sliding_attention"] * 5 + ["full_attention"]
    config = families.config_of("gemma3_text", num_hidden_layers=12, layer_types=kinds * 2)
    made = small(config, Size())
    assert made.layer_types == ["sliding_attention", "sliding_attention", "full_attention"]
    assert made.num_hidden_layers == 3
    assert config.num_hidden_layers == 12


def test_all_but_sizes_stays():
    config = families.config_of("gemma2", query_pre_attn_scalar=7, attn_logit_softcapping=3.0)
    made = small(config, Size())
    for key in (
        "query_pre_attn_scalar",
        "attn_logit_softcapping",
        "rms_norm_eps",
        "hidden_activation",
        "attention_bias",
    ):
        assert getattr(made, key) == getattr(config, key)


def test_grouped_heads_stay_grouped_and_others_do_not():
    made = [small(families.config_of("llama", num_key_value_heads=n), Size()).num_key_value_heads for n in (4, 2, 1)]
    assert made == [4, 2, 1]


def test_weights_are_of_order_one_and_the_same_each_time():
    first, again = (twin_of(transformers.PhiModel, families.config_of("phi")) for _ in range(2))
    for a, b in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    states = first.model(**first.inputs).last_hidden_state
    assert 0.1 < states.std() < 10
    assert torch.equal(first.ids, again.ids)
    assert first.ids.shape == (1, 24)
