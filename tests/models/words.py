"""Tokenizers for the tiny models: one word a token, `w5` to `w96` by their ids."""

from __future__ import annotations

from functools import cache
from typing import Any

from models.families import CLS, MASK, PAD, SEP, UNK, VOCABULARY


@cache
def tokenizer(special: bool = True) -> Any:
    """A fast tokenizer; with `special` it puts [CLS] and [SEP] around a text, as BERT's does."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = {PAD: "[PAD]", CLS: "[CLS]", SEP: "[SEP]", UNK: "[UNK]", MASK: "[MASK]"}
    vocabulary = {names.get(i, f"w{i}"): i for i in range(VOCABULARY)}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if special:
        core.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
        )
    ends = {"cls_token": "[CLS]", "sep_token": "[SEP]"} if special else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        **ends,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"]
        if special
        else ["input_ids", "attention_mask"],
    )
