"""Attention that no interface hands out is seen at its softmax: it is the model's own, and so is what is made of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import transformers

import mixlens
from mixlens.architectures import Spec, spec_for
from mixlens.capture.attention import Call
from mixlens.capture.run import Watch, run
from mixlens.capture.softmax import at_softmax
from mixlens.errors import SelfCheckFailed, Undefined
from models import families

TEXT = families.text()
SIZES = {"vocab_size": families.VOCABULARY, "hidden_size": 32, "pad_token_id": 0}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "deberta": (
        "Deberta",
        {
            **SIZES,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 44,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "max_relative_positions": 8,
            "max_position_embeddings": 40,
        },
    ),
    "bloom": ("Bloom", {**SIZES, "n_layer": 2, "n_head": 4}),
    "gpt_neo": (
        "GPTNeo",
        {
            **SIZES,
            "num_layers": 2,
            "num_heads": 4,
            "intermediate_size": 44,
            "max_position_embeddings": 40,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 3,
            "bos_token_id": 2,
            "eos_token_id": 2,
        },
    ),
    "mpt": (
        "Mpt",
        {
            "vocab_size": families.VOCABULARY,
            "pad_token_id": 0,
            "d_model": 32,
            "n_layers": 2,
            "n_heads": 4,
            "max_seq_len": 40,
        },
    ),
}
FALCON = {**SIZES, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_hidden_size": 44, "bias": True}
FALCON |= {"bos_token_id": 2, "eos_token_id": 2}
FOUND = {  # no table has them: their specs are found
    "falcon": ("Falcon", {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon-sequential": ("Falcon", {**FALCON, "alibi": True, "parallel_attn": False, "multi_query": False}),
}
HERE = [*MODELS, *FOUND, "mpnet", "deberta-v2"]


@cache
def model(name: str, head: str = "Model") -> Any:
    if name not in (*MODELS, *FOUND):
        return families.model(name, {"Model": "base", "ForCausalLM": "causal"}[head])
    prefix, settings = {**MODELS, **FOUND}[name]
    config = getattr(transformers, f"{prefix}Config")(**settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = getattr(transformers, prefix + head)._from_config(config, attn_implementation="eager")
        families.randomize(made)
    return made.double().eval()


@cache
def lens(name: str) -> mixlens.Lens:
    return mixlens.load(model(name))


def test_every_such_spec_is_tried_here():
    assert {lens(name).spec.seam for name in HERE} == {"softmax"}
    assert set(MODELS) == set(families.SINGLE)


@pytest.mark.parametrize("name", HERE)
def test_the_maps_are_the_model_s_own_attentions(name):
    check = lens(name).check()
    assert check.passed and check.worst < 1e-6
    ids = torch.tensor([TEXT])
    plain = type(model(name))._from_config(model(name).config, attn_implementation="eager").double().eval()
    plain.load_state_dict(model(name).state_dict())
    real = plain(ids, attention_mask=torch.ones_like(ids), output_attentions=True).attentions
    got = lens(name).mixing(TEXT, method="attention").scores
    torch.testing.assert_close(got, torch.cat(real).mean(1).to(got), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        *((name, method) for name in HERE for method in ("alti", "value_zeroing")),
        *((HERE[0], method) for method in ("attention", "globenc")),
    ],
)
def test_padding_and_batch_mates_change_nothing(name, method):
    alone = lens(name).mixing(TEXT, method=method).scores
    batch = lens(name).mixing([families.text(5), TEXT, families.text(7, 3)], method=method)[1].scores
    torch.testing.assert_close(batch, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["attcat", "grad_sam", "alti"])
@pytest.mark.parametrize("family", ["deberta-v2", "mpnet"])
def test_a_shorter_text_of_a_batch_has_its_own_scores(family, method):
    """DeBERTa hides all keys from padding: a mask's number upon a mask's number was infinite there."""
    made, texts = families.lens(family, "sequence"), [families.text(9), families.text(4, 3)]
    for text, got in zip(texts, made.attribute(texts, method), strict=True):
        torch.testing.assert_close(got.scores, made.attribute(text, method).scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["bloom", "gpt_neo", "mpt", "falcon"])
def test_gradients_of_attention_are_those_of_the_model(name):
    """grad_sam's own ingredients: the weights that a pass is run with are in the graph of its answer."""
    made = mixlens.load(model(name, "ForCausalLM"))
    for method in ("saliency", "grad_sam", "head_logit"):
        scores = made.attribute(TEXT, method).scores
        assert torch.isfinite(scores).all() and scores.abs().sum() > 0
    seen: list[torch.Tensor] = []

    def weigh(index: int, call: Call) -> torch.Tensor:
        seen.append(call.weights().requires_grad_())
        return seen[-1]

    ids = torch.tensor([TEXT])
    with torch.enable_grad():
        out = run(model(name), made.spec, {"input_ids": ids}, Watch(lambda s: None, call=weigh))
    plain = model(name)(ids).last_hidden_state
    torch.testing.assert_close(out.last_hidden_state, plain, rtol=1e-5, atol=1e-5)
    gradients = torch.autograd.grad(out.last_hidden_state.sum(), seen)
    assert all(float(g.abs().sum()) > 0 for g in gradients)


