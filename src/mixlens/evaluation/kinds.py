"""The two kinds of examples, texts and answers of language models, each explained by itself, in the data's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mixlens.capture.stream import Stream
from mixlens.evaluation import explain as texts
from mixlens.evaluation import traced
from mixlens.evaluation.design import Job
from mixlens.evaluation.explain import Failure, Item
from mixlens.lens import Lens
from mixlens.target import Target
from mixlens.tasks import Example


def items(
    lens: Lens,
    examples: Sequence[tuple[int, Example, Stream]],
    target: Any,
    batch_size: int,
    exclude: Sequence[str] = (),
) -> list[Item | Failure]:
    """Each example with the model's answer to it."""
    answers = iter(traced.items(lens, [entry for entry in examples if entry[1].traced], exclude))
    rest = iter(texts.items(lens, [entry for entry in examples if not entry[1].traced], target, batch_size, exclude))
    return [next(answers if example.traced else rest) for _, example, _ in examples]


def explain(
    lens: Lens,
    jobs: Mapping[str, Job],
    chosen: Sequence[Item],
    targets: Sequence[Target],
    batch: int,
    tick: Callable[[int], None] = lambda jobs: None,
    memory: int | None = None,
) -> dict[str, list[Any]]:
    """`Scores` or a `Failure` of each example, by job. `tick(jobs done)`. `memory`: bytes to stay inside."""
    answers = [item for item in chosen if isinstance(item, traced.TracedItem)]
    if not answers:
        return texts.explain(lens, jobs, chosen, targets, batch, tick, memory)
    other = [i for i, item in enumerate(chosen) if not isinstance(item, traced.TracedItem)]
    out = traced.explain(lens, jobs, answers, batch, tick, memory)
    if not other:
        return dict(out)
    goals = [targets[i] for i in other]
    beside = texts.explain(lens, jobs, [chosen[i] for i in other], goals, batch, memory=memory)
    merged: dict[str, list[Any]] = {}
    for key in jobs:
        traced_scores, rest = iter(out[key]), iter(beside[key])
        merged[key] = [next(traced_scores if isinstance(item, traced.TracedItem) else rest) for item in chosen]
    return merged
