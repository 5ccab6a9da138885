"""Texts over a model's positions: explained window by window, with one view over the whole.

All windows are asked about the same class (or token, or span), the one that their mean probability picks; the score of
a token is the mean of its scores in the windows that hold it, before scores are divided by their sum. A mean, no sum:
tokens near the ends of a text stand in fewer windows, and would count for less by that alone. Not the one window where
a token has most context: what the others say of it would be lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mixlens.aggregate.shares import normalize_rows
from mixlens.answer import Answer, Reading, answer, reading
from mixlens.answer.spans import best_span, context_of
from mixlens.architectures import TEXT
from mixlens.arguments import is_whole
from mixlens.attribute.method import Method
from mixlens.capture.stream import Stream
from mixlens.capture.text import text_of
from mixlens.capture.windows import TextWindow, windows_of
from mixlens.errors import TargetError, Undefined, UnknownOption
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.head import Head
from mixlens.subject.outputs import EVERY
from mixlens.target import Target

RULE = "mean over the windows that hold a token"
Logits = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Inquiry:
    """A text in windows, and what is asked of them: `chosen`, the numbers of the windows that hold what is asked about;
    `targets`, of each of these; `joined`, the answer of the whole (None: there is none); `answers`, of each window.
    """

    windows: Sequence[TextWindow]
    chosen: Sequence[int]
    targets: Sequence[Target]
    joined: Answer | None
    answers: Mapping[int, Mapping[str, Any]]


def refuse_windows(head: Head, readout: Any) -> None:
    """Raises Undefined, UnknownOption where windows mean nothing."""
    if head.fed != TEXT or head.task == "ctc":
        raise Undefined("window= cuts texts into parts, this model reads none; leave it out")
    if head.task == "causal":
        raise Undefined(
            "window= is of models that answer about a whole text: a language model answers about what comes next, each "
            "window about another; explain the text's last part, or trace its answer with lens.trace"
        )
    if is_whole(readout) and readout not in (0, -1):
        raise UnknownOption(
            f"expected readout= 0, -1, 'mean' or 'max' beside window=, since a row has another token in each, got "
            f"{readout}"
        )


def cut(subject: Subject, text: Stream, window: int, stride: int | None) -> list[TextWindow]:
    """The windows of a text. Raises InputError, UnknownOption."""
    return windows_of(text_of(text), window, stride, subject.limit)


def inquiry(
    subject: Subject, whole: Stream, windows: Sequence[TextWindow], logits: Sequence[Logits | None], target: Target
) -> Inquiry:
    """What is asked of the windows of a text, where their `logits` at `answers_at` are known. Raises TargetError."""
    head = subject.head
    if head.task == "question":
        return _span(head, whole, windows, logits, target)
    read = reading(head, whole, target, rowed=False)
    if not read.answered:
        answer(head, read, None)
        return Inquiry(windows, range(len(windows)), [target] * len(windows), None, {})
    chosen = [number for number, z in enumerate(logits) if z is not None]
    places = _places(head, read)
    _refuse_apart(places, chosen)
    local = [windows[number].at(places) or () for number in chosen]
    parts = [_at(logits[number], inside, read) for number, inside in zip(chosen, local, strict=True)]
    here = replace(read, context=tuple(range(len(places)))) if read.at == EVERY else read
    joined = answer(head, here, tuple(_mean(head, part) for part in zip(*parts, strict=True)))
    goals, answers = [], {}
    for number, inside, part in zip(chosen, local, parts, strict=True):
        goal = _goal(joined, target, inside, read)
        goals.append(goal)
        answers[number] = answer(head, replace(here, target=goal), part).reported
    full = joined.target
    if places:
        full = replace(full, position=target.position if read.at != EVERY else (places[0], places[-1]))
    return Inquiry(windows, chosen, goals, replace(joined, target=full), answers)


def answers_at(subject: Subject, whole: Stream, windows: Sequence[TextWindow], target: Target) -> list[int | None]:
    """Where the answer of each window is read; None where what is asked about is not in it. Raises TargetError."""
    head = subject.head
    if head.task == "question":
        return [0] * len(windows)
    read = reading(head, whole, target, rowed=False)
    if not read.answered:
        return [None] * len(windows)
    places = _places(head, read)
    inside = [window.at(places) for window in windows]
    return [None if at is None else read.at if read.at == EVERY or not places else at[0] for at in inside]


def joined_attribution(
    method: Method, whole: Stream, asking: Inquiry, results: Sequence[Attribution], written: Mapping[str, Any]
) -> Attribution:
    """One Attribution of the whole text, of the raw scores of the windows that were asked."""
    n, first = len(whole), results[0]
    scores = _spread([r.scores for r in results], asking, n)
    layers = None if first.layers is None else _spread([r.layers for r in results if r.layers is not None], asking, n)
    if written.get("normalize", True) and not (method.signed or written.get("signed")):
        scores, layers = normalize_rows(scores), None if layers is None else normalize_rows(layers)
    reported = {} if asking.joined is None else asking.joined.reported
    apart = {"warnings", *reported, *(key for facts in asking.answers.values() for key in facts)}
    meta = {k: v for k, v in first.meta.items() if k not in apart and all(_same(r.meta.get(k), v) for r in results)}
    by_window = dict(zip(asking.chosen, results, strict=True))
    rows = []
    for number, window in enumerate(asking.windows):
        row: dict[str, Any] = {"first": window.first, "last": window.last, "explained": number in by_window}
        row |= asking.answers.get(number, {})
        if number in by_window:
            row |= {k: v for k, v in by_window[number].meta.items() if k not in meta and k not in apart}
        rows.append(row)
    seen = {place for number in asking.chosen for place in asking.windows[number].places}
    unseen = n - len(seen)
    warned = [w for r in results for w in r.meta.get("warnings", ())]
    warned += [] if asking.joined is None else asking.joined.warnings
    if unseen:
        warned.append(
            f"{unseen} of {n} tokens stand in no window with what is asked about: nothing is known of them, their "
            "scores are 0"
        )
    meta |= {**reported, "windows": tuple(rows), "joined": RULE}
    if warned:
        meta["warnings"] = tuple(dict.fromkeys(warned))
    target = first.target if asking.joined is None else asking.joined.target
    return Attribution(whole, scores, first.method, dict(written), meta, target, layers)


def _spread(parts: Sequence[Tensor], asking: Inquiry, n: int) -> Tensor:
    """(..., token) of the whole text: the mean over the windows that hold a token, 0 where none does."""
    total = parts[0].new_zeros(*parts[0].shape[:-1], n)
    count = parts[0].new_zeros(n)
    for number, part in zip(asking.chosen, parts, strict=True):
        places = list(asking.windows[number].places)
        total[..., places] += part
        count[places] += 1
    return total / count.clamp_min(1)


def _places(head: Head, read: Reading) -> tuple[int, ...]:
    """The tokens of the whole text that are asked about; none of a classifier of texts."""
    if read.at == EVERY:
        return read.context
    return (read.at,) if head.task in ("masked", "token") else ()


def _refuse_apart(places: tuple[int, ...], chosen: Sequence[int]) -> None:
    if not chosen:
        raise TargetError(
            f"expected a window that holds all of tokens {places[0]} to {places[-1]}, which are asked about, there is "
            "none; pass a smaller stride= or a larger window="
        )


def _at(logits: Logits | None, inside: tuple[int, ...], read: Reading) -> Logits:
    """The logits of what is asked about."""
    assert logits is not None
    return tuple(logits[i] for i in inside) if read.at == EVERY else logits


def _mean(head: Head, logits: Sequence[Tensor]) -> Tensor:
    """Logits that have the mean of the windows' probabilities (of a regression head: the mean of its outputs)."""
    z = torch.stack([part.detach().double().cpu() for part in logits])
    if head.regression and not head.multilabel:
        return z.mean(0)
    if head.multilabel:
        inside, outside = (torch.nn.functional.logsigmoid(sign * z).logsumexp(0) for sign in (1, -1))
        return inside - outside  # no probability is rounded to 1
    return z.log_softmax(-1).logsumexp(0) - math.log(len(z))


