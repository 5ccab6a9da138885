"""The specs. Adding an architecture is one function of the config and one line of `SPECS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from mixlens.architectures.spec import FFN, Spec

_BERT = Spec(
    layers="encoder.layer",
    attention="attention.self",
    out="attention.output.dense",
    ffn=FFN(("intermediate.dense",), "intermediate.intermediate_act_fn", "output.dense"),
    ln1="attention.output.LayerNorm",
    ln2="output.LayerNorm",
    order="post",
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
)

_ROBERTA = replace(_BERT, positions="ids")

_DISTILBERT = Spec(
    layers="transformer.layer",
    attention="attention",
    out="attention.out_lin",
    ffn=FFN(("ffn.lin1",), "ffn.activation", "ffn.lin2"),
    ln1="sa_layer_norm",
    ln2="output_layer_norm",
    order="post",
    qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
)


def _albert_layers(base: Any) -> list[Any]:
    """Each group of layers runs as often as it takes for all groups to make the model's depth."""
    groups, depth = base.encoder.albert_layer_groups, base.config.num_hidden_layers
    return [layer for i in range(depth) for layer in groups[i * len(groups) // depth].albert_layers]


_ALBERT = Spec(
    layers=_albert_layers,
    attention="attention",
    out="attention.dense",
    ffn=FFN(("ffn",), "activation", "ffn_output"),
    ln1="attention.LayerNorm",
    ln2="full_layer_layer_norm",
    order="post",
    qkv=("attention.query", "attention.key", "attention.value"),
)

_GPT2 = Spec(
    layers="h",
    attention="attn",
    out="attn.c_proj",
    ffn=FFN(("mlp.c_fc",), "mlp.act", "mlp.c_proj"),
    ln2="ln_2",
)

_GPT_NEOX = Spec(
    layers="layers",
    attention="attention",
    out="attention.dense",
    ffn=FFN(("mlp.dense_h_to_4h",), "mlp.act", "mlp.dense_4h_to_h"),
    ln2="post_attention_layernorm",
    order="parallel",
)

_OPT = Spec(
    layers="decoder.layers",
    attention="self_attn",
    out="self_attn.out_proj",
    ffn=FFN(("fc1",), "activation_fn", "fc2"),
    ln2="final_layer_norm",
    positions="mask",
)

_LLAMA = Spec(
    layers="layers",
    attention="self_attn",
    out="self_attn.o_proj",
    ffn=FFN(("mlp.gate_proj", "mlp.up_proj"), "mlp.act_fn", "mlp.down_proj"),
    ln2="post_attention_layernorm",
    norm="rms",
)

_GEMMA2 = replace(
    _LLAMA,
    ln2="pre_feedforward_layernorm",
    post_attention="post_attention_layernorm",
    post_ffn="post_feedforward_layernorm",
    one_plus=True,
)

_MODERNBERT = Spec(
    layers="layers",
    attention="attn",
    out="attn.Wo",
    ffn=FFN(("mlp.Wi",), "mlp.act", "mlp.Wo", fused=True),
    ln2="mlp_norm",
    bare=True,
)


def _gpt_neox(config: Any) -> Spec:
    return _GPT_NEOX if config.use_parallel_residual else replace(_GPT_NEOX, order="pre")


def _opt(config: Any) -> Spec:
    """OPT-350M is the post-LN one of its family."""
    return _OPT if config.do_layer_norm_before else replace(_OPT, order="post", ln1="self_attn_layer_norm")


SPECS: dict[str, Callable[[Any], Spec]] = {
    "bert": lambda config: _BERT,
    "roberta": lambda config: _ROBERTA,
    "xlm-roberta": lambda config: _ROBERTA,
    "camembert": lambda config: _ROBERTA,
    "electra": lambda config: _BERT,
    "distilbert": lambda config: _DISTILBERT,
    "albert": lambda config: _ALBERT,
    "gpt2": lambda config: _GPT2,
    "gpt_neox": _gpt_neox,
    "opt": _opt,
    "llama": lambda config: _LLAMA,
    "mistral": lambda config: _LLAMA,
    "qwen2": lambda config: _LLAMA,
    "qwen3": lambda config: _LLAMA,
    "gemma2": lambda config: _GEMMA2,
    "modernbert": lambda config: _MODERNBERT,
}

CHOICES: dict[str, tuple[str, tuple[Any, ...]]] = {  # the setting that a family's spec depends on, and its values
    "gpt_neox": ("use_parallel_residual", (True, False)),
    "opt": ("do_layer_norm_before", (True, False)),
}


def variants(kind: str) -> dict[str, Spec]:
    """The specs of a model type by the setting that chooses between them; `{"": spec}` where there is one."""
    if kind not in CHOICES:
        return {"": SPECS[kind](SimpleNamespace())}
    key, values = CHOICES[kind]
    return {f"{key}={value}": SPECS[kind](SimpleNamespace(**{key: value})) for value in values}
