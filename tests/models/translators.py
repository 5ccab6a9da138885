"""Tiny random encoder-decoders of every family: float64, every weight, bias and gain random, unequal depths."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import transformers

from models import families
from models.exact import exact_norms

SOURCE, TARGET = [*families.text(7), 2], [29, 42, 14, 57]
_TOKENS = {
    **{"vocab_size": families.VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"decoder_start_token_id": 2},
}
_BART = {
    **_TOKENS,
    "d_model": 32,
    **{"encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4, "decoder_attention_heads": 2},
    **{"encoder_ffn_dim": 44, "decoder_ffn_dim": 36, "max_position_embeddings": 40, "forced_eos_token_id": None},
}
_FREE = {k: v for k, v in _BART.items() if k != "forced_eos_token_id"}
# as many layers in both: transformers' own `generate` fails on others
_T5 = {**_TOKENS, "d_model": 32, "d_kv": 10, "d_ff": 44, "num_layers": 3, "num_decoder_layers": 3, "num_heads": 4}


@dataclass(frozen=True)
class Translator:
    """A configuration, and how transformers calls the class with a head."""

    model_type: str
    prefix: str
    settings: dict[str, Any]
    ending: str = "ForConditionalGeneration"
    encoder: int = field(default=2)


TRANSLATORS = {
    "bart": Translator("bart", "Bart", _BART),
    "marian": Translator("marian", "Marian", {**_BART, "decoder_vocab_size": families.VOCABULARY}, "MTModel"),
    "marian-two-vocabularies": Translator(
        "marian",
        "Marian",
        {
            **_BART,
            "decoder_vocab_size": 61,
            "share_encoder_decoder_embeddings": False,
            "tie_word_embeddings": False,
        },
        "MTModel",
    ),
    "mbart": Translator("mbart", "MBart", _BART),
    "plbart": Translator("plbart", "PLBart", _BART),
    "blenderbot": Translator(
        "blenderbot", "Blenderbot", {k: v for k, v in _BART.items() if k != "forced_eos_token_id"}
    ),
    "blenderbot-small": Translator("blenderbot-small", "BlenderbotSmall", _BART),
    "m2m_100": Translator("m2m_100", "M2M100", _FREE),
    "pegasus": Translator("pegasus", "Pegasus", _BART),
    "t5": Translator("t5", "T5", _T5, encoder=3),
    "t5-gated": Translator("t5", "T5", {**_T5, "feed_forward_proj": "gated-gelu"}, encoder=3),
    "mt5": Translator("mt5", "MT5", _T5, encoder=3),
    "umt5": Translator("umt5", "UMT5", _T5, encoder=3),
}
QUICK = ("bart", "t5")  # norms behind and in front; attention with a bias, and without a scale


def make(name: str, dtype: torch.dtype = torch.float64, *, head: bool = True, **settings: Any) -> Any:
    """A fresh model in eval mode."""
    kind = TRANSLATORS[name]
    config = getattr(transformers, f"{kind.prefix}Config")(**{**kind.settings, **settings})
    cls = getattr(transformers, kind.prefix + (kind.ending if head else "Model"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = cls._from_config(config, dtype=torch.float64)
        families.randomize(made)
        bias = getattr(made, "final_logits_bias", None)
        if bias is not None:
            bias.normal_(0, 0.3)
    if dtype == torch.float64:
        exact_norms(made)
    return made.to(dtype).eval()


@cache
def model(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """`make`, once for all tests."""
    return make(name, dtype)


@cache
def lens(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """A lens on `model`, once for all tests."""
    import mixlens

    return mixlens.load(model(name, dtype))
