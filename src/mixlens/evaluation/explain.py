"""Attributions of a chunk of texts: each once, together where they share a pass; a bad text fails alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mixlens.answer import Answer, Reading, answer, check_target, reading
from mixlens.attribute.calls import attributions, request, together
from mixlens.attribute.removal import log_probability
from mixlens.capture.stream import Stream
from mixlens.capture.text import text_of
from mixlens.errors import DataError, MissingExtra, UnknownMethod, UnknownOption
from mixlens.evaluation.design import Job
from mixlens.evaluation.given import Given, Question
from mixlens.lens import Lens
from mixlens.subject.head import Head
from mixlens.target import Target
from mixlens.tasks import Example, token_mask
from mixlens.tasks.classes import gold
from mixlens.trace.sources import excluded, in_this

Scores = Mapping[int | None, NDArray[np.float64]]  # layer (None: the whole model) -> (token,)
T = TypeVar("T")
_FATAL = (UnknownMethod, UnknownOption, MissingExtra)  # the call's fault, not a text's


@dataclass(frozen=True)
class Failure:
    """What went wrong with one text."""

    text: str


def failure(error: Exception) -> Failure:
    """The error on one line."""
    return Failure(" ".join(f"{type(error).__name__}: {error}".split())[:500])


@dataclass(frozen=True, eq=False)
class Item:
    """An example that the model can answer: `log_p` is the log-probability of what is explained (NaN: it has none)."""

    number: int
    example: Example
    tokens: Stream
    read: Reading
    answer: Answer
    log_p: float
    wrong: bool = False  # an answer that is given, and the model answers otherwise
    units: NDArray[np.int_] | None = None  # (token,): see `Case`
    exclude: tuple[str, ...] = ()  # sources that are left out: see `trace.sources`

    @property
    def whole(self) -> Stream:
        """What goes through the model."""
        return self.tokens

    @property
    def documents(self) -> Mapping[str, tuple[int, int]]:
        """name -> its tokens [first, last); of a text none."""
        return {}

    @property
    def target(self) -> Target:
        """The very class, tokens or position that every method explains."""
        full = self.answer.target
        if self.answer.merged:
            return Target(full.label, foil=full.foil, position=full.position, of=full.of)
        if self.answer.indices and full.index is not None:
            at = self.read.target.position if self.read.target.position is not None else None
            return Target(full.index, foil=full.foil_index, position=at, of=full.of)
        return full if full.position is None else Target(position=full.position, of=full.of)


def each(run: Callable[[list[int]], list[T]], count: int) -> list[T | Failure]:
    """`run` on all of `count` texts at once; where that fails, on each alone. Raises what is the call's own fault."""
    try:
        return list(run(list(range(count)))) if count else []
    except _FATAL:
        raise
    except Exception as error:
        if count == 1:
            return [failure(error)]
    out: list[T | Failure] = []
    for i in range(count):
        try:
            out += run([i])
        except _FATAL:
            raise
        except Exception as error:
            out.append(failure(error))
    return out


def target_of(example: Example, tokens: Stream, target: Any, head: Head) -> Target:
    """What is explained about an example. Raises DataError, TargetError.

    An agreement example asks for its target rather than its foil; `target="label"` for the gold label (the answer's
    tokens in question answering); anything else is the same for all; None is the prediction.
    """
    if example.target is not None and target in (None, "label"):
        return Target(example.target, foil=example.foil)
    if not (isinstance(target, str) and target == "label"):
        return check_target(target)
    if example.answer is not None and head.task == "question":
        inside = np.flatnonzero(token_mask(text_of(tokens), [example.answer], segment=len(text_of(tokens).text) - 1))
        return Target(position=(int(inside[0]), int(inside[-1])))
    if example.label is None:
        raise DataError(
            f"expected a gold label for target='label', example {example.id!r} has none; "
            "where its column is not found: mixlens.task(..., label='COLUMN'), or --field label=COLUMN"
        )
    return Target(gold(example.label, head.labels.values()))


def items(
    lens: Lens,
    examples: Sequence[tuple[int, Example, Stream]],
    target: Any,
    batch_size: int,
    exclude: Sequence[str] = (),
) -> list[Item | Failure]:
    """Each example with the model's answer to it."""

    def run(members: list[int]) -> list[Item]:
        chosen = [examples[i] for i in members]
        reads = [reading(lens.head, t, target_of(e, t, target, lens.head), rowed=False) for _, e, t in chosen]
        texts = [t for _, _, t in chosen]
        head = all(read.answered for read in reads)
        passes = lens.subject.through(texts, batch_size=batch_size, answers=[r.at for r in reads] if head else None)
        out = []
        for (number, example, tokens), read, output in zip(chosen, reads, passes, strict=True):
            resolved = answer(lens.head, read, output.logits)
            log_p = log_probability(resolved, output.logits)
            out.append(
                Item(
                    number,
                    example,
                    tokens,
                    read,
                    resolved,
                    log_p,
                    exclude=in_this(text_of(tokens), exclude) if exclude else (),
                )
            )
        return out

    return each(run, len(examples))


