"""A row's columns by the names that a task has for them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from mixlens.errors import DataError
from mixlens.tasks.example import Chars
from mixlens.tasks.formats import loads

DataRow = Mapping[str, Any]


def column_of(name: str, columns: Collection[Any]) -> Any | None:
    """The column of this name, else the one that differs from it in case or in blanks around it alone; None: none.

    Raises DataError where several do.
    """
    if name in columns:
        return name
    folded = name.casefold()
    matches = [c for c in columns if isinstance(c, str) and c.strip().casefold() == folded]
    if len(matches) > 1:
        raise DataError(f"expected one column {name!r}, got {', '.join(map(repr, matches))}; rename all but one")
    return matches[0] if matches else None


@dataclass(frozen=True)
class Fields:
    """A row's columns by the task's own names. `names`: field -> the columns that may hold it, the first there is."""

    row: DataRow
    names: Mapping[str, tuple[str, ...]]

    def find(self, field: str) -> Any:
        """The field's value; None where the row has none. Raises DataError."""
        columns = (column_of(name, self.row) for name in self.names.get(field, ()))
        return next((v for name in columns if name is not None and (v := self.row[name]) is not None), None)

    def label(self) -> str | int | None:
        """The label as it is; numpy's and Arrow's numbers as Python's. Raises DataError."""
        value = self.find("label")
        if value is None or isinstance(value, str):
            return value
        if whole(value):
            return int(value)
        raise DataError(f"expected a label's name or number, got {type(value).__name__}: {value!r:.40}")

    def need(self, field: str) -> Any:
        """The field's value. Raises DataError."""
        value = self.find(field)
        if value is None:
            empty = next((c for name in self.names[field] if (c := column_of(name, self.row)) is not None), None)
            if empty is not None:
                raise DataError(f"expected a value in {empty!r} for {field!r}, got null; fill it or leave the row out")
            wanted = " or ".join(repr(name) for name in self.names[field])
            column = self._near(field) or "COLUMN"
            raise DataError(
                f"expected a column {wanted} for {field!r}, got {', '.join(map(str, self.row))}; "
                f"name it: mixlens.task(..., {field}={column!r}), or --field {shlex.quote(f'{field}={column}')}"
            )
        return value

    def _near(self, field: str) -> str | None:
        """The column whose name is nearest to one that was looked for; None where none is near."""
        columns = {str(name).lower(): str(name) for name in self.row}
        wanted = (str(name).lower() for name in self.names[field])
        near = (match for name in wanted for match in get_close_matches(name, columns, n=1, cutoff=0.7))
        return next((columns[match] for match in near), None)

    def text(self, field: str) -> str:
        """The field's value as a str. Raises DataError."""
        value = self.need(field)
        if not isinstance(value, str):
            raise DataError(f"expected text in {field!r}, got {type(value).__name__}: {value!r:.60}")
        return value

    def spans(self, field: str) -> tuple[Chars, ...] | None:
        """[start, end) pairs, also as JSON text (CSV) or as one pair; None where the row has none. Raises DataError."""
        value = listed(self.find(field))
        if value is None:
            return None
        pairs = [value] if len(value) == 2 and all(whole(v) for v in value) else value
        try:
            out = tuple((int(start), int(end)) for start, end in pairs)
        except (TypeError, ValueError):
            raise DataError(f"expected [start, end) characters in {field!r}, got {value!r:.60}") from None
        for start, end in out:
            if not 0 <= start < end:
                raise DataError(f"expected [start, end) with 0 <= start < end in {field!r}, got [{start}, {end})")
        return out


def whole(value: Any) -> bool:
    """Whether a value is a whole number, as whatever type."""
    if isinstance(value, bool):
        return False
    try:
        return int(value) == float(value)
    except (TypeError, ValueError):
        return False


def listed(value: Any, opens: str = "[") -> Any:
    """A list, or SQuAD's mapping of lists, that a CSV file holds as JSON text."""
    if isinstance(value, str) and value.lstrip().startswith(tuple(opens)):
        try:
            return loads(value)
        except ValueError:
            return value
    return plain(value)


def plain(value: Any) -> Any:
    """numpy's arrays as lists."""
    return value.tolist() if hasattr(value, "tolist") else value
