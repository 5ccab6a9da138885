"""What an evaluation would take, before it starts: every text is read, and none goes through the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from mixlens.arguments import checked
from mixlens.attribute.calls import demand, together
from mixlens.budget import Plan, bytes_of, planned, shown_bytes, sizes_of
from mixlens.capture.offload import device_of
from mixlens.capture.stream import Stream
from mixlens.errors import DataError, MissingExtra, MixlensError, Undefined, UnknownMethod, UnknownOption
from mixlens.evaluation.design import Design, Entry, Job, make
from mixlens.evaluation.evaluate import MEASURES
from mixlens.evaluation.explain import failure, target_of
from mixlens.evaluation.given import Given
from mixlens.evaluation.naming import source_named
from mixlens.evaluation.refusals import refuse_no_lens, refuse_target
from mixlens.evaluation.scored import removed
from mixlens.evaluation.walk import in_windows, read_rows, refuse_columns
from mixlens.evaluation.windows import WINDOW, chunk_size
from mixlens.lens import Lens
from mixlens.measure import Case, Curve
from mixlens.measure.measure import EMBEDDED
from mixlens.process import settled
from mixlens.subject import Subject
from mixlens.tasks import SAMPLE, Example, Source, Task, source
from mixlens.tasks import task as task_named

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """A run's passes of one kind. `of`: what for; `passes`: forward passes of a text, of all texts together; `time`:
    how the time of one text grows, in words; `most`: there may be fewer; `plan`: of its longest texts, as `Lens.plan`.
    """

    of: str
    passes: float
    time: str = "one pass"
    most: bool = False
    plan: Plan | None = None

    def __str__(self) -> str:
        line = f"{self.of}: {'at most ' * self.most}{self.passes:,.0f} ({self.time})"
        if self.plan is None:
            return line
        return f"{line}, {self.plan.batch_size} at a time, at most {shown_bytes(self.plan.peak_bytes)}"


@dataclass(frozen=True)
class RunPlan:
    """What a run over a data set will take. `rows`: in all, `texts`: those that can be read, `error`: why the first of
    the others cannot; `tokens`: of the longest; `parts`: the passes by what they are for; `budget`: what `memory=`
    allows, or what is free, in bytes.
    """

    rows: int
    texts: int
    tokens: int
    parts: tuple[Part, ...]
    budget: int
    error: str | None = None

    @property
    def passes(self) -> float:
        """Forward passes of a text, about, of the whole run."""
        return sum(part.passes for part in self.parts)

    @property
    def peak_bytes(self) -> int:
        """Above the model's weights: of the part that takes most."""
        return max((part.plan.peak_bytes for part in self.parts if part.plan is not None), default=0)

    @property
    def fits(self) -> bool:
        """Whether the longest text alone stays inside the budget, whatever the method."""
        return self.peak_bytes <= self.budget

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        parts = [{k: v for k, v in asdict(part).items() if k != "plan"} for part in self.parts]
        for part, made in zip(parts, self.parts, strict=True):
            part |= {k: made.plan and getattr(made.plan, k) for k in ("batch_size", "peak_bytes")}
        whole = {name: getattr(self, name) for name in ("rows", "texts", "tokens", "error", "passes", "peak_bytes")}
        return {**whole, "budget": self.budget, "fits": self.fits, "parts": parts}

    def __str__(self) -> str:
        unread = self.rows - self.texts
        lines = [f"{self.texts:,} text{'s' * (self.texts != 1)} of up to {self.tokens} tokens"]
        if unread:
            lines.append(f"{unread:,} of {self.rows:,} rows cannot be read, the first: {self.error}")
        lines.append(f"about {self.passes:,.0f} forward passes of a text")
        lines += [f"  {part}" for part in self.parts]
        least = "" if self.fits else ", which is not enough: see memory="
        lines.append(f"at most {shown_bytes(self.peak_bytes)} of {shown_bytes(self.budget)} of memory{least}")
        return "\n".join(lines)