def explain(
    lens: Lens,
    jobs: Mapping[str, Job],
    chosen: Sequence[Item],
    targets: Sequence[Target],
    batch: int,
    tick: Callable[[int], None] = lambda jobs: None,
    memory: int | None = None,
) -> dict[str, list[Any]]:
    """`Scores` or a `Failure` of each text, by job: its method on the targets, with a score a layer where it has them.

    `tick(jobs done)`. `memory`: bytes to stay inside; None: what is free at each call.
    """
    out: dict[str, list[Any]] = {}
    keys = list(jobs)
    for numbers in together([(job.facts, job.options) for job in jobs.values()]):
        group = [keys[i] for i in numbers]
        out |= _shared(lens, {key: jobs[key] for key in group}, chosen, targets, batch, memory) or {}
        for key in group:
            if key not in out:
                job = jobs[key]
                run = partial(_explain, lens, [job], chosen, targets, batch, memory)
                if isinstance(job.facts, Given):
                    run = partial(_given, lens, job, job.facts, chosen, targets)
                out[key] = [row if isinstance(row, Failure) else row[0] for row in each(run, len(chosen))]
        tick(len(group))
    return {
        key: [kept_sources(row, jobs[key], item) for row, item in zip(out[key], chosen, strict=True)] for key in out
    }


def _given(
    lens: Lens, job: Job, facts: Given, chosen: Sequence[Item], targets: Sequence[Target], members: list[int]
) -> list[list[Any]]:
    """Per text the `Scores` of a function of one's own."""
    questions = [Question(lens, chosen[i].example, chosen[i].tokens, targets[i]) for i in members]
    return [[{None: facts.scores(question, job.options)}] for question in questions]


def kept_sources(scores: Any, job: Job, item: Item) -> Any:
    """The same without the sources that are left out, as in a trace: 0, before rows are divided."""
    if not item.exclude or isinstance(scores, Failure):
        return scores
    out = list(excluded(text_of(item.tokens), None, item.exclude))
    shares = job.options.get("normalize", True) and not (job.facts.signed or job.options.get("signed"))
    left = {}
    for layer, values in scores.items():
        kept = values.copy()
        kept[out] = 0.0
        left[layer] = kept / (kept.sum() or 1.0) if shares else kept
    return left


def _shared(
    lens: Lens,
    jobs: Mapping[str, Job],
    chosen: Sequence[Item],
    targets: Sequence[Target],
    batch: int,
    memory: int | None,
) -> dict[str, list[Scores]] | None:
    """The `Scores` of each text by job, out of passes that they share; None where it must be seen whose a fault is."""
    if len(jobs) == 1 or not chosen:
        return None
    try:
        rows = _explain(lens, list(jobs.values()), chosen, targets, batch, memory, list(range(len(chosen))))
    except _FATAL:
        raise
    except Exception:
        return None
    return {key: [row[k] for row in rows] for k, key in enumerate(jobs)}


def _explain(
    lens: Lens,
    group: Sequence[Job],
    chosen: Sequence[Item],
    targets: Sequence[Target],
    batch: int,
    memory: int | None,
    members: list[int],
) -> list[list[Any]]:
    """Per text the `Scores` of each of the jobs, which share a pass."""
    texts, goals = [chosen[i].tokens for i in members], [targets[i] for i in members]

    def attribute(jobs: Sequence[Job], **more: Any) -> list[list[Any]]:
        asks = []
        for job in jobs:
            values = {**job.options, **more}
            ask = request(lens.subject, job.name, values, goals, texts, batch, None, memory, together=len(jobs))
            asks.append(replace(ask, layered=job.layers))
        return attributions(lens.subject, asks)

    whole = attribute(group)
    out: list[list[dict[int | None, NDArray[np.float64]]]] = [
        [{None: _array(a.scores)} for a in by_text] for by_text in whole
    ]
    asked_again: dict[int, list[int]] = {}  # layer -> numbers of the jobs that take a run for each
    for k, job in enumerate(group):
        if job.layers is not None and job.facts.layers(job.layers) == "again":
            for layer in job.numbers:
                if layer == job.options.get("layer", 0):  # the whole model's is that layer's
                    for scores in out[k]:
                        scores[layer] = scores[None]
                else:
                    asked_again.setdefault(layer, []).append(k)
        elif job.numbers:
            for scores, a in zip(out[k], whole[k], strict=True):
                rows = _array(a.layers)
                scores.update({layer: rows[layer] for layer in job.numbers})
    for layer, numbers in asked_again.items():
        for k, by_text in zip(numbers, attribute([group[k] for k in numbers], layer=layer), strict=True):
            for scores, a in zip(out[k], by_text, strict=True):
                scores[layer] = _array(a.scores)
    return [list(row) for row in zip(*out, strict=True)]


def _array(tensor: torch.Tensor) -> NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()
