"""What explaining a data set would take, before it starts: every text is read, and none goes through the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mixlens.arguments import checked
from mixlens.attribute.calls import demand, readings
from mixlens.budget import Demand, Plan, bytes_of, planned, sizes_of
from mixlens.capture.offload import device_of
from mixlens.capture.stream import Stream
from mixlens.dataset.asked import asked_of
from mixlens.dataset.threads import COUNT, divides
from mixlens.dataset.window import TOGETHER
from mixlens.evaluation.explain import target_of
from mixlens.evaluation.plan import Part, RunPlan, Streams
from mixlens.evaluation.refusals import refuse_no_lens
from mixlens.lens import Lens
from mixlens.process import settled
from mixlens.tasks import Example, Task


@settled
@checked
def plan_explain_data(
    lens: Lens,
    data: Any,
    method: str | None = None,
    target: Any = None,
    *,
    field: str | Mapping[str, str | Sequence[str]] | None = None,
    task: str | Task = "classification",
    encoding: str | None = None,
    limit: int | None = None,
    truncate: bool = False,
    window: int | None = None,
    stride: int | None = None,
    batch_size: int = 32,
    memory: int | str | None = None,
    **options: Any,
) -> RunPlan:
    """What `mixlens.explain_data` would take, without doing it: passes in all, batches and peak memory.

    The arguments are those of `explain_data`, and the estimates those of `Lens.plan`, summed over all texts. Every text
    is read, so that lengths are known; none goes through the model. Of one process. Raises as `explain_data` does
    before its work. A CPU's two threads have a batch each: `peak_bytes` is that of both.

    Examples:
        >>> rows = [{"review": "a deep film."}, {"review": "so dull"}]
        >>> plan = mixlens.plan_explain_data(lens, rows, "random", field="review")
        >>> plan.texts, plan.passes, plan.fits
        (2, 2.0, True)
    """
    refuse_no_lens(lens, None)
    setting, chosen, rows = asked_of(
        lens, data, method, options, target, field, task, encoding, truncate, window, stride, batch_size
    )
    subject, kind, name, windows = lens.subject, setting.task, setting.method, setting.windows
    budget, sizes, cost = bytes_of(memory, device_of(lens.model)), sizes_of(subject), chosen.cost(options)
    streams, wholes, lengths, cut = Streams(), list[int](), list[int](), 0

    def cuts(example: Example, tokens: Stream) -> list[int]:
        """The lengths of what a text is explained in."""
        goal = target_of(example, tokens, target, subject.head)
        if windows is not None:
            return windows.lengths(subject, tokens)
        readings(subject, chosen, [tokens], [goal], options)
        return [len(tokens)]

    for whole, each in streams.of(
        lens,
        rows,
        kind,
        limit,
        truncate,
        lambda example, tokens: (len(tokens), cuts(example, tokens)),
        windows is not None,
    ):
        wholes.append(whole)
        lengths += each
        cut += len(each) if len(each) > 1 else 0
    parts = list[Part]()
    if cut:
        parts.append(Part("the windows' answers", cut, most=True))
    if lengths:
        longest = sorted(lengths, reverse=True)[:TOGETHER]
        plan = planned(name, demand(subject, chosen, options), longest, budget, batch_size)
        if divides(lens.model):
            plan = in_threads(plan, demand(subject, chosen, options), longest, batch_size)
        parts.append(Part(name, sum(cost.passes(sizes, n) for n in lengths), plan.time, bool(cut), plan))
    return streams.plan(tuple(parts), wholes, budget)


def in_threads(plan: Plan, wanted: Demand, longest: Sequence[int], batch_size: int) -> Plan:
    """The plan of the longest texts where two threads have a batch of half of them each, in half of the memory; what
    is too large for that comes behind, alone.
    """

    def half(lengths: Sequence[int]) -> Plan:
        return planned(plan.method, wanted, lengths, plan.budget // COUNT, batch_size)

    fitting = [n for n in longest if half([n]).fits]
    if len(fitting) < COUNT:
        return plan
    each = half(fitting[: -(-len(fitting) // COUNT)])
    if len(fitting) < len(longest):
        large = planned(plan.method, wanted, longest[: -len(fitting)], plan.budget, batch_size)
        return replace(plan, batch_size=large.batch_size, peak_bytes=max(large.peak_bytes, COUNT * each.peak_bytes))
    return replace(plan, batch_size=each.batch_size, peak_bytes=COUNT * each.peak_bytes)
