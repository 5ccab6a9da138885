"""Rows as plain data, and the same as CSV, Parquet and a pandas table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mixlens.arguments import checked
from mixlens.files import PathLike, csv_text, put, write_parquet

if TYPE_CHECKING:
    import pandas


class Tabled:
    """What a result needs to be a table: `to_dicts`, and the kinds of its columns."""

    _columns: ClassVar[dict[str, str]]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Tidy rows as plain data, a row a score."""
        raise NotImplementedError

    def to_frame(self) -> pandas.DataFrame:
        """The rows of `to_dicts` as a table. Needs the extra `pandas`. Raises MissingExtra."""
        from mixlens.view import trace

        return trace.data_frame(self, self._columns)

    to_pandas = to_frame

    @checked
    def to_csv(self, path: PathLike | None = None) -> str:
        """The rows of `to_dicts` as CSV, every number to the last bit; written to `path` if given.

        Raises ResultFileError.
        """
        return put(csv_text(tuple(self._columns), self.to_dicts()), path)

    @checked
    def to_parquet(self, path: PathLike) -> Path:
        """Write the rows of `to_dicts` as Parquet. Needs the extra `parquet`. Raises MissingExtra, ResultFileError."""
        return write_parquet(path, self._columns, self.to_dicts())
