"""A text that an encoder-decoder classifies (BART): its encoder reads it, and its decoder again, moved on by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer, Reading, answer, every_class, reading, targets_of
from mixlens.attribute.method import Method
from mixlens.attribute.request import Request
from mixlens.attribute.traced import Traced
from mixlens.capture.joined import joined
from mixlens.capture.text import Tokens, text_of
from mixlens.errors import NotFinite, TargetError, Undefined, UnknownOption
from mixlens.progress import Progress
from mixlens.results import Attribution, Results
from mixlens.subject import Subject
from mixlens.subject.provenance import provenance
from mixlens.subject.read import Texts, read
from mixlens.subject.several import explained
from mixlens.subject.streams import answering, moved_on
from mixlens.target import Target


@dataclass(frozen=True)
class Question:
    """What is asked of every text of a call."""

    name: str
    method: Method
    options: Mapping[str, Any]
    room: Callable[[int], int]  # of so many tokens; raises OverBudget
    progress: Progress | None


def classified(
    subject: Subject, text: Any, target: Any, truncate: bool, skip: bool, ask: Question
) -> Attribution | Results[Any]:
    """Scores of a text's tokens, each the sum of what both of its places have; what the decoder starts from stands
    behind them as a special token. Raises InputError, MethodError.
    """
    encoder = subject.encoder
    texts: Texts = read(text, encoder.model, encoder.tokenizer, encoder.head, encoder.limit, truncate, None)
    goals = every_class(subject.head, target)
    if goals is not None:
        if not texts.single:
            raise TargetError(f"expected one text for target='all', got {len(texts.each)}; ask for each of them")
        (stream,) = texts.require()
        results = [_explained(subject, text_of(stream), goal, ask) for goal in goals]
        return Results(results, names=[str(result.target and result.target.label) for result in results])
    targets = targets_of(target, len(texts.each), texts.single)

    def run(numbers: Sequence[int]) -> list[Attribution]:
        streams = texts.of(numbers)
        return [_explained(subject, text_of(each), targets[i], ask) for i, each in zip(numbers, streams, strict=True)]

    return explained(run, texts.each, texts.single, skip)


def _explained(subject: Subject, text: Tokens, target: Target, ask: Question) -> Attribution:
    """One text. Raises InputError, TargetError, Undefined, NotFinite."""
    if ask.options.get("readout") is not None:
        raise UnknownOption("readout= means nothing here: the answer is read at the decoder's last row; leave it out")
    chosen, n = ask.method, len(text)
    read_by_decoder, row = moved_on(subject, text), answering(subject, text)
    size = ask.room(2 * n)
    both = joined(replace(text, text=(), spans=None), read_by_decoder)
    where = reading(subject.head, text, target)
    given: list[Answer] = []

    def resolve(logits: Tensor) -> list[Answer]:
        given.append(answer(subject.head, Reading(row, 0, True, where.target), (logits[0],)))
        return [given[-1]]

    options = {k: v for k, v in ask.options.items() if k in chosen.options()}
    traced = Traced(subject, options, both, n + row + 1, 1, resolve, ask.progress, batch_size=size, source=n)
    rows = chosen.rows(subject, traced)
    if rows is None:
        raise Undefined(f"{ask.name} has no rows over two streams; use alti, saliency or grad_x_input")
    scores = folded(rows[0], n)
    if not bool(torch.isfinite(scores).all()):
        raise NotFinite(f"expected finite scores, {ask.name} gives NaN or infinity; load the model in float32")
    (resolved_answer,) = traced.answers
    stream = _with_start(text, read_by_decoder)
    request = Request(
        name=ask.name,
        method=chosen,
        options=options,
        texts=[stream],
        reads=[where],
        normalize=bool(ask.options.get("normalize", True)),
        written=dict(ask.options),
    )
    return request.result(stream, scores, None, resolved_answer, provenance(subject, text))


def folded(row: Float[Tensor, " both"], n: int) -> Float[Tensor, " place"]:
    """The scores of a text's `n` tokens, whose decoder's places stand one further on, and of what it starts from."""
    out = torch.cat([row[:n], row[n : n + 1]])
    out[: n - 1] += row[n + 1 :]
    return out


def _with_start(text: Tokens, decoder: Tokens) -> Tokens:
    """The text, and behind it what the decoder starts from."""
    more = {name: (*line, 0) for name, line in text.inputs.items()}
    return replace(
        text,
        ids=(*text.ids, decoder.ids[0]),
        pieces=(*text.pieces, decoder.pieces[0]),
        special=(*text.special, True),
        spans=None if text.spans is None else (*text.spans, None),
        groups=None if text.groups is None else (*text.groups, None),
        roles=None if text.roles is None else (*text.roles, None),
        inputs=more,
    )
