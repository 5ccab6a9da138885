"""Whether what a `Trace` is made of goes together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mixlens.arguments import is_number, is_whole, shown
from mixlens.errors import InputError, NotFinite

if TYPE_CHECKING:
    from mixlens.results.trace import Trace

_PROBABILITIES = ("probability", "target_probability", "foil_probability")


def check(trace: Trace) -> None:
    """Raises InputError, NotFinite for what is no trace."""
    sizes = len(trace.prompt), len(trace.answer)
    if not all(sizes):
        raise InputError(f"expected a prompt and an answer of at least one token, got {sizes[0]} and {sizes[1]}")
    shape = (sizes[1], sum(sizes))
    if tuple(trace.scores.shape) != shape or not trace.scores.is_floating_point():
        raise InputError(
            f"expected scores {shape} of floating point, answer token by source (prompt and answer), got "
            f"{tuple(trace.scores.shape)} of {trace.scores.dtype}"
        )
    if not bool(trace.scores.isfinite().all()):
        raise NotFinite("expected finite scores of a trace, got NaN or infinity among them")
    beyond = trace.scores.triu(sizes[0]).ne(0).nonzero()
    if len(beyond):
        t, j = beyond[0].tolist()
        raise InputError(
            f"expected scores of 0 from source {sizes[0]} + t on for answer token t, which has not read them, got "
            f"{trace.scores[t, j].item()!r} at answer token {t}, source {j}"
        )
    for name in ("targets", "said"):
        if len(getattr(trace, name)) != sizes[1]:
            raise InputError(f"expected {sizes[1]} {name}, one an answer token, got {len(getattr(trace, name))}")
    for row in trace.said:
        for name in _PROBABILITIES:
            if row.get(name) is not None and not (is_number(row[name]) and 0 <= row[name] <= 1 + 1e-6):
                raise InputError(f"expected {name} between 0 and 1, or None, got {shown(row[name])}")
        if not isinstance(row.get("prediction"), (str, int, type(None))):
            raise InputError(f"expected a prediction, a token, or None, got {shown(row['prediction'])}")
    _check_documents(trace.meta.get("documents"), sizes[0])


def _check_documents(documents: Any, size: int) -> None:
    if documents is None:
        return
    if not isinstance(documents, Mapping) or not all(isinstance(name, str) for name in documents):
        raise InputError(f"expected meta['documents'] = {{'name': (first, last)}}, got {shown(documents)}")
    for name, span in documents.items():
        if not (isinstance(span, (tuple, list)) and len(span) == 2 and all(map(is_whole, span))):
            raise InputError(f"expected the tokens of document {name!r} as (first, last), got {shown(span)}")
    end = 0
    for name, (a, b) in sorted(documents.items(), key=lambda item: tuple(item[1])):
        if not end <= a < b <= size:
            raise InputError(
                f"expected documents of at least one token in the prompt's {size} that do not overlap, got {name!r} "
                f"at tokens {(a, b)}"
            )
        end = b
