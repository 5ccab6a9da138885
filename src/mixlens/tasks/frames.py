"""Rows of tables in memory: pandas, polars and Arrow, known by what they can do, so that none need be installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mixlens.tasks.formats import refuse_twins

_AT_ONCE = 1024  # rows that are Python objects together

Reader = Callable[[], Iterator[Any]]


def frame_rows(data: Any) -> Reader | None:
    """The rows of a table as mappings, what is missing as None; None for what is no table. Raises DataError."""
    slice_of = _slices(data)
    if slice_of is None:
        return None
    refuse_twins(getattr(data, "column_names", data.columns))  # (Arrow's columns are the numbers)

    def rows() -> Iterator[Any]:
        for start in range(0, len(data), _AT_ONCE):
            yield from slice_of(start)

    return rows


def _slices(data: Any) -> Callable[[int], list[dict[str, Any]]] | None:
    if not hasattr(data, "columns") or not hasattr(data, "__len__"):
        return None
    if hasattr(data, "to_pylist"):  # pyarrow
        return lambda start: data.slice(start, _AT_ONCE).to_pylist()
    if hasattr(data, "to_dicts"):  # polars
        return lambda start: data.slice(start, _AT_ONCE).to_dicts()
    if hasattr(data, "to_dict") and hasattr(data, "iloc"):  # pandas
        return lambda start: _pandas(data.iloc[start : start + _AT_ONCE])
    return None


def _pandas(part: Any) -> list[dict[str, Any]]:
    return part.astype(object).where(part.notna(), None).to_dict("records")  # NaN is how pandas says None
