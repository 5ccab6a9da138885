"""What was asked, checked, as jobs to run and columns to fill."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mixlens.attribute import Method
from mixlens.attribute.calls import attribution_method
from mixlens.attribute.method import Deep
from mixlens.attribute.names import known as known_method
from mixlens.attribute.variants import removal_default
from mixlens.errors import UnknownOption, did_you_mean
from mixlens.evaluation.fingerprint import plain
from mixlens.evaluation.given import Given, Scorer
from mixlens.evaluation.refusals import refuse, refuse_headless, refuse_no_lens
from mixlens.lens import Lens
from mixlens.measure import MEASURES, Corpus, Curve, Measure, measure

METHODS = ("attention_rollout", "globenc", "alti", "value_zeroing", "attcat", "grad_x_input")
NULL = "random"
MODEL = "model"  # what stands for a method in the lines of measures that look at none
SPAN_OPTIONS = {"spans": "cue", "pieces": "all"}
Entry = str | tuple[str, str | Scorer, Mapping[str, Any]]


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
        kind = " given" if isinstance(self.facts, Given) else ""
        return self.name + kind + json.dumps(plain(self.options), sort_keys=True)


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
    shown: tuple[str, ...]  # the labels that the table shows
    yardsticks: tuple[Yardstick, ...]
    jobs: Mapping[str, Job]
    columns: tuple[Column, ...]
    corpora: tuple[Yardstick, ...] = ()  # measures of the model's vectors, which look at no method

    def layers(self, label: str, yardstick: Yardstick) -> tuple[int | None, ...]:
        """The rows of a method that a measure looks at: the whole model (None), then its layers."""
        numbers = self.jobs[self.methods[label]].numbers
        return (None, *numbers) if label in self.shown and yardstick.measure.per_layer else (None,)

    def width(self, label: str, yardstick: Yardstick) -> int:
        """How many columns a method has in a measure: its layers, and the levels of a curve."""
        points = levels(yardstick)
        return len(self.layers(label, yardstick)) + points


def make(
    lens: Lens,
    methods: str | Sequence[Entry] | None,
    measures: str | Sequence[Entry],
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
    methods, measures = known(methods, measures, reference=reference, options=options)
    jobs: dict[str, Job] = {}
    labels: dict[str, str] = {}

    def add(name: str, values: Mapping[str, Any], deep: Deep | None = None) -> str:
        job = _job(lens, name, values, deep)
        if job.key not in jobs or job.numbers:
            jobs[job.key] = job
        return job.key

    for entry in methods:
        label, name, values = _labelled(entry, options)
        if label in labels:
            raise UnknownOption(f"expected every method once, got {label!r} twice; (label, name, options) renames one")
        if not isinstance(name, str):
            job = Job(label, values, Given(label, "a function of one's own", "-", function=name))
            jobs[job.key], labels[label] = job, job.key
            continue
        values = {"seed": seed, **values} if name == NULL else values
        labels[label] = add(name, values, "each" if layers == "each" else "upto" if layers == "upto" else None)
    asked_labels = tuple(labels)
    wanted: list[Yardstick] = []
    for entry in measures:
        yardstick = _yardstick(entry, options, reference)
        if isinstance(yardstick.measure, Curve) and "replace" not in _labelled(entry, options)[2]:
            taken = removal_default(lens.head, yardstick.options["replace"])
            yardstick = replace(yardstick, options={**yardstick.options, "replace": taken})
        if yardstick.name in [y.name for y in wanted]:
            raise UnknownOption(
                f"expected every measure once, got {yardstick.name!r} twice; (label, name, options) renames"
            )
        wanted.append(yardstick)
    yardsticks = [y for y in wanted if not isinstance(y.measure, Corpus)]
    _refuse_nothing(asked_labels, wanted, yardsticks, layers)
    if yardsticks:
        null_key = add(NULL, {"seed": seed, **options.get(NULL, {})})
        if labels.setdefault(NULL, null_key) != null_key:
            raise UnknownOption(f"the label {NULL!r} is the null's; give the method another: (label, name, options)")
    for at, yardstick in enumerate(yardsticks):
        if yardstick.reference is not None:
            values = dict(options.get(yardstick.reference, {}))
            if yardstick.reference == NULL:  # another draw than the null's
                values = {"seed": seed + 1, **values}
            key = add(yardstick.reference, values)
            yardsticks[at] = replace(yardstick, reference_key=key)
    if second is not None and not any(y.measure.needs == "second" for y in wanted):
        raise UnknownOption("second= would be ignored: no measure asked for compares two models; ask for consistency")
    for yardstick in wanted:
        refuse(lens, yardstick, [jobs[labels[label]] for label in asked_labels], second)
    refuse_headless(lens, jobs.values())
    corpora = tuple(y for y in wanted if isinstance(y.measure, Corpus))
    design = Design(labels, asked_labels, tuple(yardsticks), jobs, (), corpora)
    return replace(design, columns=tuple(_columns(design)))


def known(
    methods: str | Sequence[Entry] | None,
    measures: str | Sequence[Entry],
    *,
    reference: str,
    options: Mapping[str, Mapping[str, Any]],
) -> tuple[Sequence[Entry], Sequence[Entry]]:
    """The methods and the measures of a run, whose names and options are known, whatever the model.

    Raises UnknownMethod, UnknownOption, Undefined.
    """
    methods = [methods] if isinstance(methods, str) else methods
    measures = [measures] if isinstance(measures, str) else measures
    if methods is None:
        methods = METHODS if any(not isinstance(_measure(entry), Corpus) for entry in measures) else ()
    names = {part for entry in (*methods, *measures) for part in _names(entry)} | {reference, NULL}
    names |= {_split(name)[1] for name in names if ":" in name}
    for name in options:
        if name not in names:
            raise UnknownOption(f"options for {name!r}, which is not evaluated{did_you_mean(name, names)}")
    for entry in methods:
        _, method, values = _labelled(entry, options)
        if isinstance(method, str):
            known_method(method, values)
    for entry in measures:
        yardstick = _yardstick(entry, options, reference)
        if yardstick.reference is not None:
            known_method(yardstick.reference, options.get(yardstick.reference, {}))
    return methods, measures


def _refuse_nothing(
    methods: Sequence[str], wanted: Sequence[Yardstick], yardsticks: Sequence[Yardstick], layers: str | None
) -> None:
    """Raises UnknownOption for a run of nothing, and for methods or layers that no measure would look at."""
    if not wanted or (yardsticks and not methods):
        raise UnknownOption("expected at least one method and one measure; see mixlens.methods(), mixlens.measures()")
    ignored = [name for name, value in (("methods=", methods), ("layers=", layers)) if value]
    if not yardsticks and ignored:
        names = " and ".join(y.name for y in wanted)
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


def _job(lens: Lens, name: str, values: Mapping[str, Any], deep: Deep | None) -> Job:
    method = attribution_method(lens.subject, name, values)
    if deep is None or method.layers(deep) is None:
        return Job(name, dict(values), method)
    return Job(name, dict(values), method, deep, tuple(range(lens.subject.layers)))


def _yardstick(entry: Entry, options: Mapping[str, Mapping[str, Any]], reference: str) -> Yardstick:
    label, name, values = _labelled(entry, options)
    if not isinstance(name, str):
        raise UnknownOption(f"expected the name of a measure for {label!r}, got a function; see mixlens.measures()")
    label = _split(label)[0] if label == name else label  # a label of one's own may hold a colon
    name, named_reference = _split(name)
    kind = measure(name)
    values = {**options.get(name, {}), **values}
    spans = {k: values.pop(k) for k in SPAN_OPTIONS if k in values and kind.needs in ("cue", "rationale", "answer")}
    if kind.needs != "reference":
        if named_reference:
            raise UnknownOption(f"{name} has no reference, got {named_reference!r}; ask for {name!r}")
        spans = {} if isinstance(kind, Corpus) else {**SPAN_OPTIONS, **spans}
        return Yardstick(label, kind, kind.checked(values), spans)
    return Yardstick(label, kind, kind.checked(values), {}, named_reference or reference)


def _measure(entry: Entry) -> Measure:
    name = _labelled(entry, {})[1]
    return measure(_split(str(name))[0])


def _labelled(entry: Entry, options: Mapping[str, Mapping[str, Any]]) -> tuple[str, str | Scorer, dict[str, Any]]:
    if isinstance(entry, str):
        return entry, entry, dict(options.get(entry, {}))
    try:
        label, name, values = entry
        if callable(name):
            return str(label), name, {**options.get(label, {}), **values}
        return str(label), str(name), {**options.get(name, {}), **options.get(label, {}), **values}
    except (TypeError, ValueError):
        raise UnknownOption(f"expected a name or (label, name or function, options), got {entry!r}") from None


def _names(entry: Entry) -> tuple[str, ...]:
    label, name, _ = _labelled(entry, {})
    if not isinstance(name, str):
        return (label,)
    return label, name, *(_split(name) if ":" in name and _split(name)[0] in MEASURES else ())


def _split(name: str) -> tuple[str, str]:
    head, _, rest = name.partition(":")
    return (head, rest)
