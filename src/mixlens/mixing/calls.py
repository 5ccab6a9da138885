"""One call for the maps of texts: what was asked is checked and planned, the texts are passed, maps are results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from mixlens.aggregate.flow import indices
from mixlens.answer import reading
from mixlens.arguments import checked, refuse_unknown
from mixlens.budget import Demand, sizes_of, within
from mixlens.capture.sight import windows_of
from mixlens.capture.stream import Stream
from mixlens.cost import Cost
from mixlens.decompose import Block
from mixlens.errors import ModelError, TargetError, Undefined, UnknownMethod, did_you_mean
from mixlens.mixing.method import Mixing
from mixlens.mixing.ratio import mixing_ratio as ratio
from mixlens.mixing.table import MIXING
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter
from mixlens.results import LayerMaps, Results
from mixlens.subject import Subject
from mixlens.subject.passes import TextPass
from mixlens.subject.provenance import provenance
from mixlens.subject.several import explained
from mixlens.target import Target

Queries = tuple[int, ...]


def known(name: str, options: Mapping[str, Any]) -> Mixing:
    """The table's line of a mixing method that has these options. Raises UnknownMethod, UnknownOption."""
    if not isinstance(name, str) or name not in MIXING:
        raise UnknownMethod(f"no mixing method {name!r}{did_you_mean(name, MIXING)}")
    mixing = MIXING[name]
    refuse_unknown(name, options, mixing.options())
    return mixing


def mixing_method(subject: Subject, name: str, options: Mapping[str, Any]) -> Mixing:
    """The same as it stands for a model. Raises UnknownMethod, UnknownOption, Undefined."""
    return known(name, options).for_spec(name, subject.spec)


def demand(subject: Subject, mixing: Mixing, options: Mapping[str, Any]) -> Demand:
    """What maps of all texts of a call ask of memory."""
    return Demand(mixing.cost(options), sizes_of(subject))


def maps_of(
    subject: Subject,
    texts: Sequence[Stream],
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
    meta = provenance(subject, tokens, text_pass.off)
    zero = (scores == 0).all(-1)
    if mixing.work != "forward" and bool(zero.any()):
        require_something(name, not bool((scores == 0).all()))
        places = zero.nonzero().tolist()
        meta["zero_rows"] = tuple((*axes, row if rows is None else rows[row]) for *axes, row in places)
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


@settled
@barred
@checked
def mixing(
    subject: Subject,
    /,
    text: Any,
    method: str = "globenc",
    *,
    queries: Sequence[int] | None = None,
    batch_size: int = 32,
    memory: int | str | None = None,
    truncate: bool = False,
    progress: Progress | bool | None = None,
    errors: str = "raise",
    **options: Any,
) -> LayerMaps | Results[Any]:
    """The maps of one text (or a list of texts): how much of each token goes into each, layer by layer.

    Of an encoder-decoder they are the encoder's; what its decoder reads is `Lens.trace`'s.
    `method`: a name of `mixlens.methods()`; `options` are that method's. `queries`: these rows alone (negatives
    count from the end), with less work; not every method can. `batch_size`: at most so many texts at a time;
    `memory`: bytes or "2GB" to stay inside (None: what is free). `truncate`: cut texts over the model's positions
    (recorded in `meta`) instead of refusing them. `progress`: True for a bar, or a function of (done, in all).
    `errors`: of several texts, "raise" what is wrong with one, with its number, or "skip" it: None stands in its
    place, and a warning says so. Raises InputError, MethodError, ModelError, OverBudget.

    Examples:
        >>> maps = lens.mixing("a deep and meaningful film.", method="value_zeroing")
        >>> maps.scores.shape  # layer, query, key
        torch.Size([6, 8, 8])
        >>> lens.mixing("a deep film.", method="alti", queries=[0]).scores.shape
        torch.Size([6, 1, 6])
    """
    subject = subject.encoder
    mixing_method(subject, method, options)
    texts = subject.read(text, truncate)

    def run(numbers: Sequence[int]) -> list[LayerMaps]:
        return maps_of(
            subject,
            texts.of(numbers),
            method,
            options,
            queries=queries,
            batch_size=batch_size,
            memory=memory,
            progress=reporter(progress),
        )

    return explained(run, texts.each, texts.single, errors == "skip")


@settled
@checked
def mixing_ratio(
    subject: Subject, /, text: Any, method: str = "globenc", *, batch_size: int = 32, truncate: bool = False
) -> Tensor | list[Tensor]:
    """(layer, query): the share of each token's new vector that comes from other tokens (Modarressi 2022, Eq. 8).

    `method`: norm, norm_res, norm_resln (post-LN) or globenc. Raises UnknownMethod, Undefined.

    Examples:
        >>> lens.mixing_ratio("a deep film.").shape
        torch.Size([6, 6])
    """
    subject = subject.encoder
    texts = subject.read(text, truncate)
    ran = subject.through(texts.require(), lambda block: ratio(block, method), square=False, batch_size=batch_size)
    ratios = [torch.stack(text_pass.layers) for text_pass in ran]
    return ratios[0] if texts.single else ratios


@settled
@checked
def output_statistics(subject: Subject, /, texts: Any, *, batch_size: int = 32) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each layer's output over all tokens, each (layer, dim), in float64.

    What `value_zeroing` takes as `standardize=`; fit them on a sample of some hundred texts.

    Examples:
        >>> statistics = lens.output_statistics(["a deep film.", "so bad"])
        >>> lens.mixing("a dull film", method="value_zeroing", standardize=statistics).scores.shape
        torch.Size([6, 5, 5])
    """
    subject = subject.encoder
    streams = subject.read(texts).require()
    ran = subject.through(streams, lambda block: block.y, square=False, batch_size=batch_size)
    outputs = torch.cat([torch.stack(text_pass.layers) for text_pass in ran], 1).double()
    return outputs.mean(1), outputs.std(1, correction=0)
