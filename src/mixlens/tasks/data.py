"""Rows of a data set, one at a time: files, tables, `datasets.Dataset`s, hub names, any Python iterable.

A row that cannot be read comes out as the error that says why, so that one of them stops nothing.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from mixlens.capture.given import Words
from mixlens.errors import DataError, UnknownOption, missing
from mixlens.tasks import hub
from mixlens.tasks.classes import Names, arrow_names, class_names
from mixlens.tasks.example import Example
from mixlens.tasks.formats import READERS, check_encoding, encoding_of, refuse_twins
from mixlens.tasks.frames import frame_rows
from mixlens.tasks.stores import Stored, opened, stored, unzipped
from mixlens.tasks.table import Task

SAMPLE = "sample"  # the bundled sentences
_LATER = ("prompt", "documents", "gold", "units")  # fields that examples of older runs did not have


@dataclass(frozen=True)
class Source:
    """Where rows come from. `fingerprint`: of all of them, where that is cheap; `count`: how many, where known.

    `names`: those of the classes, where the data's features hold them.
    """

    name: str
    rows: Callable[[], Iterator[Any]]
    count: int | None = None
    fingerprint: str | None = None
    names: Names = field(default_factory=dict)


def source(data: Any, encoding: str | None = None) -> Source:
    """The rows in `data`: a path (.jsonl, .json, .csv, .tsv, .txt, .parquet; each also .gz but Parquet; a folder of
    `save_to_disk`), such a file's address ("s3://bucket/rows.parquet"; the extra `parquet`), a hub name (`"org/name"`,
    `"name/config:split"`), a `datasets.Dataset`, a table of pandas, polars or Arrow, or an iterable of rows, texts or
    Examples. `encoding`: of a text file; None: by its byte order mark, else UTF-8.

    Raises DataError for what is none of these, UnknownOption, MissingExtra.
    """  # fmt: skip
    if encoding is not None:
        check_encoding(encoding)
    if isinstance(data, (str, os.PathLike)):
        return _named(os.fspath(data), encoding)
    kind = type(data).__name__
    if encoding is not None:
        raise _unread(encoding, kind)
    table = frame_rows(data)
    if table is not None:
        return Source(kind, table, len(data), names=arrow_names(getattr(data, "schema", None)))
    if isinstance(data, io.IOBase) or hasattr(data, "readline"):
        raise DataError(f"expected the path of a file, got an open one ({kind}); pass the path, whose ending is read")
    if isinstance(data, Mapping) and data and all(hasattr(split, "features") for split in data.values()):
        raise DataError(f"expected one split, got {', '.join(map(str, data))}; pass data[{next(iter(data))!r}]")
    if isinstance(data, (Mapping, bytes)) or not isinstance(data, Iterable) or getattr(data, "ndim", 1) == 0:
        raise DataError(
            "expected a file, a hub name, a datasets.Dataset, a table or an iterable of rows or texts, got "
            f"{kind}; put one text in a list"
        )
    count = len(data) if isinstance(data, Sized) else None
    mark = getattr(data, "_fingerprint", None)  # of a datasets.Dataset: its content and everything done to it
    names = class_names(getattr(data, "features", None))
    data = _unformatted(data)
    return Source(kind, lambda: iter(data), count, mark if isinstance(mark, str) else None, names)


def _unformatted(data: Any) -> Any:
    """A data set of `datasets` whose rows are mappings of Python's own values, whatever its `set_format` says."""
    if not hasattr(data, "with_format"):
        return data
    form = getattr(data, "format", None)
    if isinstance(form, Mapping):
        plain = form.get("type") in (None, "custom")  # a transform of one's own stays
        return data if plain else data.with_format(None, columns=form.get("columns"))
    streamed = getattr(getattr(data, "_formatting", None), "format_type", None)
    return data if streamed in (None, "custom") else data.with_format(None)


def _unread(encoding: str, source: str) -> UnknownOption:
    return UnknownOption(f"encoding={encoding!r} would be ignored: it says how a text file is read, got {source}")


def example(row: Any, number: int, task: Task, mask: str | None) -> Example:
    """The Example that a row is: as it is, from a text alone, or by the task's columns. Raises DataError."""
    if isinstance(row, Example):
        return row
    if isinstance(row, Mapping) and "input_ids" not in row:
        return task.read(row, number, mask)
    if isinstance(row, Exception):
        raise row
    if isinstance(row, str) and task.name not in ("classification", "rationales"):
        raise DataError(f"expected rows with the columns of the task {task.name}, got a text alone: {row!r:.60}")
    if isinstance(row, list) and not all(isinstance(i, int) for i in row):
        raise DataError(
            f"expected token ids in a list, got {row!r:.60}; a pair of texts is a tuple, split words are mixlens.Words"
        )
    if isinstance(row, Mapping):  # model inputs, and perhaps a label and a name
        inputs = {k: v for k, v in row.items() if k not in ("label", "id")}
        return Example(str(row.get("id", number)), inputs, row.get("label"))
    if isinstance(row, (str, tuple, list, Words)):
        return Example(str(number), row)
    raise DataError(f"expected a row, a text or a mixlens.Example, got {type(row).__name__}: {row!r:.60}")


