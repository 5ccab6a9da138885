"""Tiny random decoders that read a memory: layers of two attentions, in every order, and their specs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import transformers
from torch import Tensor

from mixlens.architectures import Attend, Feed, Spec
from mixlens.capture.run import run
from mixlens.decompose import Block
from models import families
from models.exact import exact_norms

TARGET, SOURCE = 5, 7  # positions of the two streams
SIZES = {"vocab_size": families.VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@dataclass(frozen=True)
class Decoder:
    """A configuration of transformers, the model's class, and the spec of its decoder layers."""

    config: str
    model: str
    settings: dict[str, Any]
    spec: Spec


DECODERS = {
    "bart": Decoder(
        "BartConfig",
        "BartModel",
        {
            **SIZES,
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 44,
            "decoder_ffn_dim": 44,
            "max_position_embeddings": 40,
            "decoder_start_token_id": 1,
            "forced_eos_token_id": None,
        },
        Spec(
            layers="decoder.layers",
            chain=(
                Attend("self_attn", "self_attn.out_proj", norm="self_attn_layer_norm"),
                Attend("encoder_attn", "encoder_attn.out_proj", norm="encoder_attn_layer_norm", reads="memory"),
                Feed(("fc1",), "activation_fn", "fc2", norm="final_layer_norm"),
            ),
            order="post",
        ),
    ),
    "bert": Decoder(
        "BertConfig",
        "BertModel",
        {
            **SIZES,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 44,
            "max_position_embeddings": 40,
            "is_decoder": True,
            "add_cross_attention": True,
        },
        Spec(
            layers="encoder.layer",
            chain=(
                Attend("attention.self", "attention.output.dense", norm="attention.output.LayerNorm"),
                Attend(
                    "crossattention.self",
                    "crossattention.output.dense",
                    norm="crossattention.output.LayerNorm",
                    reads="memory",
                ),
                Feed(
                    ("intermediate.dense",), "intermediate.intermediate_act_fn", "output.dense", norm="output.LayerNorm"
                ),
            ),
            order="post",
        ),
    ),
    "gpt2": Decoder(
        "GPT2Config",
        "GPT2Model",
        {
            **SIZES,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_inner": 44,
            "n_positions": 40,
            "add_cross_attention": True,
        },
        Spec(
            layers="h",
            chain=(
                Attend("attn", "attn.c_proj"),
                Attend("crossattention", "crossattention.c_proj", norm="ln_cross_attn", reads="memory"),
                Feed(("mlp.c_fc",), "mlp.act", "mlp.c_proj", norm="ln_2"),
            ),
        ),
    ),
    "t5": Decoder(
        "T5Config",
        "T5Model",
        {
            **SIZES,
            "d_model": 32,
            "d_kv": 10,
            "d_ff": 44,
            "num_layers": 2,
            "num_heads": 4,
            "feed_forward_proj": "gated-gelu",
            "decoder_start_token_id": 0,
        },
        Spec(
            layers="decoder.block",
            chain=(
                Attend("layer.0.SelfAttention", "layer.0.SelfAttention.o"),
                Attend(
                    "layer.1.EncDecAttention", "layer.1.EncDecAttention.o", norm="layer.1.layer_norm", reads="memory"
                ),
                Feed(
                    ("layer.2.DenseReluDense.wi_0", "layer.2.DenseReluDense.wi_1"),
                    "layer.2.DenseReluDense.act",
                    "layer.2.DenseReluDense.wo",
                    norm="layer.2.layer_norm",
                ),
            ),
            norm="rms",
        ),
    ),
}


@cache
def model(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """The model in eval mode, all numbers random."""
    decoder = DECODERS[name]
    config = getattr(transformers, decoder.config)(**decoder.settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = getattr(transformers, decoder.model)._from_config(config, dtype=torch.float64)
        families.randomize(made)
    if dtype == torch.float64:
        exact_norms(made)
    return made.to(dtype).eval()


def inputs(name: str, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Two texts, the second with two positions of padding in its memory."""
    ids, source = (torch.tensor([families.text(n), families.text(n, seed=2)]) for n in (TARGET, SOURCE))
    mask = torch.ones_like(source)
    mask[1, -2:] = 0
    if name in ("bart", "t5"):
        return {"input_ids": source, "attention_mask": mask, "decoder_input_ids": ids}
    states = torch.randn(2, SOURCE, 32, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return {"input_ids": ids, "encoder_hidden_states": states.to(dtype), "encoder_attention_mask": mask}


@torch.no_grad()
def each_block(name: str, do: Callable[[Block], Any], dtype: torch.dtype = torch.float64) -> list[Any]:
    """`do(block)` of every attention of every layer, while that layer's tensors live."""
    spec, out = DECODERS[name].spec, list[Any]()

    def look(seen: Any) -> None:
        out.extend(do(Block(spec, seen, number)) for number in range(len(spec.attends)))

    run(model(name, dtype), spec, inputs(name, dtype), look)
    return out
