"""A result as plain data that JSON can hold: the keys that all results have, and what each kind adds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mixlens.capture.stream import Stream
from mixlens.packing import plain

if TYPE_CHECKING:
    from mixlens.results.base import Result


def with_origin(result: Result, values: Mapping[str, Any]) -> dict[str, Any]:
    """Text, tokens, scores and places; `values`, the kind's own; then method, options, model and meta.

    Tuples become lists, tensors among the options their summary (see `packing`), infinities and NaN among the meta
    strings, since JSON knows none.
    """
    row = described(result.source)
    return {
        "text": row.pop("text"),
        "tokens": row.pop("tokens"),
        "scores": result.scores.detach().cpu().tolist(),
        **row,
        **values,
        "method": result.method,
        "options": plain(result.options),
        "model": plain(result.meta.get("model")),
        "meta": plain(result.meta),
    }


def described(stream: Stream) -> dict[str, Any]:
    """A stream for readers of JSON."""
    out: dict[str, Any] = {
        "text": list(stream.raw) if isinstance(stream.raw, tuple) else stream.raw,
        "tokens": list(stream.names),
        "offsets": None if stream.offsets is None else [None if o is None else list(o) for o in stream.offsets],
        "special": list(stream.special),
    }
    if stream.places is not None and stream.offsets is None:
        out["places"] = {axis: plain(column) for axis, column in stream.columns().items()}
    return out
