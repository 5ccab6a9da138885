"""The specs of the families, and which of several a configuration has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixlens.architectures.spec import Attend, Feed, Network, Spec

BERT = Spec(
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

ROBERTA = replace(BERT, positions="ids")

DISTILBERT = Spec(
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


ALBERT = Spec(
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

GPT2 = Spec(
    layers="h",
    chain=(
        Attend("attn", "attn.c_proj"),
        Feed(("mlp.c_fc",), "mlp.act", "mlp.c_proj", norm="ln_2"),
    ),
)

GPT_NEOX = Spec(
    layers="layers",
    chain=(
        Attend("attention", "attention.dense"),
        Feed(("mlp.dense_h_to_4h",), "mlp.act", "mlp.dense_4h_to_h", norm="post_attention_layernorm"),
    ),
    order="parallel",
)

OPT = Spec(
    layers="decoder.layers",
    chain=(
        Attend("self_attn", "self_attn.out_proj"),
        Feed(("fc1",), "activation_fn", "fc2", norm="final_layer_norm"),
    ),
    positions="mask",
)
OPT_POST = replace(OPT, chain=(replace(OPT.attend, norm="self_attn_layer_norm"), OPT.feed), order="post")

LLAMA = Spec(
    layers="layers",
    chain=(
        Attend("self_attn", "self_attn.o_proj"),
        Feed(("mlp.gate_proj", "mlp.up_proj"), "mlp.act_fn", "mlp.down_proj", norm="post_attention_layernorm"),
    ),
    norm="rms",
)

GEMMA2 = replace(
    LLAMA,
    chain=(
        replace(LLAMA.attend, branch_norm="post_attention_layernorm"),
        replace(LLAMA.feed, norm="pre_feedforward_layernorm", branch_norm="post_feedforward_layernorm"),
    ),
    one_plus=True,
)

MIXTURE = replace(LLAMA, chain=(LLAMA.attend, Network("mlp", norm="post_attention_layernorm")))

OLMO2 = replace(
    LLAMA,
    chain=(
        replace(LLAMA.attend, branch_norm="post_attention_layernorm"),
        replace(LLAMA.feed, norm=None, branch_norm="post_feedforward_layernorm"),
    ),
)

GRANITE = replace(LLAMA, chain=tuple(replace(part, scale="residual_multiplier") for part in (LLAMA.attend, LLAMA.feed)))

MODERNBERT = Spec(
    layers="layers",
    chain=(
        Attend("attn", "attn.Wo"),
        Feed(("mlp.Wi",), "mlp.act", "mlp.Wo", norm="mlp_norm", fused=True),
    ),
    bare=True,
)


# Models that call no attention interface.
DEBERTA = replace(BERT, chain=(replace(BERT.attend, qkv=None), BERT.feed), seam="softmax")

MPNET = replace(
    DEBERTA,
    chain=(Attend("attention.attn", "attention.attn.o", norm="attention.LayerNorm"), BERT.feed),
    positions="ids",
)

BLOOM = Spec(
    layers="h",
    chain=(
        Attend("self_attention", "self_attention.dense"),
        Feed(("mlp.dense_h_to_4h",), "mlp.gelu_impl", "mlp.dense_4h_to_h", norm="post_attention_layernorm"),
    ),
    seam="softmax",
    positions="mask",
)

GPT_NEO = replace(GPT2, chain=(Attend("attn.attention", "attn.attention.out_proj"), GPT2.feed), seam="softmax")

MPT = Spec(
    layers="blocks",
    chain=(Attend("attn", "attn.out_proj"), Feed(("ffn.up_proj",), "ffn.act", "ffn.down_proj", norm="norm_2")),
    seam="softmax",
)

FALCON = Spec(
    layers="h",
    chain=(
        Attend("self_attention", "self_attention.dense"),
        Feed(("mlp.dense_h_to_4h",), "mlp.act", "mlp.dense_4h_to_h", norm="input_layernorm"),
    ),
    order="parallel",
    seam="softmax",
)


def falcon(config: Any) -> Spec:
    """Parallel sub-blocks of one norm or of two, or one behind the other."""
    new = getattr(config, "new_decoder_architecture", False)
    norm = "ln_mlp" if new and config.num_ln_in_parallel_attn != 1 else "input_layernorm"
    sequential = not (config.parallel_attn or new)
    feed = replace(FALCON.feed, norm="post_attention_layernorm" if sequential else norm)
    return replace(FALCON, chain=(FALCON.attend, feed), order="pre" if sequential else "parallel")


def gpt_neox(config: Any) -> Spec:
    """Parallel sub-blocks, or one behind the other."""
    return GPT_NEOX if config.use_parallel_residual else replace(GPT_NEOX, order="pre")


def opt(config: Any) -> Spec:
    """OPT-350M is the post-LN one of its family."""
    return OPT if config.do_layer_norm_before else OPT_POST
