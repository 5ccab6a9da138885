"""The answer of a language model by its own `generate`, on a shadow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from transformers import GenerationConfig

from mixlens.capture.shadow import implementation, shadow
from mixlens.capture.text import Tokens, encode
from mixlens.errors import EmptyInput, InputError, UnknownOption
from mixlens.process import settled
from mixlens.subject import Subject

_NOT_OURS = {  # arguments of generate -> what is to be done instead
    "max_new_tokens": "pass max_new_tokens=",
    "max_length": "pass max_new_tokens=",
    "num_return_sequences": "one answer is traced; call trace once for each",
    "return_dict_in_generate": "the answer's tokens alone are read",
}


@settled
def generated(subject: Subject, prompt: Tokens, max_new_tokens: int, arguments: Mapping[str, Any]) -> Tokens:
    """What the model answers, greedily unless `arguments` of `generate` say otherwise; the end token is left out.

    Raises EmptyInput where it ends at once, UnknownOption for arguments that `generate` does not take.
    """
    model = subject.model
    room = max_new_tokens if subject.limit is None else min(max_new_tokens, subject.limit - len(prompt))
    if room < 1:
        raise InputError(
            f"expected a prompt that leaves room for an answer among {subject.limit} positions, got {len(prompt)} "
            "tokens; shorten it"
        )
    known = vars(GenerationConfig())
    for argument in arguments:
        if argument not in known:  # it would keep it, and nobody read it
            raise UnknownOption(
                f"the model's generate has no argument {argument!r} (see transformers' GenerationConfig)"
            )
        if argument in _NOT_OURS:
            raise UnknownOption(f"generate={{{argument!r}: ...}} is not taken: {_NOT_OURS[argument]}")
    default = getattr(model, "generation_config", None)
    ends = getattr(default, "eos_token_id", None)
    try:
        config = GenerationConfig(
            **{
                "do_sample": False,
                "max_new_tokens": room,
                "eos_token_id": ends,
                "pad_token_id": subject.pad,
                "use_cache": True,
                **arguments,
            }
        )
        twin = shadow(model, implementation(model))
        ids = torch.tensor([prompt.ids], dtype=torch.int64, device=subject.device)
        with torch.no_grad():
            out = twin.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=config)
    except (TypeError, ValueError) as error:
        raise UnknownOption(f"the model's generate refuses {dict(arguments)}: {error}") from None
    except RuntimeError as error:
        if "probability tensor" not in str(error):
            raise
        raise UnknownOption(
            f"the model's generate refuses {dict(arguments)}: {error}; these settings leave nothing to draw from, or "
            "the model gives NaN (load it in float32)"
        ) from None
    answer = out[0, len(prompt) :].tolist()
    ends = config.eos_token_id
    stops = set(ends if isinstance(ends, (list, tuple)) else [ends])
    while answer and answer[-1] in stops:
        answer.pop()
    if not answer:
        raise EmptyInput(
            "expected an answer of at least one token, the model ended its answer at once; pass answer=, or ask "
            "otherwise (a chat model wants chat messages)"
        )
    return as_text(subject, answer)


def as_text(subject: Subject, ids: list[int]) -> Tokens:
    """Generated ids with the text that they say, where the tokenizer makes the same ids of it."""
    tokens = encode(ids, subject.tokenizer, None, pad=subject.head.pad)
    tokens = replace(tokens, padded=0)
    if subject.tokenizer is None:
        return tokens
    text = subject.tokenizer.decode(ids)
    if not text.strip():
        return tokens
    read = encode(text, subject.tokenizer, None, pad=subject.head.pad, template=True)
    return read if read.ids == tokens.ids else tokens
