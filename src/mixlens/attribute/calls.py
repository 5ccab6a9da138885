"""One call for the scores of texts: what was asked is checked and planned, and the methods that share a pass run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mixlens.answer import Reading, reading
from mixlens.attribute.method import Method
from mixlens.attribute.names import known
from mixlens.attribute.request import Request
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.budget import Demand, sizes_of, within
from mixlens.capture.batch import BatchSize
from mixlens.capture.stream import Stream
from mixlens.cost import Cost
from mixlens.errors import NotFinite, Undefined
from mixlens.progress import Progress
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.finite import bad_weights, not_finite
from mixlens.target import Target


def attribution_method(subject: Subject, name: str, options: Mapping[str, Any]) -> Method:
    """The table's line of an attribution method. Raises UnknownMethod, UnknownOption, Undefined."""
    chosen = known(name, options).for_spec(subject.spec).for_head(subject.head)
    if subject.head.task in ("sequence", "question", "ctc"):
        _refuse_readout(name, chosen, options)
    return chosen


def _refuse_readout(name: str, chosen: Method, options: Mapping[str, Any]) -> None:
    """Raises Undefined for a row that the method would not look at."""
    if options.get("readout") is not None and not chosen.reads_row(options):
        raise Undefined(f"{name} explains the answer itself, no row of the last layer; leave readout= out, or use alti")


def readings(
    subject: Subject, chosen: Method, texts: Sequence[Stream], targets: Sequence[Target], options: Mapping[str, Any]
) -> list[Reading]:
    """Where each text's answer stands. Raises TargetError, UnknownOption, Undefined."""
    row, rowed = options.get("readout"), chosen.reads_row(options)
    reads = [reading(subject.head, text, goal, row, rowed) for text, goal in zip(texts, targets, strict=True)]
    if row is not None and not rowed and any(read.answered and read.row != read.at for read in reads):
        raise Undefined(
            f"{chosen.name} reads the row that answers; leave readout= out, or ask for another answer: "
            "mixlens.Target(position=...)"
        )
    return reads


def demand(subject: Subject, chosen: Method, options: Mapping[str, Any], together: int = 1) -> Demand:
    """What the method asks of memory, beside `together - 1` others that share its pass."""
    return Demand(chosen.cost(options), sizes_of(subject), together)


def room_for(
    subject: Subject,
    name: str,
    chosen: Method,
    options: Mapping[str, Any],
    lengths: Sequence[int],
    memory: Any,
    batch_size: int,
    together: int = 1,
    beside: int = 0,
) -> tuple[int, BatchSize]:
    """The batch sizes that stay inside `memory`: of the longest texts, and of each length; `beside`: bytes that a text
    holds beside the method's. Raises OverBudget.
    """
    wanted = replace(demand(subject, chosen, options, together), beside=beside)
    return within(name, wanted, lengths, memory, batch_size, _costs)


def request(
    subject: Subject,
    name: str,
    options: Mapping[str, Any],
    targets: Sequence[Target],
    texts: Sequence[Stream],
    batch_size: int,
    progress: Progress | None,
    memory: Any = None,
    together: int = 1,
) -> Request[Method]:
    """A checked Request; `together`: how many share its pass.

    Raises UnknownMethod, UnknownOption, Undefined, TargetError, OverBudget.
    """
    chosen = attribution_method(subject, name, options)
    defaults = chosen.options()
    lengths = [len(tokens) for tokens in texts]
    size, sizes = room_for(subject, name, chosen, options, lengths, memory, batch_size, together)
    return Request(
        name=name,
        method=chosen,
        options={k: v for k, v in options.items() if k in defaults},
        texts=texts,
        reads=readings(subject, chosen, texts, targets, options),
        normalize=bool(options.get("normalize", True)),
        batch_size=size,
        sizes=sizes,
        progress=progress,
        written=dict(options),
    )


def together(methods: Sequence[tuple[Method, Mapping[str, Any]]]) -> list[list[int]]:
    """The numbers of the methods, asked for with these options, that share a pass; each in one list."""
    groups: dict[Hashable, list[int]] = {}
    for number, (chosen, options) in enumerate(methods):
        shared = chosen.shares(options)
        groups.setdefault((None, number) if shared is None else shared, []).append(number)
    return list(groups.values())


def attributions(subject: Subject, asks: Sequence[Request[Method]]) -> list[list[Attribution]]:
    """What each of several requests that share a pass asks for, a list a request; NaN weights are named.

    Results are tensors that can be differentiated: whoever calls this is `settled`.
    """
    try:
        return asks[0].method.run(subject, asks)
    except NotFinite:
        if bad_weights(subject.model):
            raise not_finite(subject.model, "a weight") from None
        raise


def _costs() -> dict[str, Cost]:
    return {name: line.cost({}) for name, line in ATTRIBUTIONS.items() if not line.baseline}
