"""Writing a file whole or not at all, and rows as CSV or Parquet."""

from __future__ import annotations

import csv
import io
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mixlens.errors import MissingExtra, ResultFileError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the name `path` when the block ends well and is gone when it fails.

    So a killed run leaves the old file or the new one, never half of one. Raises ResultFileError where the folder is
    missing or cannot be written to.
    """
    path = Path(path)
    folder = path.parent
    if not folder.is_dir():
        raise ResultFileError(f"expected an existing folder to write {path.name} to, got {folder}; create it first")
    if path.is_dir():
        raise ResultFileError(f"expected the path of a file, got the folder {path}; add a file name")
    temporary = folder / f".{path.name[:80]}.{uuid.uuid4().hex}.tmp"
    try:
        temporary.touch(exist_ok=False)
        rights = temporary.stat().st_mode & 0o777  # what the umask gives; some writers give the owner's alone
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())  # the bytes before the name
        temporary.chmod(rights)
        os.replace(temporary, path)
    except OSError as error:
        if isinstance(error, ResultFileError):
            raise
        reason = error.strerror or str(error)
        raise ResultFileError(f"expected to write {path}, got: {reason}; check rights and space") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write `text` as UTF-8, whole or not at all. Raises ResultFileError."""
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode("utf-8", "replace"))
    return Path(path)


def put(text: str, path: str | os.PathLike[str] | None) -> str:
    """The text, written to `path` if given. Raises ResultFileError."""
    if path is not None:
        write_text(path, text)
    return text


def csv_text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV under the names of their columns: every number to the last bit, nothing for None."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(["" if row[name] is None else row[name] for name in columns])
    return out.getvalue()


def write_parquet(path: str | os.PathLike[str], kinds: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows as Parquet; `kinds`: column -> "float", "int", "bool", anything else being a string.

    Raises MissingExtra, ResultFileError.
    """
    arrow = parquet()
    types = {"float": arrow.float64(), "int": arrow.int64(), "bool": arrow.bool_()}
    schema = arrow.schema([(name, types.get(kind, arrow.string())) for name, kind in kinds.items()])
    with replacing(path) as temporary:
        arrow.parquet.write_table(arrow.Table.from_pylist(rows, schema=schema), temporary)
    return Path(path)


def parquet() -> Any:
    """pyarrow with its Parquet writer. Raises MissingExtra where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra('Parquet needs pyarrow, which is not installed: pip install "mixlens[parquet]"') from None
    return pyarrow
