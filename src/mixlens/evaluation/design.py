"""What was asked, checked, as jobs to run and columns to fill."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mixlens.attribute import Method
from mixlens.attribute.calls import attribution_method
from mixlens.attribute.method import Deep
from mixlens.errors import UnknownOption, did_you_mean
from mixlens.evaluation.fingerprint import plain
from mixlens.evaluation.refusals import refuse, refuse_headless, refuse_no_lens
from mixlens.lens import Lens
from mixlens.measure import MEASURES, Corpus, Curve, Measure, measure

METHODS = ("attention_rollout", "globenc", "alti", "value_zeroing", "attcat", "grad_x_input")
NULL = "random"
MODEL = "model"  # what stands for a method in the lines of measures that look at none
SPAN_OPTIONS = {"spans": "cue", "pieces": "all"}
Asked = str | tuple[str, str, Mapping[str, Any]]


@dataclass(frozen=True)
class Job:
    """One attribution of every text: what no two measures have computed twice. `layered`: with a score a layer."""

    name: str
    options: Mapping[str, Any]
    facts: Method
    layers: Deep | None = None
    numbers: tuple[int, ...] = ()  # its layers

    @property
    def key(self) -> str:
        """The same for the same method with the same options."""
        return self.name + json.dumps(plain(self.options), sort_keys=True)


@dataclass(frozen=True)
class Yardstick:
    """A measure as asked for: its label in the table, its options, the key of the job that it compares with."""

    label: str
    measure: Measure
    options: Mapping[str, Any]
    spans: Mapping[str, str]
    reference: str | None = None
    reference_key: str | None = None

    @property
    def name(self) -> str:
        """What tells it from every other: its label, and its reference."""
        return self.label if self.reference is None else f"{self.label}:{self.reference}"


@dataclass(frozen=True)
class Column:
    """One number a text. `layer`: None for the whole model. `level`: of a perturbation curve, 0 the untouched text."""

    measure: str
    method: str
    layer: int | None = None
    level: int | None = None


@dataclass(frozen=True)
class Design:
    """The run: jobs by key, method labels and measures in the order asked for, columns."""

    methods: Mapping[str, str]  # label -> key of its job; the null comes last where it was not asked for
    asked: tuple[str, ...]  # the labels that the table shows
    yardsticks: tuple[Yardstick, ...]
    jobs: Mapping[str, Job]
    columns: tuple[Column, ...]
    corpora: tuple[Yardstick, ...] = ()  # measures of the model's vectors, which look at no method

    def layers(self, label: str, yardstick: Yardstick) -> tuple[int | None, ...]:
        """The rows of a method that a measure looks at: the whole model (None), then its layers."""
        numbers = self.jobs[self.methods[label]].numbers
        return (None, *numbers) if label in self.asked and yardstick.measure.per_layer else (None,)

    def width(self, label: str, yardstick: Yardstick) -> int:
        """How many columns a method has in a measure: its layers, and the levels of a curve."""
        points = levels(yardstick)
        return len(self.layers(label, yardstick)) + points


def make(
    lens: Lens,
    methods: str | Sequence[Asked] | None,
    measures: str | Sequence[Asked],
    *,
    reference: str,
    layers: str | None,
    options: Mapping[str, Mapping[str, Any]],
    seed: int,
    second: Lens | None = None,
) -> Design:
    """The design of a run. Raises InputError, UnknownMethod, UnknownOption, Undefined."""
    refuse_no_lens(lens, second)
    if layers not in (None, "each", "upto"):
        raise UnknownOption(f"expected layers=None, 'each' or 'upto', got {layers!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UnknownOption(f"expected seed= a whole number of 0 or more, got {seed!r}")
    methods = [methods] if isinstance(methods, str) else methods
    measures = [measures] if isinstance(measures, str) else measures
    if methods is None:
        methods = METHODS if any(not isinstance(_measure(one), Corpus) for one in measures) else ()
    known = {part for asked in (*methods, *measures) for part in _names(asked)} | {reference, NULL}
    known |= {_split(name)[1] for name in known if ":" in name}
    for name in options:
        if name not in known:
            raise UnknownOption(f"options for {name!r}, which is not evaluated{did_you_mean(name, known)}")
    jobs: dict[str, Job] = {}
    labels: dict[str, str] = {}

    def add(name: str, own: Mapping[str, Any], deep: Deep | None = None) -> str:
        job = _job(lens, name, own, deep)
        if job.key not in jobs or job.numbers:
            jobs[job.key] = job
        return job.key

    for asked in methods:
        label, name, own = _labelled(asked, options)
        if label in labels:
            raise UnknownOption(f"expected every method once, got {label!r} twice; (label, name, options) renames one")
        own = {"seed": seed, **own} if name == NULL else own
        labels[label] = add(name, own, "each" if layers == "each" else "upto" if layers == "upto" else None)
    asked_labels = tuple(labels)
    found: list[Yardstick] = []
    for asked in measures:
        one = _yardstick(asked, options, reference)
        if one.name in [y.name for y in found]:
            raise UnknownOption(f"expected every measure once, got {one.name!r} twice; (label, name, options) renames")
        found.append(one)
    yardsticks = [one for one in found if not isinstance(one.measure, Corpus)]
    _refuse_nothing(asked_labels, found, yardsticks, layers)
    if yardsticks:
        null_key = add(NULL, {"seed": seed, **options.get(NULL, {})})
        if labels.setdefault(NULL, null_key) != null_key:
            raise UnknownOption(f"the label {NULL!r} is the null's; give the method another: (label, name, options)")
    for at, one in enumerate(yardsticks):
        if one.reference is not None:
            own = dict(options.get(one.reference, {}))  # random scores as reference: another draw than the null's
            key = add(one.reference, {"seed": seed + 1, **own} if one.reference == NULL else own)
            yardsticks[at] = replace(one, reference_key=key)
    if second is not None and not any(one.measure.needs == "second" for one in found):
        raise UnknownOption("second= would be ignored: no measure asked for compares two models; ask for consistency")
    for one in found:
        refuse(lens, one, [jobs[labels[label]] for label in asked_labels], second)
    refuse_headless(lens, jobs.values())
    corpora = tuple(one for one in found if isinstance(one.measure, Corpus))
    design = Design(labels, asked_labels, tuple(yardsticks), jobs, (), corpora)
    return replace(design, columns=tuple(_columns(design)))


def _refuse_nothing(
    methods: Sequence[str], found: Sequence[Yardstick], yardsticks: Sequence[Yardstick], layers: str | None
) -> None:
    """Raises UnknownOption for a run of nothing, and for methods or layers that no measure would look at."""
    if not found or (yardsticks and not methods):
        raise UnknownOption("expected at least one method and one measure; see mixlens.methods(), mixlens.measures()")
    ignored = [name for name, there in (("methods=", methods), ("layers=", layers)) if there]
    if not yardsticks and ignored:
        names = " and ".join(one.name for one in found)
        raise UnknownOption(
            f"{names} looks at the model's vectors in every layer, whatever the method: leave {' and '.join(ignored)} "
            "out, or ask for a measure of methods too"
        )


def _columns(design: Design) -> list[Column]:
    out = []
    for y in design.yardsticks:
        for label in design.methods:
            out += [Column(y.name, label, layer) for layer in design.layers(label, y)]
            if isinstance(y.measure, Curve):
                out += [Column(y.name, label, None, level) for level in range(levels(y))]
    return out


def levels(yardstick: Yardstick) -> int:
    """The points of a perturbation curve, the untouched text first; 0 where texts have different ones."""
    return yardstick.measure.points(yardstick.options) if isinstance(yardstick.measure, Curve) else 0


def _job(lens: Lens, name: str, own: Mapping[str, Any], deep: Deep | None) -> Job:
    method = attribution_method(lens.subject, name, own)
    if deep is None or method.layers(deep) is None:
        return Job(name, dict(own), method)
    return Job(name, dict(own), method, deep, tuple(range(lens.subject.layers)))


def _yardstick(asked: Asked, options: Mapping[str, Mapping[str, Any]], reference: str) -> Yardstick:
    label, name, own = _labelled(asked, options)
    label = _split(label)[0] if label == name else label  # a label of one's own may hold a colon
    name, other = _split(name)
    found = measure(name)
    own = {**options.get(name, {}), **own}
    spans = {k: own.pop(k) for k in SPAN_OPTIONS if k in own and found.needs in ("cue", "rationale", "answer")}
    if found.needs != "reference":
        if other:
            raise UnknownOption(f"{name} has no reference, got {other!r}; ask for {name!r}")
        spans = {} if isinstance(found, Corpus) else {**SPAN_OPTIONS, **spans}
        return Yardstick(label, found, found.checked(own), spans)
    return Yardstick(label, found, found.checked(own), {}, other or reference)


def _measure(asked: Asked) -> Measure:
    return measure(_split(_labelled(asked, {})[1])[0])


def _labelled(asked: Asked, options: Mapping[str, Mapping[str, Any]]) -> tuple[str, str, dict[str, Any]]:
    if isinstance(asked, str):
        return asked, asked, dict(options.get(asked, {}))
    try:
        label, name, own = asked
        return str(label), str(name), {**options.get(name, {}), **options.get(label, {}), **own}
    except (TypeError, ValueError):
        raise UnknownOption(f"expected a name or (label, name, options), got {asked!r}") from None


def _names(asked: Asked) -> tuple[str, ...]:
    label, name, _ = _labelled(asked, {})
    return label, name, *(_split(name) if ":" in name and _split(name)[0] in MEASURES else ())


def _split(name: str) -> tuple[str, str]:
    head, _, rest = name.partition(":")
    return (head, rest)
