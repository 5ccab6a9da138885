"""Blank-out: the answer with a token less the answer without it, for every token in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mixlens.attribute.kinds import Occlusion
from mixlens.attribute.readout import Answer, Head, answer
from mixlens.capture.offload import device_of
from mixlens.capture.text import Tokens
from mixlens.capture.words import units
from mixlens.errors import Undefined, UnknownOption
from mixlens.results import Attribution
from mixlens.runners.graph import need_answer
from mixlens.runners.request import Request, provenance, result

TOKENS = 2048  # in one pass on a CPU: more gains nothing and holds more; other devices take whole batches


@dataclass(frozen=True)
class Variant:
    """A text without some of its tokens, where its answer is read, and what is read there."""

    removed: tuple[int, ...]
    tokens: Tokens
    at: int
    answer: Answer


def attributions(lens: Any, ask: Request) -> list[Attribution]:
    """The method's Attribution of every text, a pass a token. Raises TargetError, Undefined, UnknownOption."""
    method = ask.method
    assert isinstance(method, Occlusion)
    need_answer(lens, ask)
    asked = ask.options.get("replace", "unk")
    filler = None if asked == "delete" else replacement(lens, ask.name, asked)
    removed = [pieces(tokens, bool(ask.options.get("words"))) for tokens in ask.texts]
    whole = lens.through(ask.texts, None, batch_size=ask.batch_size, answers=ask.answers)
    total, done, out = sum(map(len, removed)), 0, []
    for read, one, groups in zip(ask.reads, whole, removed, strict=True):
        assert one.logits is not None
        said = answer(lens.head, read, one.logits)
        value = _value(said, one.logits, method)
        scores = torch.zeros(len(one.tokens), dtype=torch.float64, device="cpu")
        made = [variant(lens.head, one.tokens, read.at, said, group, filler) for group in groups]
        variants = [v for v in made if isinstance(v, Variant)]
        done += len(made) - len(variants)
        for some in _chunks(variants, _rows(lens, ask.batch_size, len(one.tokens))):
            there = lens.through([v.tokens for v in some], None, batch_size=len(some), answers=[v.at for v in some])
            for v, without in zip(some, there, strict=True):
                assert without.logits is not None
                scores[list(v.removed)] = (value - _value(v.answer, without.logits, method)) / len(v.removed)
            done += len(some)
            if ask.progress is not None:
                ask.progress(done, total)
        undefined = tuple(i for v in made if not isinstance(v, Variant) for i in v)
        meta = {
            **provenance(lens, one.tokens),
            "of": said.chosen(method.of),
            "value": value,
            "replaced_by": "nothing" if filler is None else _name(lens, filler),
            **({"undefined": undefined} if undefined else {}),
        }
        kind = one.logits[0].dtype if one.logits[0].dtype == torch.float64 else torch.float32
        scores = (scores.abs() if ask.options.get("absolute") else scores).to(kind)
        out.append(result(ask, one.tokens, scores, None, said, meta))
    return out


def replacement(lens: Any, name: str, asked: Any) -> int:
    """The id that is put in a token's place. Raises Undefined, UnknownOption.

    "unk": the unknown token, else the mask token; a tokenizer's unknown token that also begins or ends texts (GPT-2's)
    is none.
    """
    if isinstance(asked, int) and not isinstance(asked, bool):
        size = lens.model.get_input_embeddings().num_embeddings
        if not 0 <= asked < size:
            raise UnknownOption(f"expected replace= a token id of 0 to {size - 1}, got {asked}")
        return asked
    if asked not in ("unk", "mask"):
        raise UnknownOption(f"expected replace='unk', 'mask', 'delete' or a token id for {name}, got {asked!r}")
    unknown, ends = (getattr(lens.tokenizer, f"{t}_token_id", None) for t in ("unk", "eos"))
    if asked == "unk" and unknown is not None and unknown not in (ends, getattr(lens.tokenizer, "bos_token_id", None)):
        return int(unknown)
    if lens.head.mask is not None:
        return int(lens.head.mask)
    raise Undefined(
        f"{name} puts the {'unknown or the mask' if asked == 'unk' else 'mask'} token in a token's place, this model's "
        "tokenizer has none (one that also ends texts is none); use replace='delete', or replace= a token id"
    )


def pieces(tokens: Tokens, words: bool) -> list[tuple[int, ...]]:
    """The tokens that are taken out together: each alone, or all of a word. Raises InputError (no offsets)."""
    return [u.indices for u in units(tokens)] if words else [(i,) for i in range(len(tokens))]


def variant(
    head: Head, tokens: Tokens, at: int, said: Answer, removed: tuple[int, ...], filler: int | None
) -> Variant | tuple[int, ...]:
    """The text without some tokens; only their indices where no answer would be left to read.

    Deleted tokens move those behind them. A causal model without its last token is read at the one before.
    """
    if filler is not None:
        ids = tuple(filler if i in removed else t for i, t in enumerate(tokens.ids))
        return Variant(removed, replace(tokens, ids=ids), at, said)
    kept = [i for i in range(len(tokens)) if i not in removed]
    if not kept:
        return removed
    inputs = {k: v[: len(kept)] if k == "position_ids" else tuple(v[i] for i in kept) for k, v in tokens.inputs.items()}
    short = replace(
        tokens,
        ids=tuple(tokens.ids[i] for i in kept),
        pieces=tuple(tokens.pieces[i] for i in kept),
        special=tuple(tokens.special[i] for i in kept),
        spans=None,
        groups=None,
        inputs=inputs,
    )
    if head.task == "question":
        if set(said.indices) & set(removed):
            return removed
        return Variant(removed, short, 0, replace(said, indices=tuple(kept.index(i) for i in said.indices)))
    if head.task == "sequence":
        return Variant(removed, short, at, said)
    if at in removed and not (head.task == "causal" and kept[0] < at):
        return removed
    return Variant(removed, short, sum(i <= at for i in kept) - 1, said)


def _rows(lens: Any, batch_size: int, n: int) -> int:
    return max(1, min(batch_size, TOKENS // n)) if device_of(lens.model).type == "cpu" else batch_size


def _chunks(variants: list[Variant], size: int) -> Iterator[list[Variant]]:
    """Variants of like length together, so that nothing is padded that need not be."""
    variants = sorted(variants, key=lambda v: -len(v.tokens))
    for start in range(0, len(variants), size):
        yield variants[start : start + size]


def _value(said: Answer, logits: tuple[Tensor, ...], method: Occlusion) -> float:
    return float(said.value(tuple(z.cpu().double() for z in logits), method.of))


def _name(lens: Any, token: int) -> str:
    return str(token) if lens.tokenizer is None else str(lens.tokenizer.convert_ids_to_tokens([token])[0])
