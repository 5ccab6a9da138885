"""A chunk of examples to numbers: one value a column of the plan and example."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.attribute import Random
from mixlens.attribute.removal import asked_about
from mixlens.capture.text import Tokens
from mixlens.errors import DataError, Undefined, UnknownMethod, UnknownOption
from mixlens.evaluation.explain import Failure, Item, Scores, explain, failure, items
from mixlens.evaluation.perturbed import Curves
from mixlens.evaluation.plan import MODEL, Job, Plan, Yardstick, levels
from mixlens.evaluation.vectors import collect
from mixlens.measure import Case, Curve
from mixlens.measure.confidence import need_classes
from mixlens.target import Target
from mixlens.tasks import Example, token_mask

Tick = Callable[[float], None]
Read = tuple[int, Example, Tokens]


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept of one example: a value a column (NaN: undefined), and which methods failed, with the reason.

    `error`: the example could not be evaluated at all.
    """

    number: int
    id: str
    values: Sequence[float] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)  # what a measure of a corpus keeps of it


@dataclass(frozen=True, eq=False)
class Setting:
    """What all chunks have in common."""

    lens: Any
    plan: Plan
    target: Any
    batch_size: int
    memory: int | None = None  # bytes; None: what is free at each call
    second: Any = None


def records(setting: Setting, examples: Sequence[Read], tick: Tick) -> list[Record]:
    """A Record an example, in order. `tick(share done)`."""
    if not setting.plan.methods:
        out = [Record(n, e.id, facts={"tokens": len(t), "label": e.label}) for n, e, t in examples]
        return _keep(setting, examples, out)
    found = items(setting.lens, examples, setting.target, setting.batch_size)
    good = [one for one in found if isinstance(one, Item)]
    values = iter(_Chunk(setting, good, tick).records())
    out = [
        Record(number, example.id, error=one.text) if isinstance(one, Failure) else next(values)
        for (number, example, _), one in zip(examples, found, strict=True)
    ]
    return _keep(setting, examples, out)


def _keep(setting: Setting, examples: Sequence[Read], out: list[Record]) -> list[Record]:
    """The same with what the measures of a corpus keep of each text."""
    for y in setting.plan.corpora:
        chosen = [i for i, record in enumerate(out) if record.error is None]
        texts = [examples[i][1:] for i in chosen]
        for i, kept in zip(chosen, collect(setting.lens, y, texts, setting.target, setting.batch_size), strict=True):
            if isinstance(kept, Failure):
                out[i] = replace(out[i], errors={**out[i].errors, f"{y.name} {MODEL}": kept.text})
            else:
                out[i] = replace(out[i], kept={**out[i].kept, y.name: kept})
    return out