@pytest.mark.parametrize(
    ("name", "value"), [("mpnet", "attention.attn.v"), ("deberta-v2", "attention.self.value_proj")]
)
def test_value_zeroing_is_zeroing_the_value_in_the_model(name, value):
    ids = torch.tensor([TEXT])
    layers = model(name).encoder.layer

    def states(layer: int, token: int | None) -> torch.Tensor:
        """A layer's output, a token's value vector zero in it."""

        def zero(module: torch.nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> torch.Tensor:
            out = out.clone()
            out[:, token] = 0
            return out

        handle = layers[layer].get_submodule(value).register_forward_hook(zero) if token is not None else None
        with torch.no_grad():
            hidden = model(name)(ids, output_hidden_states=True).hidden_states[layer + 1][0]
        if handle is not None:
            handle.remove()
        return hidden

    maps = lens(name).mixing(TEXT, method="value_zeroing", normalize=False).scores
    for layer in (0, len(layers) - 1):
        plain = states(layer, None)
        for token in (0, 3, len(TEXT) - 1):
            moved = 1 - torch.cosine_similarity(plain, states(layer, token), dim=-1)
            torch.testing.assert_close(maps[layer, :, token], moved, rtol=1e-9, atol=1e-12)


def test_what_needs_queries_and_keys_is_refused():
    with pytest.raises(Undefined, match="needs queries and keys; this model's attention hands over its logits alone"):
        lens("mpnet").mixing(TEXT, method="hta")


def test_weights_that_something_else_is_done_to_are_not_taken_for_the_softmax():
    """Talking heads: what the values are multiplied with is a mixture of the softmax's heads."""
    config = transformers.DebertaConfig(**MODELS["deberta"][1], talking_head=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = transformers.DebertaModel(config)
        families.randomize(made)
    with pytest.raises(SelfCheckFailed):
        mixlens.load(made.double().eval())


def test_a_call_of_logits_gives_their_softmax_and_what_is_visible():
    logits, values = torch.randn(2, 4, 5, 5), torch.randn(2, 2, 5, 3)
    logits[..., 3:] = torch.finfo(torch.float32).min
    call = at_softmax(logits, values)
    torch.testing.assert_close(call.weights(slice(1, 4)), logits.softmax(-1)[:, :, 1:4])
    assert call.groups == 2
    visible = call.visible()
    assert visible is not None and visible[..., :3].all() and not visible[..., 3:].any()
    torch.testing.assert_close(call.output(), logits.softmax(-1) @ values.repeat_interleave(2, 1))
    rows = call.take(torch.tensor([[1, 4], [0, 2]]))
    torch.testing.assert_close(rows.weights()[1], logits.softmax(-1)[1][:, [0, 2]])
    assert at_softmax(logits[..., :3], values[:, :, :3]).mask is None


def test_a_row_that_sees_nothing_sees_all_alike_however_often_it_is_hidden():
    lowest = torch.finfo(torch.float32).min
    logits, values = torch.randn(1, 2, 3, 3), torch.randn(1, 2, 3, 4)
    logits[:, :, 1:] = lowest
    seen = at_softmax(logits, values).weights()
    torch.testing.assert_close(seen[:, :, 1:], torch.full((1, 2, 2, 3), 1 / 3))
    bias = torch.zeros(1, 2, 3, 3).index_fill_(2, torch.tensor([1]), lowest)
    visible = torch.ones(1, 1, 3, 3, dtype=torch.bool).index_fill_(2, torch.tensor([1]), False)
    call = Call(values, values, values, visible, 1.0, None, bias, False)
    torch.testing.assert_close(call.weights()[:, :, 1], torch.full((1, 2, 3), 1 / 3))
    assert torch.isfinite(call.output()).all()


def test_a_spec_says_where_attention_is_seen():
    """Under the name of the interface such a model hands nothing out."""
    wrong = Spec(**{**vars(spec_for(model("mpnet").config)), "seam": "interface"})
    with pytest.raises(SelfCheckFailed, match="expected one call of the attention interface"):
        run(model("mpnet"), wrong, {"input_ids": torch.tensor([TEXT])}, lambda seen: None)


def test_what_stands_between_two_layers_is_refused():
    """DeBERTa-v2 may put a convolution behind its first layer: no layer is wrong, and the model is another one."""
    config = families.config_of("deberta-v2", conv_kernel_size=3, conv_act="gelu")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = transformers.DebertaV2Model(config).double().eval()
        families.randomize(made)
    with pytest.raises(SelfCheckFailed, match=r"expected layer 1 of .* to read what layer 0 gave"):
        mixlens.load(made)


@pytest.mark.parametrize(
    ("name", "settings"), [("OpenAIGPT", {}), pytest.param("CTRL", {"dff": 44}, marks=pytest.mark.slow)]
)
def test_a_mask_of_minus_10_000_hides_keys_as_others_do(name, settings):
    """GPT's and CTRL's: such a model is a causal language model, and its later tokens are no sources."""
    sizes = {"vocab_size": families.VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 40}
    config = getattr(transformers, f"{name}Config")(**sizes, **settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, "OpenAIGPTLMHeadModel" if name == "OpenAIGPT" else "CTRLLMHeadModel")(config)
        families.randomize(model)
    lens = mixlens.load(model.double().eval())
    assert lens.head.task == "causal"
    maps = lens.mixing(families.text(), method="norm").scores
    assert not bool(maps.triu(1).any()) and float(maps.sum()) > 0
    assert lens.attribute(families.text(), "saliency").scores.shape == (len(families.text()),)


def test_logits_of_any_size_that_a_model_has_stay_visible():
    logits = torch.tensor([[[[0.0, 900.0, -900.0], [5.0, 5.0, -9995.1], [-1e38, -1e38, -1e38]]]])
    call = at_softmax(logits, torch.zeros(1, 1, 3, 2))
    assert call.visible()[0, 0].tolist() == [[True, True, True], [True, True, False], [True, True, True]]
