"""One call for the maps of texts: what was asked is checked and planned, the texts are passed, maps are results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from mixlens.aggregate.flow import indices
from mixlens.answer import reading
from mixlens.arguments import refuse_unknown
from mixlens.budget import Demand, sizes_of, within
from mixlens.capture.sight import windows_of
from mixlens.capture.text import Tokens
from mixlens.cost import Cost
from mixlens.decompose import Block
from mixlens.errors import ModelError, TargetError, Undefined, UnknownMethod, did_you_mean
from mixlens.mixing.method import Mixing
from mixlens.mixing.ratio import mixing_ratio
from mixlens.mixing.table import MIXING
from mixlens.progress import Progress
from mixlens.results import LayerMaps
from mixlens.subject import Subject
from mixlens.subject.passes import TextPass
from mixlens.subject.provenance import provenance
from mixlens.target import Target

Queries = tuple[int, ...]


def mixing_method(subject: Subject, name: str, options: Mapping[str, Any]) -> Mixing:
    """The table's line of a mixing method. Raises UnknownMethod, UnknownOption, Undefined."""
    if not isinstance(name, str) or name not in MIXING:
        raise UnknownMethod(f"no mixing method {name!r}{did_you_mean(name, MIXING)}")
    mixing = MIXING[name]
    refuse_unknown(name, options, mixing.options())
    if not mixing.defined(subject.spec):
        raise Undefined(
            f"{name} is defined for {', '.join(mixing.orders)}-LN layers, this model's are {subject.spec.order}-LN: no "
            "norm follows their residual sum; use norm_res or globenc"
        )
    return mixing


def demand(subject: Subject, mixing: Mixing, options: Mapping[str, Any]) -> Demand:
    """What maps of all texts of a call ask of memory."""
    return Demand(mixing.cost(options), sizes_of(subject))


def maps_of(
    subject: Subject,
    texts: Sequence[Tokens],
    name: str,
    options: Mapping[str, Any],
    *,
    queries: Sequence[int] | None = None,
    batch_size: int = 32,
    memory: int | str | None = None,
    progress: Progress | None = None,
) -> list[LayerMaps]:
    """The maps of each text; `queries`: row-wise, these rows.

    Raises UnknownMethod, UnknownOption, Undefined, ModelError, OverBudget.
    """
    mixing = mixing_method(subject, name, options)
    lengths = [len(tokens) for tokens in texts]
    rows = _asked_rows(queries, name, lengths)
    needed = demand(subject, mixing, options)
    _, size = within(name, needed, lengths, memory, batch_size, _costs, mixing.queries)
    wanted = None if rows is None else lambda text, layer: rows[text]
    ran = subject.through(texts, mapper(name, options), wanted=wanted, batch_size=size, progress=progress)
    return [
        layer_maps(subject, text_pass, torch.stack(text_pass.layers), name, options, rows=rows[i] if rows else None)
        for i, text_pass in enumerate(ran)
    ]


def ratios(subject: Subject, texts: Sequence[Tokens], name: str, batch_size: int) -> list[Tensor]:
    """The mixing ratio of each layer and token (layer, query), of each text. Raises UnknownMethod, Undefined."""
    ran = subject.through(texts, lambda block: mixing_ratio(block, name), square=False, batch_size=batch_size)
    return [torch.stack(text_pass.layers) for text_pass in ran]


def output_statistics(subject: Subject, texts: Sequence[Tokens], batch_size: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each layer's output over all tokens, each (layer, dim), in float64."""
    ran = subject.through(texts, lambda block: block.y, square=False, batch_size=batch_size)
    outputs = torch.cat([torch.stack(text_pass.layers) for text_pass in ran], 1).double()
    return outputs.mean(1), outputs.std(1, correction=0)


def mapper(name: str, options: Mapping[str, Any]) -> Callable[[Block], Tensor]:
    """The mixing method as a function of a Block alone."""
    return lambda block: MIXING[name].function(block, **options)


def layer_maps(
    subject: Subject,
    text_pass: TextPass,
    scores: Tensor,
    name: str,
    options: Mapping[str, Any],
    *,
    rows: Queries | None = None,
) -> LayerMaps:
    """The LayerMaps of one text: of all rows, or of `rows`. Raises ModelError where all maps are zero."""
    mixing, tokens = MIXING[name], text_pass.tokens
    meta = provenance(subject, tokens)
    zero = (scores == 0).all(-1)
    if mixing.needs != "forward" and bool(zero.any()):
        require_something(name, not bool((scores == 0).all()))
        found = zero.nonzero().tolist()
        meta["zero_rows"] = tuple((*axes, row if rows is None else rows[row]) for *axes, row in found)
    with suppress(TargetError):  # the row that views show; where none is known they show the mean
        row = reading(subject.head, tokens, Target()).row
        if row is not None:
            meta["readout"] = row
    causal, windows = windows_of(text_pass.sights, len(tokens))
    return LayerMaps(
        source=tokens,
        scores=scores,
        method=name,
        options=dict(options),
        meta=meta,
        rows_sum_to_one=mixing.rows_sum_to_one and options.get("normalize") is not False,
        holds_residual=mixing.holds_residual,
        signed=mixing.signed,
        causal=causal,
        windows=windows,
        rows=rows,
    )


def require_something(name: str, something: bool) -> None:
    """Raises ModelError for maps that are zero everywhere."""
    if not something:
        raise ModelError(f"{name} is zero everywhere: no token reaches any other; the model ignores its input")


def _asked_rows(queries: Sequence[int] | None, name: str, lengths: Sequence[int]) -> list[Queries] | None:
    """The query rows of each text, negatives counted from its end. Raises Undefined, UnknownOption."""
    if queries is None:
        return None
    if not MIXING[name].queries:
        can = ", ".join(name for name, mixing in MIXING.items() if mixing.queries)
        raise Undefined(f"{name} has no row-wise map; leave queries= out, or use one of {can}")
    return [indices("queries", queries, n) for n in lengths]


def _costs() -> dict[str, Cost]:
    return {name: mixing.costs for name, mixing in MIXING.items()}
