"""What the models' passes give of a chunk's texts: every method's scores, and the perturbation curves.

What a text has not is a `Failure` in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.attribute import Random
from mixlens.attribute.removal import asked_about
from mixlens.capture.stream import Stream
from mixlens.evaluation.design import Design, Job, Yardstick
from mixlens.evaluation.explain import Failure, Item, Scores
from mixlens.evaluation.kinds import explain, items
from mixlens.evaluation.perturbed import Curves
from mixlens.evaluation.traced import TracedItem
from mixlens.lens import Lens
from mixlens.measure import Case, Curve
from mixlens.measure.measure import EMBEDDED
from mixlens.target import Target
from mixlens.tasks import Example

Tick = Callable[[float], None]
Read = tuple[int, Example, Stream]
ByText = Sequence["Scores | Failure"]


@dataclass(frozen=True, eq=False)
class Setting:
    """What all chunks have in common."""

    lens: Lens
    design: Design
    target: Any
    batch_size: int
    memory: int | None = None  # bytes; None: what is free at each call
    second: Lens | None = None
    exclude: tuple[str, ...] = ()  # sources left out of every explanation


@dataclass(frozen=True, eq=False)
class Scored:
    """By job and text: the scores; those of each other class; those in a second model.

    `second`: None for a text that the other model calls by another label. `keep`: by text, the tokens that are never
    taken out.
    """

    items: Sequence[Item]
    keep: Sequence[NDArray[np.bool_] | None]
    scores: Mapping[str, ByText]
    others: Mapping[str, Sequence[ByText]]
    second: Mapping[str, Sequence[Scores | Failure | None]]
    curves: Curves


class _Share:
    """The share of a chunk that is done, in steps of one job or half of all curves."""

    def __init__(self, tick: Tick, steps: int) -> None:
        self.tick, self.step, self.done = tick, 1 / max(1, steps), 0.0

    def advance(self, steps: float) -> None:
        self.done += steps * self.step
        self.tick(min(1.0, self.done))

    def within(self, steps: float) -> Tick:
        """For work of so many steps that says its own share."""
        return lambda share: self.tick(min(1.0, self.done + steps * self.step * share))


def scored(setting: Setting, texts: Sequence[Item], tick: Tick) -> Scored:
    """All that the design's measures look at. `tick(share done)`."""
    design = setting.design
    needs = {y.measure.needs for y in design.yardsticks}
    curved = "curve" in needs
    progress = _Share(tick, len(design.jobs) * (1 + ("classes" in needs) + ("second" in needs)) + 2 * curved)
    targets = [item.target for item in texts]
    scores = explain(setting.lens, design.jobs, texts, targets, setting.batch_size, progress.advance, setting.memory)
    shown = {key: design.jobs[key] for key in dict.fromkeys(design.methods.values())}
    others = _other_classes(setting, shown, texts, progress) if "classes" in needs else {}
    second = {} if setting.second is None else _second(setting, setting.second, shown, texts, progress)
    keep = [_kept(setting.lens, item) for item in texts]
    out = Scored(texts, keep, scores, others, second, Curves(setting.lens, texts))
    if curved:
        _pass_curves(design, out)
        out.curves.run(setting.batch_size, progress.within(2))
        progress.advance(2)
    return out


def removed(y: Yardstick, case: Case) -> list[tuple[Any, ...]]:
    """Per level of the measure's curve the tokens that are taken out."""
    assert isinstance(y.measure, Curve)
    return y.measure.removed(case, **y.options)


def may_weaken(y: Yardstick, item: Item) -> bool:
    """Whether what the measure does is done to such an example: embeddings are changed of answers' prompts alone."""
    return y.options.get("replace") not in EMBEDDED or isinstance(item, TracedItem)


def _kept(lens: Lens, item: Item) -> NDArray[np.bool_] | None:
    """What is asked about is never removed: the position, or an answer's first and last token."""
    return asked_about(lens.head.task, item.read.at, item.answer, len(item.tokens))


def _pass_curves(design: Design, chunk: Scored) -> None:
    """Say which changed texts must pass: of every curve, method and text that has scores."""
    for y in design.yardsticks:
        if not isinstance(y.measure, Curve):
            continue
        for label in design.methods:
            for at, rows in enumerate(chunk.scores[design.methods[label]]):
                if isinstance(rows, Failure) or not may_weaken(y, chunk.items[at]):
                    continue
                special = np.array(chunk.items[at].tokens.special, dtype=bool)
                for layer in design.layers(label, y):
                    item = chunk.items[at]
                    case = Case(scores=rows[layer], special=special, keep=chunk.keep[at], units=item.units)
                    chunk.curves.want(at, removed(y, case), y.options["replace"], y.options["mask_pad"])


def _other_classes(
    setting: Setting, jobs: Mapping[str, Job], texts: Sequence[Item], progress: _Share
) -> dict[str, list[list[Scores | Failure]]]:
    """By job and text the same method's scores for each other class."""
    out: dict[str, list[list[Scores | Failure]]] = {key: [[] for _ in texts] for key in jobs}
    classes = len(setting.lens.head.labels)
    targets = [item.target for item in texts]
    for k in range(1, classes):
        goals = [Target((t.what + k) % classes, of=t.of) for t in targets if isinstance(t.what, int)]
        redrawn = {key: _redrawn(job, k) for key, job in jobs.items()}
        scores = explain(setting.lens, redrawn, texts, goals, setting.batch_size, memory=setting.memory)
        for key, by_text in scores.items():
            for classes_of_text, rows in zip(out[key], by_text, strict=True):
                classes_of_text.append(rows)
        progress.advance(len(jobs) / (classes - 1))
    return out


def _second(
    setting: Setting, lens: Lens, jobs: Mapping[str, Job], texts: Sequence[Item], progress: _Share
) -> dict[str, list[Scores | Failure | None]]:
    """By job and text the same method's scores in the second model; None where that one gives another label."""
    batch = setting.batch_size
    examples = [(item.number, item.example, item.tokens) for item in texts]
    answers = items(lens, examples, setting.target, batch, setting.exclude)
    alike: dict[int, Item] = {}
    for at, (answer, item) in enumerate(zip(answers, texts, strict=True)):
        if isinstance(answer, Item) and _alike(answer.answer.target, item.answer.target):
            alike[at] = answer
    redrawn = {key: _redrawn(job, 1) for key, job in jobs.items()}
    chosen = list(alike.values())
    targets = [item.target for item in chosen]
    scores = explain(lens, redrawn, chosen, targets, batch, progress.advance, setting.memory)
    out: dict[str, list[Scores | Failure | None]] = {}
    for key, by_text in scores.items():
        out[key] = [answer if isinstance(answer, Failure) else None for answer in answers]
        for at, rows in zip(alike, by_text, strict=True):
            out[key][at] = rows
    return out


def _alike(target: Target, other: Target) -> bool:
    """Whether two models explain the same: classes by name, since each model has its own order of them."""
    return (target.label, target.position) == (other.label, other.position)


def _redrawn(job: Job, by: int) -> Job:
    """Random scores say something else of every class and model; other methods are what they are."""
    if not isinstance(job.facts, Random):
        return job
    return replace(job, options={**job.options, "seed": job.options.get("seed", 0) + by})