def _goal(joined: Answer, target: Target, inside: tuple[int, ...], read: Reading) -> Target:
    """What a window is asked about: what the whole is, by its class, where that stands in the window."""
    full = joined.target
    label = full.index if full.index is not None else full.label
    if read.at == EVERY:
        return Target(label, target.foil, (inside[0], inside[-1]), target.of)
    return Target(label, full.foil_index, inside[0] if inside else None, target.of)


def _span(
    head: Head, whole: Stream, windows: Sequence[TextWindow], logits: Sequence[Logits | None], target: Target
) -> Inquiry:
    """The likeliest span of all windows, or the one asked for, and the windows that hold it. Raises TargetError."""
    blank = torch.zeros(len(whole), dtype=torch.float64, device="cpu")
    start, end = answer(head, reading(head, whole, target), (blank, blank)).indices  # a span that there is
    spans = {}
    for number, (window, z) in enumerate(zip(windows, logits, strict=True)):
        assert z is not None
        inside = best_span(z[0], z[1], context_of(window.tokens))
        spans[number] = (window.places[inside[0]], window.places[inside[1]]), _chance(z, inside)
    answers: dict[int, dict[str, Any]] = {n: {"answer": span, "probability": p} for n, (span, p) in spans.items()}
    if target.position is None:
        start, end = max(spans.values(), key=lambda pair: pair[1])[0]
    goals: dict[int, Target] = {}
    for number, window in enumerate(windows):
        at, z = window.at((start, end)), logits[number]
        if at is not None and z is not None:
            goals[number] = replace(target, position=(at[0], at[1]))
            answers[number]["target_probability"] = _chance(z, (at[0], at[1]))
    _refuse_apart((start, end), list(goals))
    full = replace(target, position=(start, end), label=f"tokens {start} to {end}")
    top = max(answers[number]["target_probability"] for number in goals)
    joined = Answer(full, (start, end), (start, end), {"answer": (start, end), "probability": top})
    return Inquiry(windows, list(goals), list(goals.values()), joined, answers)


def _chance(logits: Logits, span: tuple[int, int]) -> float:
    """The probability of a start and an end."""
    return float(logits[0].double().softmax(-1)[span[0]] * logits[1].double().softmax(-1)[span[1]])


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)
