"""Where a model has its unembedding is found once; its numbers are those of the call."""

from __future__ import annotations

import gc
from weakref import ref

import pytest
import torch
import transformers

import mixlens
from mixlens.errors import Undefined
from mixlens.subject import unembedding
from models import families

TEXT = families.text(5)


@pytest.fixture
def lens() -> mixlens.Lens:
    return mixlens.load(families.make("llama", "causal"))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The models that a pass was made of to find it."""
    out: list[object] = []
    plain = unembedding._searched
    monkeypatch.setattr(unembedding, "_searched", lambda model, *rest: out.append(model) or plain(model, *rest))
    return out


def scores(lens: mixlens.Lens) -> torch.Tensor:
    return lens.attribute(TEXT, "head_logit", target=7, normalize=False).scores


def fresh(lens: mixlens.Lens) -> torch.Tensor:
    """Of a lens that remembers nothing."""
    unembedding._PLACES.clear()
    return scores(mixlens.load(lens.model))


def test_it_is_found_once(lens: mixlens.Lens, found: list[object]) -> None:
    first = scores(lens)
    assert torch.equal(scores(lens), first) and len(found) == 1


@torch.no_grad()
def test_weights_are_those_of_the_call(lens: mixlens.Lens, found: list[object]) -> None:
    before = scores(lens)
    lens.model.model.norm.weight.mul_(torch.linspace(0.5, 2, lens.model.config.hidden_size))
    lens.model.lm_head.weight = torch.nn.Parameter(lens.model.lm_head.weight.flip(0))
    after = scores(lens)
    assert len(found) == 1 and not torch.allclose(before, after)
    assert torch.equal(after, fresh(lens))


@pytest.mark.parametrize("part", ["norm", "vocabulary", "forward", "config"])
def test_another_module_or_configuration_is_looked_at_anew(lens: mixlens.Lens, found: list[object], part: str) -> None:
    scores(lens)
    model = lens.model
    if part == "norm":
        model.model.norm = torch.nn.LayerNorm(model.config.hidden_size, dtype=model.dtype)
    elif part == "vocabulary":
        model.lm_head = torch.nn.Linear(model.config.hidden_size, model.config.vocab_size, dtype=model.dtype)
    elif part == "forward":
        plain = model.lm_head.forward
        model.lm_head.forward = lambda x: torch.tanh(plain(x))
    else:
        model.config.final_logit_softcapping = 30.0
    if part in ("forward", "config"):  # logits that are made otherwise
        with pytest.raises(Undefined, match="they are something else"):
            scores(lens)
        with pytest.raises(Undefined, match="they are something else"):
            scores(lens)
    else:
        assert torch.equal(scores(lens), fresh(lens))
    assert len(found) >= 2


def test_another_factor_of_the_logits_is_looked_at_anew(found: list[object]) -> None:
    config = transformers.CohereConfig(**families.FOUND["stablelm"].settings)
    lens = mixlens.load(transformers.CohereForCausalLM(config).eval())
    before = scores(lens)
    lens.model.logit_scale *= 2  # a number of the model's own, beside its configuration
    after = scores(lens)
    assert not torch.allclose(before, after)
    assert torch.equal(after, fresh(lens))


def test_a_map_to_the_vocabulary_that_is_a_network_has_no_unembedding() -> None:
    model = families.make("llama", "causal")
    dim = model.config.hidden_size
    model.lm_head = torch.nn.Sequential(torch.nn.Linear(dim, dim), torch.nn.Tanh(), model.lm_head).double()
    lens = mixlens.load(model)
    assert lens.attribute(TEXT, "saliency", target=7).scores.isfinite().all()
    with pytest.raises(Undefined, match="a language model with a linear map to its vocabulary"):
        scores(lens)


def test_a_model_is_not_kept_alive() -> None:
    lens = mixlens.load(families.make("llama", "causal"))
    scores(lens)
    model = ref(lens.model)
    del lens
    gc.collect()
    assert model() is None