class _Chunk:
    def __init__(self, setting: Setting, good: list[Item], tick: Tick) -> None:
        self.setting, self.good, self.tick = setting, good, tick
        self.plan, self.lens = setting.plan, setting.lens
        self.targets = [one.target for one in good]
        needs = {y.measure.needs for y in self.plan.yardsticks}
        self.curved = "curve" in needs
        passes = len(self.plan.jobs) * (1 + ("classes" in needs) + ("second" in needs)) + 2 * self.curved
        self.step, self.done = 1 / max(1, passes), 0.0
        advance = self._advance
        self.scores = explain(
            self.lens, self.plan.jobs, good, self.targets, setting.batch_size, advance, setting.memory
        )
        shown = {key: self.plan.jobs[key] for key in dict.fromkeys(self.plan.methods.values())}
        self.others = self._other_classes(shown) if "classes" in needs else {}
        self.second = self._second(shown) if "second" in needs else {}
        self.curves = Curves(self.lens, good)
        if self.curved:
            self._pass_curves()

    def records(self) -> list[Record]:
        out = []
        for at, item in enumerate(self.good):
            values, errors = self._values(at)
            target = item.said.target
            facts = {
                "tokens": len(item.tokens),
                "label": item.example.label,
                "target": target.label if target.label is not None else target.index,
                "prediction": item.said.said.get("prediction"),
                "log_p": item.log_p,
            }
            out.append(Record(item.number, item.example.id, values, errors, None, facts))
        return out

    def _advance(self, steps: float) -> None:
        self.done += steps * self.step
        self.tick(min(1.0, self.done))

    def _values(self, at: int) -> tuple[list[float], dict[str, str]]:
        """All columns of one example, in the plan's order; what fails is NaN and named."""
        values: list[float] = []
        errors: dict[str, str] = {}
        for y in self.plan.yardsticks:
            masks: dict[str, Any] | Failure = self._masks(y, at)
            for label in self.plan.methods:
                layers = self.plan.layers(label, y)
                count = levels(y) if isinstance(y.measure, Curve) else 0
                try:
                    if isinstance(masks, Failure):
                        raise _Failed(masks.text)
                    cases = [self._case(y, label, layer, at, masks) for layer in layers]
                    values += [_value(y, case) for case in cases]
                    values += _curve(cases[0], count)
                except _Failed as error:
                    errors[f"{y.name} {label}"] = str(error)
                    values += [float("nan")] * (len(layers) + count)
        return values, errors

    def _case(self, y: Yardstick, label: str, layer: int | None, at: int, masks: Mapping[str, Any]) -> Case:
        key, item = self.plan.methods[label], self.good[at]
        case = Case(
            scores=_rows(self.scores[key][at])[layer],
            special=np.array(item.tokens.special, dtype=bool),
            pieces=item.tokens.pieces,
            keep=self._kept(item),
            **masks,
        )
        if y.reference_key is not None:
            case = replace(case, reference=_rows(self.scores[y.reference_key][at])[None])
        if y.measure.needs == "classes":
            _need_class(item, label)
            case = replace(case, others=tuple(_rows(other)[layer] for other in self.others[key][at]))
        if y.measure.needs == "second":
            other = self.second[key][at]
            case = replace(case, second=None if other is None else _rows(other)[layer])
        if isinstance(y.measure, Curve):
            removed = y.measure.removed(case, **y.options)
            case = replace(case, curve=self.curves.curve(at, removed, y.options["replace"], y.options["mask_pad"]))
        return case

    def _kept(self, item: Item) -> NDArray[np.bool_] | None:
        """What is asked about is never removed: the position, or an answer's first and last token."""
        return asked_about(self.lens.head.task, item.read.at, item.said, len(item.tokens))

    def _masks(self, y: Yardstick, at: int) -> dict[str, Any] | Failure:
        """The tokens that the example marks for this measure."""
        needs, item = y.measure.needs, self.good[at]
        pieces: Any = y.spans.get("pieces")
        e, tokens = item.example, item.tokens
        try:
            if needs == "cue":
                if y.spans["spans"] not in ("cue", "phrase"):
                    raise UnknownOption(f"expected spans='cue' or 'phrase', got {y.spans['spans']!r}")
                return {"cue": token_mask(tokens, getattr(e, y.spans["spans"]), pieces=pieces) > 0}
            if needs == "rationale":
                if e.rationale is None:
                    raise DataError(f"{y.measure.name} needs a rationale, example {e.id!r} has none")
                return {"rationale": token_mask(tokens, e.rationale, pieces=pieces)}
            if needs == "answer":
                if e.answer is None:
                    raise DataError(f"{y.measure.name} needs an answer, example {e.id!r} has none")
                return {"answer": token_mask(tokens, [e.answer], segment=len(tokens.text) - 1, pieces=pieces) > 0}
        except DataError as error:
            return failure(error)
        return {}

    def _pass_curves(self) -> None:
        for y in self.plan.yardsticks:
            if not isinstance(y.measure, Curve):
                continue
            for label in self.plan.methods:
                for at in range(len(self.good)):
                    rows = self.scores[self.plan.methods[label]][at]
                    if isinstance(rows, Failure):
                        continue
                    for layer in self.plan.layers(label, y):
                        special = np.array(self.good[at].tokens.special, dtype=bool)
                        case = Case(scores=rows[layer], special=special, keep=self._kept(self.good[at]))
                        removed = y.measure.removed(case, **y.options)
                        self.curves.want(at, removed, y.options["replace"], y.options["mask_pad"])
        before = self.done
        self.curves.run(self.setting.batch_size, lambda share: self.tick(min(1.0, before + 2 * self.step * share)))
        self._advance(2.0)

    def _other_classes(self, jobs: Mapping[str, Job]) -> dict[str, list[list[Any]]]:
        """By job and text the same method's scores for each other class."""
        out: dict[str, list[list[Any]]] = {key: [[] for _ in self.good] for key in jobs}
        classes = len(self.lens.head.labels)
        for k in range(1, classes):
            goals = [Target((t.what + k) % classes, of=t.of) for t in self.targets if isinstance(t.what, int)]
            redrawn = {key: _redrawn(job, k) for key, job in jobs.items()}
            how: dict[str, Any] = {"memory": self.setting.memory}
            for key, found in explain(self.lens, redrawn, self.good, goals, self.setting.batch_size, **how).items():
                for one, scores in zip(out[key], found, strict=True):
                    one.append(scores)
            self._advance(len(jobs) / (classes - 1))
        return out

    def _second(self, jobs: Mapping[str, Job]) -> dict[str, list[Any]]:
        """By job and text the same method's scores in the second model; None where that one gives another label."""
        lens, batch = self.setting.second, self.setting.batch_size
        texts = [(item.number, item.example, item.tokens) for item in self.good]
        there = items(lens, texts, self.setting.target, batch)
        goals = [item.said.target for item in self.good]
        alike = [i for i, one in enumerate(there) if isinstance(one, Item) and _alike(one.said.target, goals[i])]
        chosen = [one for i, one in enumerate(there) if i in alike and isinstance(one, Item)]
        redrawn = {key: _redrawn(job, 1) for key, job in jobs.items()}
        out: dict[str, list[Any]] = {}
        targets = [one.target for one in chosen]
        found_there = explain(lens, redrawn, chosen, targets, batch, self._advance, self.setting.memory)
        for key, found in found_there.items():
            out[key] = [one if isinstance(one, Failure) else None for one in there]
            for i, scores in zip(alike, found, strict=True):
                out[key][i] = scores
        return out


