"""Answers of language models as examples: a method's scores of a whole answer over its prompt, and what is left of it.

A prompt token's score is the sum of its scores over the answer's tokens, as `Lens.trace` gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from mixlens.answer import Answer, Reading
from mixlens.attribute.removal import ELSEWHERE, TOKENS, log_probability
from mixlens.attribute.variants import Variant
from mixlens.capture.joined import joined, predicting
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens, text_of
from mixlens.evaluation.design import Job
from mixlens.evaluation.explain import Failure, Item, Scores, each, kept_sources
from mixlens.evaluation.explain import explain as explain_texts
from mixlens.evaluation.given import Given, Question
from mixlens.lens import Lens
from mixlens.results.units import prompt_units
from mixlens.subject import Subject
from mixlens.subject.rows import logits_at, row_logits
from mixlens.target import Target
from mixlens.tasks import Example
from mixlens.trace.calls import resolved, trace
from mixlens.trace.foil import foils
from mixlens.trace.generate import generated
from mixlens.trace.prompt import read_answer, read_prompt, require_room
from mixlens.trace.sources import in_this

GENERATED = 64  # tokens, where an example has no answer of its own


@dataclass(frozen=True, eq=False, kw_only=True)
class TracedItem(Item):
    """An answer and its prompt, whose tokens are `tokens`; `log_p` is of all of the answer.

    `answer`, `read`: of its first token.
    """

    reply: Tokens
    answers: tuple[Answer, ...]
    named: Mapping[str, tuple[int, int]]

    @property
    def documents(self) -> Mapping[str, tuple[int, int]]:
        """name -> its tokens [first, last) in the prompt."""
        return self.named

    @property
    def whole(self) -> Tokens:
        """What goes through the model: the prompt, and the answer behind it."""
        return joined(text_of(self.tokens), self.reply)


def items(
    lens: Lens, examples: Sequence[tuple[int, Example, Stream]], exclude: Sequence[str] = ()
) -> list[Item | Failure]:
    """Each example with its answer, given or generated."""
    subject = lens.subject
    return [each(partial(_items, subject, number, example, exclude), 1)[0] for number, example, _ in examples]


def _items(subject: Subject, number: int, example: Example, exclude: Sequence[str], members: list[int]) -> list[Item]:
    prompt = read_prompt(subject, example.prompt, example.documents)
    left_out = in_this(prompt.tokens, exclude)
    reply = (
        generated(subject, prompt.tokens, GENERATED, {})
        if example.answer is None
        else read_answer(subject, example.answer)
    )
    first = len(prompt.tokens)
    require_room(subject, first, len(reply))
    others = foils(subject, example.foil, reply)
    logits = row_logits(subject, joined(prompt.tokens, reply), predicting(first, len(reply)))
    answers = tuple(resolved(subject, logits, reply, others, first))
    read = Reading(first - 1, first - 1, True, Target(reply.ids[0]))
    log_p = log_probability_of(answers, logits)
    facts: Any = {"wrong": _wrong(answers, logits), "units": _units(prompt.tokens, example, prompt.documents)}
    known: Any = {"reply": reply, "answers": answers, "named": prompt.documents, "exclude": left_out}
    return [TracedItem(number, example, prompt.tokens, read, answers[0], log_p, **facts, **known)]


def _wrong(answers: Sequence[Answer], logits: Tensor) -> bool:
    """Whether the model says otherwise: rather the foil, or without one another token somewhere."""
    sides = [(z, a.indices[0], a.target.foil_index) for a, z in zip(answers, logits, strict=True)]
    against = [float(z[i] - z[foil]) for z, i, foil in sides if foil is not None]
    return sum(against) <= 0 if against else any(int(z.argmax()) != i for z, i, _ in sides)


def log_probability_of(answers: Sequence[Answer], logits: Tensor) -> float:
    """ln p of an answer; against a foil, of the tokens in which the two differ."""
    differ = any(a.target.foil_index is not None for a in answers)
    return sum(
        log_probability(a, (z,))
        for a, z in zip(answers, logits, strict=True)
        if not differ or a.target.foil_index is not None
    )


def _units(tokens: Tokens, example: Example, documents: Mapping[str, tuple[int, int]]) -> Any:
    """(token,): the unit that each is of, -1: none; None: each is one. Raises Undefined, UnknownOption, InputError."""
    if example.units is None:
        return None
    named = example.units == "document" or not isinstance(example.units, str)
    by: Any = example.units
    if not isinstance(by, str):
        by = {str(k): span for k, span in enumerate(by)}
    units = prompt_units(tokens, by, documents)
    count = len(documents if example.units == "document" else example.units) if named else len(units)
    out = np.full(len(tokens), -1)
    for number, unit in enumerate(units[:count]):  # (behind named ones stands what they leave)
        out[list(unit.indices)] = number
    return out


def explain(
    lens: Lens,
    jobs: Mapping[str, Job],
    chosen: Sequence[TracedItem],
    batch: int,
    tick: Callable[[int], None],
    memory: int | None,
) -> dict[str, list[Scores | Failure]]:
    """By job the scores of each answer over its prompt.

    An answer of one token is its prompt's next token: such prompts are texts, that share batches and passes.
    """
    out: dict[str, list[Scores | Failure]] = {key: [Failure("")] * len(chosen) for key in jobs}
    short = {key: job for key, job in jobs.items() if _of_texts(job)}
    at = [i for i, item in enumerate(chosen) if _one_token(item)] if short else []
    if at:
        texts = [chosen[i] for i in at]
        by_job = explain_texts(lens, short, texts, [item.target for item in texts], batch, memory=memory)
        for key, rows in by_job.items():
            for i, scores in zip(at, rows, strict=True):
                out[key][i] = scores
    longer = sorted(set(range(len(chosen))) - set(at))
    for key, job in jobs.items():
        for i in longer if key in short else range(len(chosen)):
            (out[key][i],) = each(partial(_scores, lens, job, chosen[i], batch, memory), 1)
        tick(1)
    return out


def _of_texts(job: Job) -> bool:
    """Whether a method asks no more of an answer than of a text: neither its span nor the prompt's documents."""
    return not isinstance(job.facts, Given) and job.options.get("readout") is None and "span" not in job.facts.options()


