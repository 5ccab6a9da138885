"""A tiny chat model: a Llama, its tokenizer with a chat template, and both saved as a folder."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import torch

from models import families, words

# A turn is `[CLS] ROLE words [SEP]`; the roles are words of the vocabulary, so that they pass for text.
ROLES = {"system": "w90", "user": "w91", "assistant": "w92"}
TEMPLATE = (
    "{% for m in messages %}{% if m['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('no role ' + m['role']) }}{% endif %}"
    "{{ '[CLS] ' + {'system': 'w90', 'user': 'w91', 'assistant': 'w92'}[m['role']] + ' ' + m['content'] + ' [SEP] ' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '[CLS] w92 ' }}{% endif %}"
)


@cache
def tokenizer(template: str | None = TEMPLATE) -> Any:
    """The tokenizer of `words` without special tokens of its own around a text; its template's are known as special."""
    own = copy.deepcopy(words.tokenizer(special=False))
    own.add_special_tokens({"bos_token": "[CLS]", "eos_token": "[SEP]"})
    own.chat_template = template
    return own


def folder(path: Path, dtype: torch.dtype = torch.float32, template: str | None = TEMPLATE) -> Path:
    """The model and its tokenizer, saved."""
    families.make("llama", "causal", dtype=dtype, max_position_embeddings=128).save_pretrained(path)
    tokenizer(template).save_pretrained(path)
    return path
