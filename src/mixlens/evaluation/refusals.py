"""What means nothing for a model is refused before the work, not text by text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mixlens.answer import check_target
from mixlens.answer.entity import named
from mixlens.attribute import Random, removal
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, Undefined, UnknownOption
from mixlens.evaluation.fingerprint import tokenizer_facts
from mixlens.lens import Lens
from mixlens.measure import Corpus, Curve, Measure
from mixlens.measure.confidence import need_classes
from mixlens.measure.measure import EMBEDDED
from mixlens.target import Target
from mixlens.tasks import TASKS, Example, Task
from mixlens.trace.prompt import require_answers
from mixlens.trace.sources import FIRST, TEMPLATE, roles

if TYPE_CHECKING:
    from mixlens.evaluation.design import Design, Job, Yardstick


_ARTICLES = {"answer": "an ", "gold": ""}


def refuse_no_lens(lens: object, second: object) -> None:
    """Raises InputError, such as for a model that is in no lens, and Undefined for one of two towers, or two stacks."""
    for name, value in [("lens", lens)] + [("second", second)] * (second is not None):
        if not isinstance(value, Lens):
            raise InputError(f"expected {name}= what mixlens.load(...) gives, got {type(value).__name__}")
        value.subject.require_one_read()


def refuse(lens: Lens, yardstick: Yardstick, jobs: Sequence[Job], second: Lens | None) -> None:
    """Raises Undefined for a measure that means nothing here, UnknownOption for one that lacks something."""
    kind, task = yardstick.measure, lens.head.task
    if isinstance(kind, Corpus) and kind.collects == "labelled" and task in ("question", "token"):
        raise Undefined(
            f"{kind.name} probes the vector of the one token that speaks for a text, {lens.head.in_words} has none; "
            "call mixlens.measure.measure('mdl_compression') on vectors of your own"
        )
    if isinstance(kind, Curve):
        if task == "none" or lens.head.regression:
            raise Undefined(f"{kind.name} needs the probability of an answer, which {lens.head.in_words} has not")
        if yardstick.options["replace"] in EMBEDDED:
            if task != "causal":
                raise Undefined(
                    f"{kind.name} changes embeddings of the prompt of an answer, {lens.head.in_words} gives none; use "
                    "aopc or log_odds"
                )
        else:
            removal.check(lens.subject, kind.name, yardstick.options["replace"], yardstick.options["mask_pad"])
        kind.points(yardstick.options)  # levels that are none
    if kind.needs == "second":
        if second is None:
            raise UnknownOption(f"{kind.name} compares two models: pass second=, a lens on the other")
        _refuse_unlike(lens, second, kind.name, layered=any(job.numbers for job in jobs))
    if kind.needs == "classes":
        if task != "sequence" or lens.head.regression:
            raise Undefined(f"{kind.name} compares the classes of a sequence classifier, this is {lens.head.in_words}")
        for job in jobs:
            if not isinstance(job.facts, Random):
                need_classes(job.name, job.facts.class_specific, False)


def _refuse_unlike(lens: Lens, second: Lens, name: str, layered: bool) -> None:
    """Raises Undefined where the scores of two models have nothing to be compared by."""
    if tokenizer_facts(second.tokenizer) != tokenizer_facts(lens.tokenizer):
        raise Undefined(f"{name} compares scores token by token: the two models' tokenizers differ")
    heads = [(model.head.task, sorted(model.head.labels.values())) for model in (lens, second)]
    if heads[0][0] != heads[1][0]:
        raise Undefined(f"{name} compares two models of one task, got {lens.head.in_words} and {second.head.in_words}")
    if lens.head.task in ("sequence", "token") and heads[0] != heads[1]:
        raise Undefined(
            f"{name} compares texts that two models label alike, and their labels differ: {', '.join(heads[0][1])} and "
            f"{', '.join(heads[1][1])}; name them alike in the models' config.id2label"
        )
    counts = [model.subject.layers for model in (lens, second)]
    if layered and counts[0] != counts[1]:
        raise Undefined(
            f"{name} compares layers one to one, and the two models have {counts[0]} and {counts[1]}: leave layers= out"
        )


def refuse_headless(lens: Lens, jobs: Iterable[Job]) -> None:
    """Raises Undefined where a method, or the method that a measure compares with, explains an answer and none is."""
    names = [job.name for job in jobs if job.facts.class_specific]
    if lens.head.task == "none" and names:
        raise Undefined(
            f"{', '.join(names)} {'explains' if len(names) == 1 else 'explain'} an answer, and this model has no head "
            "that gives one: load it with its classification or language-model head, or take methods and a "
            "reference= that need none (alti, globenc, hta_x_input ...)"
        )


def refuse_target(lens: Lens, target: Any, design: Design) -> None:
    """Raises TargetError for what is explained of all texts alike, where the head has no such class.

    And UnknownOption where no measure looks at what is explained.
    """
    if target is None:
        return
    if not isinstance(target, str) or target != "label":
        refuse_class(lens, check_target(target))
    labelled = any(isinstance(y.measure, Corpus) and y.measure.collects == "labelled" for y in design.corpora)
    if not design.methods and not labelled:
        raise UnknownOption(f"target={target!r} would be ignored: no measure asked for looks at what is explained")


def refuse_class(lens: Lens, target: Target) -> None:
    """Raises TargetError where the head has no such class."""
    head = lens.head
    if head.task in ("sequence", "token") and not head.regression:
        for label in (target.what, target.foil):
            if label is not None:
                named(head, label, len(head.labels))


def refuse_traced(lens: Lens, design: Design, target: Any, examples: Sequence[Example]) -> None:
    """Raises for what means nothing where prompts are to be explained: InputError, Undefined, UnknownOption."""
    if not any(example.traced for example in examples):
        return
    require_answers(lens.subject)
    if target is not None:
        raise UnknownOption(
            f"target={target!r} would be ignored: of an example with a prompt its answer= and foil= are explained"
        )
    if any(job.numbers for job in design.jobs.values()):
        raise Undefined("layers= are of attributions of texts; a trace has no scores of single layers: leave it out")


def refuse_exclude(names: Sequence[str], texts: Iterable[Stream]) -> None:
    """Raises UnknownOption for a source to leave out that none of the first texts has."""
    known = sorted({role for tokens in texts if isinstance(tokens, Tokens) for role in roles(tokens)})
    for name in names:
        if name not in (FIRST, TEMPLATE, *known):
            also = f" or a role of the chats ({', '.join(known)})" if known else " (these texts are no chats)"
            raise UnknownOption(f"expected exclude='first', 'template'{also}, got {name!r}")


def refuse_fields(kind: Task, measures: Iterable[Measure]) -> None:
    """Raises Undefined for a measure of what no row of this task can hold, whatever its columns."""
    for measure in measures:
        able = [task.name for task in TASKS.values() if measure.name in task.measures]
        built_in = kind.name in TASKS and TASKS[kind.name].function is kind.function  # else who knows what it reads
        if able and built_in and measure.name not in kind.measures:
            raise Undefined(
                f"{measure.name} needs {_ARTICLES.get(measure.needs, 'a ')}{measure.needs} in every row, and a row "
                f"of the task {kind.name} holds none: take task={' or '.join(map(repr, able))}, or pass "
                "mixlens.Examples"
            )
