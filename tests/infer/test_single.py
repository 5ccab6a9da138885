"""Norms of a model's own class: computed in float32 whatever its type, or without an epsilon to be read."""

from __future__ import annotations

import pytest
import torch
import transformers

import mixlens
from models import families

SIZES = {
    "vocab_size": families.VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 44,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["Olmo", "Cohere"])
def test_a_norm_of_a_model_s_own_class_passes_in_every_type(name, dtype):
    config = getattr(transformers, f"{name}Config")(**SIZES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, f"{name}ForCausalLM")._from_config(config, dtype=torch.float32)
        families.randomize(model)
    lens = mixlens.load(model.to(dtype).eval())
    check = lens.check()
    assert check.passed
    assert check.worst > 1e-9  # else nothing here rounds, and the test says nothing
    scores = lens.attribute(families.text(), "head_logit").scores
    assert float(scores.sum()) == pytest.approx(1, abs=1e-5)


def test_a_class_that_changes_itself_in_a_pass_is_seen_as_it_stands():
    """BigBird's first short text makes its sparse attention a full one, on the model itself."""
    config = transformers.BigBirdConfig(**{**SIZES, "block_size": 4, "sep_token_id": 3})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.BigBirdModel(config).double().eval()
        families.randomize(model)
    assert model.attention_type == "block_sparse"
    lens = mixlens.load(model)
    maps = lens.mixing(families.text(), method="attention").scores
    assert model.attention_type == "block_sparse"
    assert lens.check().passed
    torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps[..., 0]))
