"""What an encoder-decoder's decoder reads: the tokens that it starts from, and those of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from mixlens.architectures import decoder_of
from mixlens.capture.given import is_id
from mixlens.capture.joined import joined
from mixlens.capture.text import Tokens
from mixlens.errors import EmptyInput, InputError
from mixlens.subject import Subject
from mixlens.trace.answered import as_text, ids_of


def begun(source: Tokens, start: Sequence[int], subject: Subject) -> Tokens:
    """The source's tokens, and behind them those that the decoder starts from, which are no content."""
    pieces = map(str, start) if subject.tokenizer is None else subject.tokenizer.convert_ids_to_tokens(list(start))
    tokens = Tokens(
        ids=tuple(start),
        pieces=tuple(pieces),
        special=(True,) * len(start),
        text=("",) if source.text else (),
        spans=None if source.spans is None else (None,) * len(start),
    )
    return replace(joined(source, tokens), padded=source.padded)


def read_target(subject: Subject, answer: Any, name: str = "an answer") -> tuple[list[int], Tokens]:
    """What the decoder starts from, and an answer that is given, a str or token ids. Raises InputError."""
    forced = _named(subject, "forced_bos_token_id")
    if isinstance(answer, str):
        start, body = divided(subject, _target_ids(subject, answer, name), forced, name)
        return start, as_text(subject, body, answer.strip())
    ids = ids_of(answer)
    if isinstance(ids, Sequence) and not ids:
        raise EmptyInput(f"expected {name} of at least one token, got none")
    if not isinstance(ids, Sequence) or not all(map(is_id, ids)):
        raise InputError(f"expected {name} as a str or token ids, got {type(answer).__name__}: {answer!r:.60}")
    start, body = divided(subject, [int(i) for i in ids], forced, name)
    return start, as_text(subject, body)


def divided(subject: Subject, ids: Sequence[int], forced: int | None, name: str) -> tuple[list[int], list[int]]:
    """The special tokens that target ids begin with, those that the decoder starts from in front; and the rest.

    `forced`: the token that every answer begins with (a language's), in the place of those. Raises InputError.
    """
    size = decoder_of(subject.model).get_input_embeddings().num_embeddings
    if any(not 0 <= i < size for i in ids):
        raise InputError(f"expected {name} of token ids of 0 to {size - 1} (the decoder's embeddings), got {list(ids)}")
    special, first = _special(subject), start_of(subject)
    leading = list(takewhile({*special, forced}.__contains__, ids))
    body = list(ids[len(leading) :])
    if not body:
        raise EmptyInput(f"expected {name} of at least one token beside special ones, got {list(ids)}")
    rest = leading[1:] if leading[:1] == [first] else leading
    return [first, *(rest if forced is None else [forced])], body


def start_of(subject: Subject) -> int:
    """The token that the decoder starts from. Raises InputError."""
    for key in ("decoder_start_token_id", "bos_token_id"):
        if (token := _named(subject, key)) is not None:
            return token
    raise InputError(
        f"expected {type(subject.model).__name__} to say what its decoder starts from, it does not; set "
        "model.generation_config.decoder_start_token_id"
    )


def _named(subject: Subject, key: str) -> int | None:
    """The token that the model's settings call so; None: none."""
    for settings in (getattr(subject.model, "generation_config", None), subject.model.config):
        if isinstance(token := getattr(settings, key, None), int):
            return token
    return None


def _target_ids(subject: Subject, text: str, name: str) -> list[int]:
    """The ids of a text as the tokenizer makes them for a decoder: special tokens (a language's) in front alone."""
    tokenizer = subject.tokenizer
    if tokenizer is None:
        raise InputError("a text needs a tokenizer: mixlens.load(model, tokenizer), or pass a list of token ids")
    if not text.strip():
        raise EmptyInput(f"expected {name} of at least one token, got an empty text")
    try:
        ids = list(tokenizer(text_target=text)["input_ids"])
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"the tokenizer makes no target of {name}: {type(error).__name__}: {error}; does it want a language "
            "(tokenizer.tgt_lang)? Or pass token ids"
        ) from None
    special = _special(subject)
    while ids and ids[-1] in special:
        ids.pop()
    return ids


def _special(subject: Subject) -> set[int]:
    """The ids that are no content: the tokenizer's special tokens, and those that the model's settings name."""
    tokenizer = subject.tokenizer
    roles = ("pad", "bos", "eos", "decoder_start", "forced_bos")
    named = {i for role in roles if (i := _named(subject, f"{role}_token_id")) is not None}
    content = {getattr(tokenizer, f"{role}_token_id", None) for role in ("unk", "mask")}
    return named | (set(getattr(tokenizer, "all_special_ids", ())) - content)