def _alike(one: Target, other: Target) -> bool:
    """Whether two models explain the same: classes by name, since each model has its own order of them."""
    return (one.label, one.position) == (other.label, other.position)


def _redrawn(job: Job, by: int) -> Job:
    """Random scores say something else of every class and model; other methods are what they are."""
    if not isinstance(job.facts, Random):
        return job
    return replace(job, options={**job.options, "seed": job.options.get("seed", 0) + by})


class _Failed(Exception):
    """A method that has no scores for a text."""


def _rows(scores: Any) -> Scores:
    if isinstance(scores, Failure):
        raise _Failed(scores.text)
    return scores


def _need_class(item: Item, method: str) -> None:
    try:
        need_classes(method, True, item.said.target.foil_index is not None)
    except Undefined as error:
        raise _Failed(failure(error).text) from None


def _value(y: Yardstick, case: Case) -> float:
    if not y.measure.given(case) and y.measure.needs == "second":
        return float("nan")  # the two models call the text by other labels
    try:
        return float(y.measure(case, **y.options))
    except (UnknownOption, UnknownMethod):
        raise
    except Exception as error:
        raise _Failed(failure(error).text) from None


def _curve(case: Case, count: int) -> list[float]:
    """The probabilities of the curve, where texts have as many levels; NaN where no token is removable."""
    if not count:
        return []
    assert case.curve is not None
    if len(case.curve) != count:
        return [float("nan")] * count
    return [float(p) for p in np.exp(case.curve)]
