"""Tiny random models of every architecture: float64, all weights, biases and gains random, dimensions all different.

A model is built once and shared by all tests, so no test may change one (`copy.deepcopy` first).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from models.exact import exact_norms

VOCABULARY = 97
PAD, CLS, SEP, UNK, MASK = range(5)
LENGTHS = (9, 4, 7, 6, 1)  # of the texts of a batch

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 44,
    "max_position_embeddings": 40,
    "pad_token_id": PAD,
}
_BERT = {**_SIZES, "type_vocab_size": 2, "hidden_act": "gelu"}
_LLAMA = {**_SIZES, "num_key_value_heads": 2, "head_dim": 10, "bos_token_id": CLS, "eos_token_id": SEP}
_GPTJ = {
    "vocab_size": VOCABULARY,
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "n_inner": 44,
    "n_positions": 40,
    "rotary_dim": 4,
    "pad_token_id": PAD,
    "bos_token_id": CLS,
    "eos_token_id": SEP,
}
_OPT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "ffn_dim": 44,
    "max_position_embeddings": 40,
    "pad_token_id": PAD,
}

_ENCODER = {"base": "Model", "sequence": "ForSequenceClassification", "masked": "ForMaskedLM"}
_ENCODER = {**_ENCODER, "token": "ForTokenClassification"}
_DECODER = {"base": "Model", "sequence": "ForSequenceClassification", "causal": "ForCausalLM"}


@dataclass(frozen=True)
class Family:
    """A configuration. `prefix`: how transformers names its classes. `heads`: head -> ending of a class name."""

    model_type: str
    prefix: str
    settings: Mapping[str, Any]
    heads: Mapping[str, str] = field(default_factory=lambda: _ENCODER)
    attention: str = "sdpa"

    @property
    def causal(self) -> bool:
        """Whether rows see no later keys."""
        return "causal" in self.heads


def _encoder(model_type: str, prefix: str, **settings: Any) -> Family:
    return Family(model_type, prefix, {**_BERT, **settings})


def _decoder(model_type: str, prefix: str, base: Mapping[str, Any], attention: str = "sdpa", **settings: Any) -> Family:
    heads = {head: ending for head, ending in _DECODER.items() if hasattr(transformers, prefix + ending)}
    return Family(model_type, prefix, {**base, **settings}, heads, attention)


_SHIFTED = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "max_position_embeddings": 42}

# Parts of these are computed in float32 whatever the model's type: laws to a float64's precision say nothing of them.
SINGLE = ("deberta", "bloom", "gpt_neo", "mpt")

FAMILIES: dict[str, Family] = {
    "bert": _encoder("bert", "Bert", layer_norm_eps=1e-3),
    "roberta": _encoder("roberta", "Roberta", **_SHIFTED),
    "xlm-roberta": _encoder("xlm-roberta", "XLMRoberta", **_SHIFTED),
    "camembert": _encoder("camembert", "Camembert", **_SHIFTED),
    "electra": _encoder("electra", "Electra", embedding_size=24),
    "albert-groups": _encoder(
        "albert", "Albert", embedding_size=24, num_hidden_groups=2, inner_group_num=1, num_hidden_layers=4
    ),
    "albert-inner": _encoder(
        "albert", "Albert", embedding_size=24, num_hidden_groups=1, inner_group_num=2, num_hidden_layers=2
    ),
    "distilbert": Family(
        "distilbert",
        "DistilBert",
        {
            "vocab_size": VOCABULARY,
            "dim": 32,
            "n_layers": 3,
            "n_heads": 4,
            "hidden_dim": 44,
            "max_position_embeddings": 40,
            "pad_token_id": PAD,
        },
    ),
    "gpt2": Family(
        "gpt2",
        "GPT2",
        {
            "vocab_size": VOCABULARY,
            "n_embd": 32,
            "n_layer": 3,
            "n_head": 4,
            "n_inner": 44,
            "n_positions": 40,
            "pad_token_id": PAD,
            "bos_token_id": SEP,
            "eos_token_id": SEP,
        },
        {**_DECODER, "causal": "LMHeadModel", "token": "ForTokenClassification"},
    ),
    "gpt_neox": _decoder("gpt_neox", "GPTNeoX", _SIZES, rotary_pct=0.5),
    "gpt_neox-sequential": _decoder("gpt_neox", "GPTNeoX", _SIZES, rotary_pct=0.5, use_parallel_residual=False),
    "opt": _decoder("opt", "OPT", _OPT, word_embed_proj_dim=32),
    "opt-post": _decoder("opt", "OPT", _OPT, word_embed_proj_dim=24, do_layer_norm_before=False),
    "llama": _decoder("llama", "Llama", _LLAMA, attention_bias=True, mlp_bias=True),
    "mistral": _decoder("mistral", "Mistral", _LLAMA, sliding_window=3),
    "qwen2": _decoder("qwen2", "Qwen2", {k: v for k, v in _LLAMA.items() if k != "head_dim"}),
    "qwen3": _decoder("qwen3", "Qwen3", _LLAMA, attention_bias=True),
    "gemma2": _decoder(
        "gemma2",
        "Gemma2",
        _LLAMA,
        attention="eager",  # sdpa knows no soft cap
        sliding_window=3,
        attn_logit_softcapping=2.0,
        final_logit_softcapping=5.0,
        query_pre_attn_scalar=13,
        attention_bias=True,
    ),
    "granite": _decoder(
        "granite",
        "Granite",
        _LLAMA,
        attention_multiplier=0.21,
        residual_multiplier=0.6,
        embedding_multiplier=3.0,
        logits_scaling=2.0,
    ),
    "olmo2": _decoder("olmo2", "Olmo2", {k: v for k, v in _LLAMA.items() if k != "head_dim"}),
    "mixtral": _decoder("mixtral", "Mixtral", _LLAMA, intermediate_size=48, num_local_experts=3, num_experts_per_tok=2),
    "qwen3_moe": _decoder(
        "qwen3_moe",
        "Qwen3Moe",
        _LLAMA,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        mlp_only_layers=[1],
    ),
    "gpt_oss": _decoder(
        "gpt_oss",
        "GptOss",
        _LLAMA,
        attention="eager",  # sdpa knows no sinks
        intermediate_size=48,  # grouped products of experts need multiples of 16 bytes
        num_local_experts=3,
        num_experts_per_tok=2,
        sliding_window=3,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    ),
    "mpnet": Family("mpnet", "MPNet", {**_SIZES, **_SHIFTED}, attention="eager"),
    "deberta-v2": Family(
        "deberta-v2",
        "DebertaV2",
        {
            **_SIZES,
            "relative_attention": True,
            "pos_att_type": ["c2p", "p2c"],
            "position_buckets": 8,
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
            "position_biased_input": False,
            "type_vocab_size": 0,
        },
        attention="eager",
    ),
    "modernbert": Family(
        "modernbert",
        "ModernBert",
        {
            **_SIZES,
            "num_hidden_layers": 4,
            "global_attn_every_n_layers": 3,
            "local_attention": 6,
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "bos_token_id": CLS,
            "cls_token_id": CLS,
            "eos_token_id": SEP,
            "sep_token_id": SEP,
        },
    ),
}

# Types that no table of mixlens has: their specs are found.
FOUND: dict[str, Family] = {
    "phi": _decoder("phi", "Phi", _SIZES, partial_rotary_factor=0.5, bos_token_id=CLS, eos_token_id=SEP),
    "gptj": _decoder("gptj", "GPTJ", _GPTJ),
    "stablelm": _decoder("stablelm", "StableLm", {**_SIZES, "num_key_value_heads": 2}),
    "biogpt": _decoder("biogpt", "BioGpt", _SIZES, bos_token_id=CLS, eos_token_id=SEP),
    "gemma3_text": _decoder("gemma3_text", "Gemma3Text", _LLAMA, sliding_window=3, query_pre_attn_scalar=13),
    "xlm-roberta-xl": _encoder("xlm-roberta-xl", "XLMRobertaXL", **_SHIFTED),
    "nomic_bert": _encoder("nomic_bert", "NomicBert"),
}


# One for each way to build a layer: post-LN; positions by ids; one matrix for q, k and v; a parallel layer; norms of
# branches and windows; no first norm in front; a network as a whole; layers that run again; attention at its softmax.
FEATURES = ("bert", "roberta", "gpt2", "gpt_neox", "gemma2", "modernbert", "qwen3_moe", "albert-inner", "deberta-v2")


def each(quick: tuple[str, ...] = FEATURES, of: Iterable[str] = FAMILIES) -> list[Any]:
    """The families as parameters of a test: some in the fast suite, all in the slow one."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in of]


