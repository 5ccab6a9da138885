"""The forms that an answer comes in, ids or a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mixlens.capture.given import as_list
from mixlens.capture.text import Tokens, encode
from mixlens.errors import InputError
from mixlens.subject import Subject


def ids_of(answer: Any) -> Any:
    """Token ids as a list, where they are a tensor, an array or a tokenizer's output of one row; else as it is."""
    if isinstance(answer, Mapping) and "input_ids" in answer:
        answer = rows_of(answer)
    answer = answer.tolist() if hasattr(answer, "tolist") else answer
    one_row = isinstance(answer, (list, tuple)) and len(answer) == 1 and isinstance(answer[0], (list, tuple))
    return answer[0] if one_row else answer


def rows_of(inputs: Mapping[str, Any]) -> list[list[int]]:
    """The token ids of each row of a tokenizer's output, without its padding. Raises InputError."""
    rows, _ = as_list(inputs)
    for row in rows:
        if "position_ids" in row or any(row.get("token_type_ids", ())):
            raise InputError(
                "expected input_ids and attention_mask alone of a prompt or an answer, got also position_ids or "
                "token_type_ids: what stands where follows from prompt and answer; leave them out"
            )
    return [row["input_ids"] for row in rows]


def as_text(subject: Subject, ids: list[int], text: str | None = None) -> Tokens:
    """Ids of an answer with the text that they say (None: what they decode to), where the tokenizer makes the same ids
    of it.
    """
    tokens = encode(ids, subject.tokenizer, None, pad=subject.head.pad)
    tokens = replace(tokens, padded=0)
    if subject.tokenizer is None:
        return tokens
    text = subject.tokenizer.decode(ids) if text is None else text
    if not text.strip():
        return tokens
    read = encode(text, subject.tokenizer, None, pad=subject.head.pad, template=True)
    return read if read.ids == tokens.ids else tokens