@settled
@checked
def plan_evaluate(
    lens: Lens,
    data: Any = SAMPLE,
    methods: str | Sequence[Entry] | None = None,
    measures: str | Sequence[Entry] = MEASURES,
    *,
    task: str | Task = "classification",
    encoding: str | None = None,
    target: Any = None,
    reference: str = "saliency",
    layers: str | None = None,
    second: Lens | None = None,
    limit: int | None = None,
    truncate: bool = False,
    batch_size: int = 32,
    memory: int | str | None = None,
    seed: int = 0,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> RunPlan:
    """What `mixlens.evaluate` would take, without doing it: passes in all, batches and peak memory, as of `Lens.plan`.

    The arguments are those of `evaluate`. Every text is read, so that lengths are known; none goes through the model.
    Of changed texts (`aopc` and its kin) the passes are at most so many: two methods may take the same tokens out,
    which is passed once. Texts alone: of prompts see `Lens.plan_trace`. Raises as `evaluate` does before its work.

    Examples:
        >>> plan = mixlens.plan_evaluate(lens, methods=["alti"], measures=["aopc"], limit=4)
        >>> plan.texts, [part.of for part in plan.parts]
        (4, ['the answers', 'alti', 'random', 'texts without some tokens'])
        >>> plan.fits
        True
    """
    kind = task if isinstance(task, Task) else task_named(task)
    refuse_no_lens(lens, second)
    settings: dict[str, Any] = {"reference": reference, "layers": layers, "seed": seed, "second": second}
    design = make(lens, methods, measures, options={k: dict(v) for k, v in (options or {}).items()}, **settings)
    refuse_target(lens, target, design)
    rows = source_named(source(data, encoding), kind, lens.head, target)
    budget = bytes_of(memory, device_of(lens.model))
    streams = Streams()

    def seen(example: Example, tokens: Stream) -> Seen:
        target_of(example, tokens, target, lens.head)
        return _seen(tokens)

    lengths = list(streams.of(lens, rows, kind, limit, truncate, seen))
    parts = tuple(_parts(lens, second, design, lengths, budget, batch_size))
    return streams.plan(parts, [n for n, _ in lengths], budget)


class Streams:
    """The texts of a data set, one by one, and how many rows could not be read."""

    def __init__(self) -> None:
        self.rows = 0
        self.error: str | None = None

    def of(
        self,
        lens: Lens,
        rows: Source,
        kind: Task,
        limit: int | None,
        truncate: bool,
        made: Callable[[Example, Stream], T],
        windows: bool | None = None,
    ) -> Iterator[T]:
        """What is made of each that can be read, and whose answer can be asked for: `made` raises where not.

        Raises DataError, Undefined for prompts, which are traced, and what is the call's own fault.
        """
        mask = getattr(lens.tokenizer, "mask_token", None) if lens.head.task == "masked" else None
        for numbered in in_windows(rows, limit, WINDOW, lambda row: 1.0):
            good, bad = read_rows(lens, numbered, kind, mask, truncate, windows)
            if self.rows == 0:
                refuse_columns(len(good), [record.error or "" for record in bad])
            if any(example.traced for _, example, _ in good):
                raise Undefined("a run over texts is planned, got prompts with answers; see Lens.plan_trace of one")
            self.rows += len(numbered)
            self.error = self.error or next((record.error for record in bad), None)
            for _, example, tokens in good:
                try:
                    of_text = made(example, tokens)
                except (UnknownMethod, UnknownOption, MissingExtra):
                    raise
                except MixlensError as error:
                    self.error = self.error or failure(error).text
                else:
                    yield of_text
        if self.rows == 0:
            raise DataError(f"expected at least one row of {rows.name}, got none")

    def plan(self, parts: tuple[Part, ...], lengths: Sequence[int], budget: int) -> RunPlan:
        """Of a run over the texts that were read, which are of these lengths."""
        return RunPlan(self.rows, len(lengths), max(lengths, default=0), parts, budget, self.error)


Seen = tuple[int, tuple[bool, ...]]  # how many tokens a text has, and which of them are special


def _seen(tokens: Stream) -> Seen:
    return len(tokens), tuple(bool(special) for special in tokens.special)


def _parts(
    lens: Lens, second: Lens | None, design: Design, texts: Sequence[Seen], budget: int, batch_size: int
) -> Iterator[Part]:
    lengths = sorted((n for n, _ in texts), reverse=True)
    if not lengths:
        return
    needs = {y.measure.needs for y in design.yardsticks}
    first = lengths[: chunk_size(design)]

    def groups(subject: Subject, jobs: Mapping[str, Job], behind: str = "", times: int = 1) -> Iterator[Part]:
        for numbers in together([(job.facts, job.options) for job in jobs.values()]):
            group = [list(jobs.values())[i] for i in numbers]
            names = ", ".join(job.name for job in group) + behind
            if isinstance(group[0].facts, Given):
                yield Part(names, 0, "and what the function takes")
                continue
            plans = [
                planned(job.name, demand(subject, job.facts, job.options, len(group)), first, budget, batch_size)
                for job in group
            ]
            most = max(plans, key=lambda plan: plan.peak_bytes)
            words = "; ".join(dict.fromkeys(plan.time for plan in plans))
            yield Part(names, times * _passes(subject, group, lengths), words, bool(behind) and times == 1, most)

    if design.methods:
        yield Part("the answers", len(lengths))
    yield from groups(lens.subject, design.jobs)
    shown = {key: design.jobs[key] for key in dict.fromkeys(design.methods.values())}
    if "classes" in needs:
        yield from groups(lens.subject, shown, " for each other class", len(lens.head.labels) - 1)
    if second is not None:
        yield Part("the second model's answers", len(lengths))
        yield from groups(second.subject, shown, " in the second model")
    if "curve" in needs:
        counts = {seen: _changed(design, seen) for seen in set(texts)}
        yield Part("texts without some tokens", sum(counts[seen] for seen in texts), most=True)
    for y in design.corpora:
        yield Part(y.name, len(lengths))


def _passes(subject: Subject, group: Sequence[Job], lengths: Sequence[int]) -> float:
    """Of jobs that share a pass, over all texts; a method that has a layer's scores by a run of its own takes each."""
    sizes = sizes_of(subject)

    def shared(jobs: Sequence[Job], more: Mapping[str, Any]) -> float:
        costs = [job.facts.cost({**job.options, **more}) for job in jobs]
        return sum(1 + sum(cost.passes(sizes, n) - 1 for cost in costs) for n in lengths)

    again: dict[int, list[Job]] = {}
    for job in group:
        if job.layers is not None and job.facts.layers(job.layers) == "again":
            for layer in job.numbers:
                if layer != job.options.get("layer", 0):
                    again.setdefault(layer, []).append(job)
    layers: list[tuple[list[Job], Mapping[str, Any]]] = [(again[layer], {"layer": layer}) for layer in again]
    return sum(shared(jobs, more) for jobs, more in [(list(group), {}), *layers])


def _changed(design: Design, seen: Seen) -> int:
    """The changed texts of one: of each method those that its order decides, and once those that are the same in all.

    The measures say themselves what they take out; two opposite orders show what no order changes.
    """
    special = np.array(seen[1], dtype=bool)
    orders = [np.arange(1.0, seen[0] + 1), np.arange(seen[0], 0.0, -1)]
    alike, each = set[Any](), dict[tuple[str, int | None], set[Any]]()
    for y in design.yardsticks:
        if not isinstance(y.measure, Curve) or y.options["replace"] in EMBEDDED:
            continue
        form = (y.options["replace"], y.options["mask_pad"])
        sets = [{(form, out) for out in removed(y, Case(scores=s, special=special)) if out} for s in orders]
        alike |= sets[0] & sets[1]
        for label in design.methods:
            for layer in design.layers(label, y):
                each.setdefault((label, layer), set()).update(sets[0])
    return len(alike) + sum(len(sets - alike) for sets in each.values())