def family(name: str) -> Family:
    """A family by its name, whoever says how its layers are built."""
    return FAMILIES.get(name) or FOUND[name]


def config_of(name: str, **settings: Any) -> Any:
    """A fresh configuration of a family, some settings changed."""
    kind = family(name)
    return getattr(transformers, f"{kind.prefix}Config")(**{**kind.settings, **settings})


def make(
    name: str,
    head: str = "base",
    *,
    dtype: torch.dtype = torch.float64,
    attention: str | None = None,
    seed: int = 0,
    exact: bool = True,
    **settings: Any,
) -> Any:
    """A fresh model in eval mode. `exact`: norms that round to float32 whatever the dtype do so no longer."""
    kind = family(name)
    cls = getattr(transformers, kind.prefix + kind.heads[head])
    config = config_of(name, **settings)
    if dtype == torch.float64:
        config._experts_implementation = "eager"  # grouped products of experts know no float64
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = cls._from_config(config, attn_implementation=attention or kind.attention, dtype=torch.float64)
        randomize(model)
    if exact and dtype == torch.float64:
        exact_norms(model)
    return model.to(dtype).eval()


@torch.no_grad()
def randomize(model: nn.Module) -> None:
    """Random numbers everywhere: gains around what leaves a vector as it is, biases, and the padding rows too."""
    for module in model.modules():
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.ndim > 1:
                fan_in = parameter.shape[0] if type(module).__name__ == "Conv1D" else parameter.shape[-1]
                parameter.normal_(0, 1.5 / fan_in**0.5)
            else:
                parameter.normal_(0, 0.3)
                around_one = key == "weight" and type(module).__name__ != "Gemma2RMSNorm"
                parameter.add_(1.0 if around_one else 0.0)


@cache
def model(name: str, head: str = "base", dtype: torch.dtype = torch.float64, **settings: Any) -> Any:
    """`make`, once for all tests."""
    return make(name, head, dtype=dtype, **settings)


@cache
def lens(name: str, head: str = "base", dtype: torch.dtype = torch.float64, **settings: Any) -> Any:
    """A lens on `model`, once for all tests."""
    import mixlens

    return mixlens.load(model(name, head, dtype, **settings))


def texts(lengths: tuple[int, ...] = LENGTHS, seed: int = 1) -> list[list[int]]:
    """Token ids without special ones, the same for every model."""
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(MASK + 1, VOCABULARY, (n,), generator=g).tolist() for n in lengths]


def text(n: int = LENGTHS[0], seed: int = 1) -> list[int]:
    """One text of `texts`."""
    return texts((n,), seed)[0]
