"""Variants of a text: without some of its tokens, or with others in their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mixlens.answer import Answer
from mixlens.capture.fed import fillers, kind, listed
from mixlens.capture.signal import Signal
from mixlens.capture.stream import Stream
from mixlens.capture.text import text_of
from mixlens.capture.words import units
from mixlens.errors import Undefined, UnknownOption
from mixlens.subject import Subject
from mixlens.subject.head import Head


@dataclass(frozen=True)
class Variant:
    """A text without some of its tokens, where its answer is read, and what is read there."""

    removed: tuple[int, ...]
    tokens: Stream
    at: int
    answer: Answer


Substitute = int | str  # what takes a token's place: its id; a patch's or a frame's: its name


def replacement(subject: Subject, name: str, filler: Any) -> Substitute:
    """What is put in a token's place: its id; or in a patch's or a frame's. Raises Undefined, UnknownOption.

    "unk": the unknown token, else the mask token; a tokenizer's unknown token that also begins or ends texts (GPT-2's)
    is none.
    """
    if fillers(subject.head.fed):
        return signal_filler(subject.head.fed, name, filler)
    if isinstance(filler, int) and not isinstance(filler, bool):
        size = subject.model.get_input_embeddings().num_embeddings
        if not 0 <= filler < size:
            raise UnknownOption(f"expected replace= a token id of 0 to {size - 1}, got {filler}")
        return filler
    if filler not in ("unk", "mask"):
        raise UnknownOption(f"expected replace='unk', 'mask', 'delete' or a token id for {name}, got {filler!r}")
    unknown, ends = (getattr(subject.tokenizer, f"{t}_token_id", None) for t in ("unk", "eos"))
    if (
        filler == "unk"
        and unknown is not None
        and unknown not in (ends, getattr(subject.tokenizer, "bos_token_id", None))
    ):
        return int(unknown)
    if subject.head.mask is not None:
        return int(subject.head.mask)
    raise Undefined(
        f"{name} puts the {'unknown or the mask' if filler == 'unk' else 'mask'} token in a token's place, this "
        "model's tokenizer has none (one that also ends texts is none); use replace='delete', or replace= a token id"
    )


def signal_filler(fed: str, name: str, filler: Any) -> str:
    """What is put in a patch's or a frame's place. Raises UnknownOption."""
    for known in fillers(fed):
        if filler == known:
            return known
    raise UnknownOption(f"expected replace={listed(fillers(fed))} for {name} of a {kind(fed)}, got {filler!r}")


def removal_default(head: Head, of_texts: str = "delete") -> str:
    """How tokens are taken out where nobody says how: as `of_texts` says; patches are made grey, frames silent."""
    return (*fillers(head.fed), of_texts)[0]


def pieces(tokens: Stream, words: bool) -> list[tuple[int, ...]]:
    """The tokens that are taken out together: each alone, or all of a word. Raises InputError (no offsets)."""
    return [u.indices for u in units(tokens)] if words else [(i,) for i in tokens.replaceable]


def variant(
    head: Head, stream: Stream, at: int, answer: Answer, removed: tuple[int, ...], filler: Substitute | None
) -> Variant | tuple[int, ...]:
    """The text without some tokens; only their indices where no answer would be left to read.

    Deleted tokens move those behind them. A causal model without its last token is read at the one before.
    """
    if filler is not None:
        return Variant(removed, without(stream, removed, filler), at, answer)
    kept = [i for i in range(len(stream)) if i not in removed]
    if not kept:
        return removed
    short = without(stream, removed)
    if head.task == "question":
        if set(answer.indices) & set(removed):
            return removed
        return Variant(removed, short, 0, replace(answer, indices=tuple(kept.index(i) for i in answer.indices)))
    if answer.frames is not None:
        if set(answer.frames) & set(removed):
            return removed
        return Variant(removed, short, at, replace(answer, frames=tuple(kept.index(i) for i in answer.frames)))
    if head.task == "sequence":
        return Variant(removed, short, at, answer)
    if at in removed and not (head.task == "causal" and kept[0] < at):
        return removed
    return Variant(removed, short, sum(i <= at for i in kept) - 1, answer)


def without(stream: Stream, removed: Sequence[int], filler: Substitute | None = None) -> Stream:
    """The text without some tokens, or with another in their place. Deleted tokens move those behind them."""
    if isinstance(stream, Signal) and isinstance(filler, str):
        return stream.without(tuple(removed), filler)
    tokens = text_of(stream)
    if isinstance(filler, int):
        return replace(tokens, ids=tuple(filler if i in removed else t for i, t in enumerate(tokens.ids)))
    kept = [i for i in range(len(tokens)) if i not in removed]
    inputs = {k: v[: len(kept)] if k == "position_ids" else tuple(v[i] for i in kept) for k, v in tokens.inputs.items()}
    return replace(
        tokens,
        ids=tuple(tokens.ids[i] for i in kept),
        pieces=tuple(tokens.pieces[i] for i in kept),
        special=tuple(tokens.special[i] for i in kept),
        spans=None,
        groups=None,
        inputs=inputs,
    )
