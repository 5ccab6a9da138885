"""One trace: prompt and answer as one text, what the model gives at every row, and a method's scores of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mixlens.aggregate.shares import normalize_rows
from mixlens.answer import Answer, Reading, answer
from mixlens.answer.classes import name as class_name
from mixlens.attribute.calls import attribution_method, attributions, request, room_for
from mixlens.attribute.defaults import default_method
from mixlens.attribute.position import position_rho, warned
from mixlens.attribute.preset import Preset
from mixlens.attribute.traced import Traced, padded
from mixlens.budget import sizes_of
from mixlens.capture.fed import SOUNDS
from mixlens.capture.joined import first as beginning
from mixlens.capture.joined import joined, predicting
from mixlens.capture.text import Tokens
from mixlens.errors import NotFinite, UnknownOption
from mixlens.progress import Progress
from mixlens.results import Trace
from mixlens.subject import EncoderDecoder, Subject
from mixlens.subject.provenance import provenance
from mixlens.target import Target
from mixlens.trace.foil import foils
from mixlens.trace.generate import generated, heard, translated
from mixlens.trace.prompt import read_answer, read_prompt, require_answers, require_room
from mixlens.trace.sounds import read_sound, refuse_documents
from mixlens.trace.sources import excluded
from mixlens.trace.target import begun, read_target

COPIES = 8  # of an answer's logits, at most at once: the pass's and the method's own, their gradient and what it takes


def trace(
    subject: Subject,
    prompt: Any,
    answered: Any = None,
    *,
    method: str | None = None,
    foil: Any = None,
    documents: Mapping[str, str] | None = None,
    max_new_tokens: int = 64,
    generate: Mapping[str, Any] | None = None,
    exclude: str | Sequence[str] = (),
    batch_size: int = 32,
    memory: int | str | None = None,
    progress: Progress | None = None,
    options: Mapping[str, Any] | None = None,
) -> Trace:
    """The Trace of an answer that is given, or generated where it is None (see `Lens.trace`).

    Raises InputError, MethodError, ModelError, OverBudget.
    """
    require_answers(subject)
    name, settings = default_method(subject) if method is None else method, dict(options or {})
    chosen = attribution_method(subject, name, settings)
    if settings.get("readout") is not None:
        raise UnknownOption("readout= means nothing for a trace: each answer token is read where it is predicted")
    options = {k: v for k, v in settings.items() if k in chosen.options()}
    signal = None
    if subject.head.fed in SOUNDS:
        refuse_documents(documents)
        question, signal = read_sound(subject, prompt)
    else:
        question = read_prompt(subject, prompt, documents)
    excluded(question.tokens, None, exclude)  # what it refuses, it refuses before an answer is generated
    chosen.ready(subject, question.tokens, question.documents, options)
    if answered is not None and generate:
        raise UnknownOption(
            "generate= are arguments for an answer that is generated, and one is given: leave either out"
        )
    source = 0
    if isinstance(subject, EncoderDecoder):
        source = len(question.tokens)
        require_room(subject, source, 1)
        if answered is not None:
            start, reply = read_target(subject, answered)
        elif signal is not None:
            start, reply = heard(subject, signal, max_new_tokens, generate or {})
        else:
            start, reply = translated(subject, question.tokens, max_new_tokens, generate or {})
        require_room(subject, source, len(start) + len(reply))
        question = replace(question, tokens=begun(question.tokens, start, subject))
    else:
        reply = (
            generated(subject, question.tokens, max_new_tokens, generate or {})
            if answered is None
            else read_answer(subject, answered)
        )
        require_room(subject, len(question.tokens), len(reply))
    tokens, first = joined(question.tokens, reply), len(question.tokens)
    others = foils(subject, foil, reply)
    out = excluded(question.tokens, reply, exclude)
    beside = row_bytes(subject, len(reply), len(tokens))
    size, _ = room_for(subject, name, chosen, settings, [len(tokens)], memory, batch_size, beside=beside)
    resolve = partial(resolved, subject, reply=reply, others=others, first=first)
    ask = Traced(
        subject, options, tokens, first, len(reply), resolve, progress, question.documents, size, source, signal
    )
    scores = chosen.rows(subject, ask)
    if scores is None:
        assert not source  # who explains two streams has rows of them
        scores = _alone(subject, name, settings, ask, batch_size, memory)
    if not bool(torch.isfinite(scores).all()):
        raise NotFinite(f"expected finite scores, {name} gives NaN or infinity; load the model in float32")
    answers, scores = ask.answers, scores.clone()
    scores.masked_fill_(behind(first, len(reply)), 0.0)
    scores[:, list(out)] = 0.0
    same = tuple(t for t, other in enumerate(others or ()) if other == reply.ids[t])
    scores[list(same)] = 0.0  # target and foil are one token there: nothing speaks for either
    signed = chosen.signed or bool(settings.get("signed"))
    if settings.get("normalize", True) and not signed:
        scores = normalize_rows(scores)
    meta: dict[str, Any] = {
        **provenance(subject, question.tokens, ask.off),
        "class_specific": chosen.class_specific,
        "signed": signed,
        "generated": answered is None,
        **({"documents": dict(question.documents)} if question.documents else {}),
        **({"excluded": out} if out else {}),
        **({"same_as_foil": same} if same else {}),
        **({"source_tokens": source} if source else {}),
        **(_places(scores, first, out) if isinstance(chosen, Preset) and not source else {}),
    }
    return Trace(
        prompt=question.tokens,
        answer=reply,
        scores=scores,
        method=name,
        options=settings,
        meta=meta,
        targets=tuple(a.target for a in answers),
        said=tuple(a.reported for a in answers),
    )


def _places(scores: Tensor, first: int, out: Sequence[int]) -> dict[str, Any]:
    """How much of the rows' order is the sources' places, on the mean, and a warning where that is most of it."""
    kept = [[j for j in range(first + t) if j not in set(out)] for t in range(len(scores))]
    rhos = [rho for row, at in zip(scores, kept, strict=True) if (rho := position_rho(row[at])) is not None]
    if not rhos:
        return {}
    mean = sum(rhos) / len(rhos)
    return {"position_rho": mean, **warned(mean, len(kept[0]))}


def behind(first: int, count: int) -> Tensor:
    """(answer, source): which sources stand behind the row that predicts an answer token."""
    at = torch.arange(first + count, dtype=torch.int64, device="cpu")
    return at > at[predicting(first, count), None]


def row_bytes(subject: Subject, rows: int, size: int) -> int:
    """What the rows of an answer hold beside one text's pass: their logits, some times over, and a layer's terms."""
    sizes = sizes_of(subject)
    return rows * sizes.item * (COPIES * sizes.vocabulary + size * (4 * sizes.heads + sizes.layers))


def resolved(subject: Subject, logits: Tensor, reply: Tokens, others: Sequence[int] | None, first: int) -> list[Answer]:
    """What is explained of each answer token: itself, or itself rather than its foil."""
    answers = []
    for t, (at, token, row) in enumerate(zip(predicting(first, len(reply)), reply.ids, logits, strict=True)):
        other = None if others is None or others[t] == token else others[t]
        given = answer(subject.head, Reading(at, at, True, Target(token, foil=other)), (row,))
        if other is not None:  # by its name, as a reader knows it
            given = replace(given, target=replace(given.target, foil=class_name(subject.head, other)))
        answers.append(given)
    return answers


def _alone(
    subject: Subject, name: str, settings: Mapping[str, Any], ask: Traced, batch_size: int, memory: Any
) -> Tensor:
    """(answer, source): raw scores of each answer token by what stands before it, a text of its own."""
    texts = [beginning(ask.tokens, row + 1) for row in ask.rows]
    targets = [Target(a.target.index, foil=a.target.foil_index) for a in ask.answers]
    raw = request(subject, name, {**settings, "normalize": False}, targets, texts, batch_size, ask.progress, memory)
    (results,) = attributions(subject, [raw])
    return padded([result.scores for result in results], len(ask.tokens))
