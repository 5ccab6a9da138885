"""A text on which a model does something else than on the probe is refused, and each call says how far it was off."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

import mixlens
from mixlens.decompose import Block, CallCheck
from mixlens.errors import SelfCheckFailed
from models import families, translators

LONG = 40  # tokens; the probe has fewer
ANSWER = [29, 12, 14, 57, 39, 44, 55]


class Neighbours(nn.Module):
    """A feed-forward network that reads the next token's vector where a text is long, as a router of limited capacity
    gives one token's place to another.
    """

    def __init__(self, mlp: nn.Module, most: int = LONG) -> None:
        super().__init__()
        self.mlp, self.most = mlp, most

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.mlp(x.roll(1, 1) if x.shape[1] > self.most else x)
        return made


@pytest.fixture(scope="module")
def lens() -> mixlens.Lens:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"vocab_size": 60, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2)).eval()
    for layer in model.model.layers:
        nn.init.normal_(layer.mlp.down_proj.weight)
        layer.mlp = Neighbours(layer.mlp)
    spec = mixlens.Spec(
        layers="layers",
        order="pre",
        norm="rms",
        chain=(
            mixlens.Attend(attention="self_attn", out="self_attn.o_proj"),
            mixlens.Network(module="mlp", norm="post_attention_layernorm"),
        ),
    )
    return mixlens.load(model, spec=spec)


METHODS = ("attention_rollout", "globenc", "alti", "head_logit", "alti_logit")


@pytest.mark.parametrize("method", METHODS)
def test_a_text_that_the_model_treats_otherwise_is_refused(lens: mixlens.Lens, method: str) -> None:
    short, long = list(range(3, 30)), [3 + i % 50 for i in range(LONG + 2)]
    attr = lens.attribute(short, method)
    assert 0 <= attr.meta["call_check"] < 1e-5
    with pytest.raises(SelfCheckFailed, match=r"LlamaDecoderLayer 0 to add up .* on this text .* off by \d.*e[+-]\d"):
        lens.attribute(long, method)


def test_maps_and_traces_are_refused_too(lens: mixlens.Lens) -> None:
    long = [3 + i % 50 for i in range(LONG + 2)]
    with pytest.raises(SelfCheckFailed, match="a router, a window or a branch"):
        lens.mixing(long, "norm")
    with pytest.raises(SelfCheckFailed, match="a router, a window or a branch"):
        lens.trace(long, [4, 5], "head_logit")
    assert lens.mixing(long[:20], "norm").meta["call_check"] < 1e-5


@pytest.mark.parametrize("family", families.each())
def test_every_family_adds_up_at_each_call(family: str) -> None:
    """Each layer of a batch with padding is within what is allowed at load."""
    lens = families.lens(family)
    seen: list[float] = []
    plain = CallCheck.look

    def look(self: CallCheck, block: Block) -> None:
        plain(self, block)
        seen.extend(float(off) / limit for off, limit, _ in self.layers[-1:])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CallCheck, "look", look)
        texts = families.texts()
        lens.mixing(texts, "attention")
    assert seen and max(seen) < 1


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in translators.QUICK)) for n in translators.TRANSLATORS]
)
@pytest.mark.parametrize("method", ["attention_rollout", "alti"])
def test_both_stacks_add_up_at_each_call(name: str, method: str) -> None:
    trace = translators.lens(name).trace(families.text(), ANSWER, method)
    assert 0 <= trace.meta["call_check"] < 1e-5


def test_a_decoder_that_reads_its_neighbours_is_refused() -> None:
    lens = mixlens.load(translators.make("bart"))
    for layer in lens.model.model.decoder.layers:
        layer.activation_fn = Neighbours(layer.activation_fn, 6)
    with pytest.raises(SelfCheckFailed, match=r"BartDecoderLayer \d to add up .* on this text"):
        lens.trace(families.text(), ANSWER, "attention_rollout")