def _one_token(item: TracedItem) -> bool:
    """Whether an answer is one token, which no foil repeats."""
    return len(item.answers) == 1 and (item.example.foil is None or item.answer.target.foil_index is not None)


def _scores(lens: Lens, job: Job, item: TracedItem, batch: int, memory: int | None, members: list[int]) -> list[Scores]:
    example = item.example
    if isinstance(job.facts, Given):
        question = Question(lens, example, item.tokens, answer=item.reply.ids, foil=_foil(item))
        return [kept_sources({None: job.facts.scores(question, job.options)}, job, item)]
    given = example.answer if example.answer is not None else list(item.reply.ids)
    settings: dict[str, Any] = {"foil": example.foil, "documents": example.documents, "options": job.options}
    settings["exclude"] = item.exclude
    traced = trace(lens.subject, example.prompt, given, method=job.name, batch_size=batch, memory=memory, **settings)
    return [{None: traced.scores[:, : len(item.tokens)].detach().cpu().double().sum(0).numpy()}]


def _foil(item: TracedItem) -> tuple[int, ...] | None:
    """The token ids that the answer is held against: the answer's own where the two do not differ."""
    if item.example.foil is None:
        return None
    others = [a.target.foil_index for a in item.answers]
    return tuple(i if other is None else other for i, other in zip(item.reply.ids, others, strict=True))


# --- perturbation ---


def left(subject: Subject, texts: Sequence[tuple[TracedItem, Variant | None]], batch_size: int) -> list[float]:
    """ln p of each answer behind its changed prompt, in order; NaN for None."""
    out = [float("nan")] * len(texts)
    for placed in (False, True):  # own positions are for all texts of a batch or for none
        there = [
            (i, item, v)
            for i, (item, v) in enumerate(texts)
            if v is not None and ("position_ids" in v.tokens.inputs) == placed
        ]
        budget = TOKENS.get(subject.device.type, ELSEWHERE)
        sizes = partial(size_of, batch_size, budget)
        for batch in subject.batches([v.tokens for _, _, v in there], sizes) if there else ():
            variants = [there[k] for k in batch.members]
            rows = [predicting(v.at + 1, len(item.reply)) for _, item, v in variants]
            for (i, item, _), logits in zip(variants, logits_at(subject, batch.inputs, rows), strict=True):
                out[i] = log_probability_of(item.answers, logits)
    return out


def size_of(batch_size: int, budget: int, longest: int) -> int:
    """How many texts go through at a time: `batch_size`, or as many as make a pass worth its start."""
    return max(batch_size, budget // longest)