def digest(row: Any) -> bytes:
    """A row's content as bytes, the same in every run. Raises DataError."""
    value = str(row) if isinstance(row, Exception) else row
    if isinstance(row, Example):
        value = {k: v for k, v in vars(row).items() if k not in _LATER or v is not None}
    try:
        return json.dumps(_plain(value), sort_keys=True, ensure_ascii=True).encode()
    except RecursionError:
        raise DataError("expected rows of a few lists in lists, got one that is nested too deep") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return str(value)


def _named(name: str, encoding: str | None) -> Source:
    if name == SAMPLE and encoding is None:
        from importlib import resources

        with resources.as_file(resources.files("mixlens") / "data" / "sample.jsonl") as path:
            return _file(path, None)
    if "://" in name:
        return _file(stored(name), encoding)
    path = Path(name)
    try:
        is_file = path.is_file()
    except (OSError, ValueError) as error:  # a name that no file can have
        raise DataError(f"expected the name of a file, got {name!r:.80} ({error})") from None
    if is_file:
        return _file(path, encoding)
    if encoding is not None and (path.is_dir() or _kind(path) is None):
        raise _unread(encoding, name)
    if path.is_dir() and hub.is_saved(path):
        return replace(source(hub.saved(path)), name=path.name)
    if path.is_dir():
        raise DataError(f"expected a file, got the folder {name}; name the file in it")
    if _kind(path) is not None or path.is_absolute():
        raise DataError(f"expected a file, got no such file: {name}")
    return replace(source(hub.loaded(name)), name=name)


def _kind(path: Path | Stored) -> str | None:
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    return ending if ending in (*READERS, "parquet") else None


def _file(path: Path | Stored, encoding: str | None) -> Source:
    kind = _kind(path)
    if kind is None:
        known = ", ".join(f".{name}" for name in (*READERS, "parquet"))
        raise DataError(f"expected a file that ends in {known} (or that and .gz), got {path}")
    here = isinstance(path, Path)  # else neither a digest nor a count is worth another reading: windows have digests
    try:
        with opened(path) as file:
            mark = _sha256(file) if here else None
    except OSError as error:
        raise DataError(f"expected a file that can be read, got: {error}; check its rights") from None
    if kind == "parquet":
        if encoding is not None:
            raise _unread(encoding, path.name)
        table = _parquet(path)
        refuse_twins(table.schema_arrow.names)
        names = arrow_names(table.schema_arrow)
        return Source(path.name, lambda: _arrow_rows(table, path), table.metadata.num_rows, mark, names)

    def rows() -> Iterator[Any]:
        with unzipped(path) as raw:
            codec = encoding_of(raw, encoding)
            raw.seek(0)
            with io.TextIOWrapper(raw, codec, newline="") as file:
                yield from READERS[kind](file)

    try:
        return Source(path.name, rows, sum(1 for _ in rows()) if here else None, mark)
    except UnicodeError as error:
        position = f"byte {error.object[error.start]:#04x}" if isinstance(error, UnicodeDecodeError) else str(error)
        raise DataError(
            f"expected {encoding or 'UTF-8'} in {path}, got {position}; save it as UTF-8, or pass its encoding= "
            "('latin-1', 'utf-16', ...)"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"expected a whole file, got: {error}; {path} cannot be read") from None


def _sha256(file: IO[bytes]) -> str:
    sha = hashlib.sha256()
    while block := file.read(1 << 20):
        sha.update(block)
    return sha.hexdigest()


def _parquet(path: Path | Stored) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing("Parquet", "pyarrow", "parquet") from None
    try:
        return pyarrow.parquet.ParquetFile(path if isinstance(path, Path) else opened(path))
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"expected a Parquet file, got: {error} ({path})") from None


def _arrow_rows(table: Any, path: Path | Stored) -> Iterator[Any]:
    import pyarrow

    try:
        for batch in table.iter_batches(batch_size=1024):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:  # a page, not the footer
        reason = " ".join(str(error).split())
        raise DataError(f"expected a whole Parquet file, got: {reason}; {path} cannot be read") from None
