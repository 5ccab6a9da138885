"""Tiny random models of two towers, float64, with a tokenizer of a few words and an image processor."""

from __future__ import annotations

from functools import cache
from typing import Any

import tokenizers
import torch
import transformers

from models.families import randomize
from models.pictures import processor

WORDS = "a photo of the red blue cat dog house tree seven".split()
SPECIAL = ("[PAD]", "[UNK]", "[BOS]", "[EOS]")
LIMIT = 24
_TOWER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 44}
KINDS = ("CLIP", "Siglip")
# Older versions hold parts in their towers that are no models of their own.
TOO_OLD = tuple(map(int, transformers.__version__.split(".")[:2])) < (5, 24)


@cache
def tokenizer() -> Any:
    """Whole words, [BOS] in front and [EOS] behind."""
    names = [*SPECIAL, *WORDS]
    # [EOS] has the largest number, by which CLIP finds it
    vocabulary = {name: i for i, name in enumerate(n for n in names if n != "[EOS]")} | {"[EOS]": 49}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[(name, vocabulary[name]) for name in ("[BOS]", "[EOS]")]
    )
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "[BOS]", "eos_token": "[EOS]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **roles)


@cache
def pair_tokenizer() -> Any:
    """Whole words and pairs as BART has them, 2 at the end of each text."""
    vocabulary = {"[PAD]": 0, "[BOS]": 1, "[EOS]": 2, "[UNK]": 3, **{word: 4 + i for i, word in enumerate(WORDS)}}
    raw = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    raw.post_processor = tokenizers.processors.TemplateProcessing(
        single="[BOS] $A [EOS]",
        pair="[BOS] $A [EOS] [EOS] $B [EOS]",
        special_tokens=[("[BOS]", 1), ("[EOS]", 2)],
    )
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "[BOS]", "eos_token": "[EOS]"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **roles)


def make(kind: str, dtype: torch.dtype = torch.float64) -> Any:
    """A fresh model in eval mode."""
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 49}
    text = {**_TOWER, **ids, "vocab_size": 50, "max_position_embeddings": LIMIT, "projection_size": 32}
    vision = {**_TOWER, "image_size": 30, "patch_size": 6, "num_channels": 3}
    config = getattr(transformers, f"{kind}Config")(text_config=text, vision_config=vision)
    if hasattr(config, "projection_dim"):
        config.projection_dim = 16
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, f"{kind}Model")(config).double()
        randomize(model)
    return model.to(dtype).eval()


@cache
def model(kind: str) -> Any:
    """`make`, once for all tests."""
    return make(kind)


@cache
def lens(kind: str) -> Any:
    """A lens on `model`, once for all tests."""
    import mixlens

    return mixlens.load(model(kind), (tokenizer(), processor()))
