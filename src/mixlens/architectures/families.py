"""The specs. Adding an architecture is one function of the config and one line of `SPECS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from mixlens.architectures.spec import Attend, Feed, Spec

_BERT = Spec(
    layers="encoder.layer",
    chain=(
        Attend(
            attention="attention.self",
            out="attention.output.dense",
            norm="attention.output.LayerNorm",
            qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
        ),
        Feed(("intermediate.dense",), "intermediate.intermediate_act_fn", "output.dense", norm="output.LayerNorm"),
    ),
    order="post",
)

_ROBERTA = replace(_BERT, positions="ids")

_DISTILBERT = Spec(
    layers="transformer.layer",
    chain=(
        Attend(
            attention="attention",
            out="attention.out_lin",
            norm="sa_layer_norm",
            qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        ),
        Feed(("ffn.lin1",), "ffn.activation", "ffn.lin2", norm="output_layer_norm"),
    ),
    order="post",
)


def _albert_layers(base: Any) -> list[Any]:
    """Each group of layers runs as often as it takes for all groups to make the model's depth."""
    groups, depth = base.encoder.albert_layer_groups, base.config.num_hidden_layers
    return [layer for i in range(depth) for layer in groups[i * len(groups) // depth].albert_layers]


_ALBERT = Spec(
    layers=_albert_layers,
    chain=(
        Attend(
            attention="attention",
            out="attention.dense",
            norm="attention.LayerNorm",
            qkv=("attention.query", "attention.key", "attention.value"),
        ),
        Feed(("ffn",), "activation", "ffn_output", norm="full_layer_layer_norm"),
    ),
    order="post",
)

_GPT2 = Spec(
    layers="h",
    chain=(
        Attend("attn", "attn.c_proj"),
        Feed(("mlp.c_fc",), "mlp.act", "mlp.c_proj", norm="ln_2"),
    ),
)

_GPT_NEOX = Spec(
    layers="layers",
    chain=(
        Attend("attention", "attention.dense"),
        Feed(("mlp.dense_h_to_4h",), "mlp.act", "mlp.dense_4h_to_h", norm="post_attention_layernorm"),
    ),
    order="parallel",
)

_OPT = Spec(
    layers="decoder.layers",
    chain=(
        Attend("self_attn", "self_attn.out_proj"),
        Feed(("fc1",), "activation_fn", "fc2", norm="final_layer_norm"),
    ),
    positions="mask",
)
_OPT_POST = replace(_OPT, chain=(replace(_OPT.attend, norm="self_attn_layer_norm"), _OPT.feed), order="post")

_LLAMA = Spec(
    layers="layers",
    chain=(
        Attend("self_attn", "self_attn.o_proj"),
        Feed(("mlp.gate_proj", "mlp.up_proj"), "mlp.act_fn", "mlp.down_proj", norm="post_attention_layernorm"),
    ),
    norm="rms",
)

_GEMMA2 = replace(
    _LLAMA,
    chain=(
        replace(_LLAMA.attend, branch_norm="post_attention_layernorm"),
        replace(_LLAMA.feed, norm="pre_feedforward_layernorm", branch_norm="post_feedforward_layernorm"),
    ),
    one_plus=True,
)

_MODERNBERT = Spec(
    layers="layers",
    chain=(
        Attend("attn", "attn.Wo"),
        Feed(("mlp.Wi",), "mlp.act", "mlp.Wo", norm="mlp_norm", fused=True),
    ),
    bare=True,
)


def _gpt_neox(config: Any) -> Spec:
    return _GPT_NEOX if config.use_parallel_residual else replace(_GPT_NEOX, order="pre")


def _opt(config: Any) -> Spec:
    """OPT-350M is the post-LN one of its family."""
    return _OPT if config.do_layer_norm_before else _OPT_POST


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
