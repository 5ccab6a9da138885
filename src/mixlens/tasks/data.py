"""Rows of a data set, one at a time: files, tables, `datasets.Dataset`s, hub names, any Python iterable.

A row that cannot be read comes out as the error that says why, so that one of them stops nothing.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mixlens.capture.text import Words
from mixlens.errors import DataError, MissingExtra
from mixlens.tasks import hub
from mixlens.tasks.example import Example
from mixlens.tasks.frames import frame_rows
from mixlens.tasks.labels import Names, arrow_names, class_names
from mixlens.tasks.table import Task

SAMPLE = "sample"  # the bundled sentences


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


def source(data: Any) -> Source:
    """The rows in `data`: a path (.jsonl, .json, .csv, .tsv, .parquet; each also .gz but Parquet; a folder of
    `save_to_disk`), a hub name (`"org/name"`, `"name/config:split"`), a `datasets.Dataset`, a table of pandas, polars
    or Arrow, or an iterable of rows, texts or Examples.

    Raises DataError for what is none of these, MissingExtra.
    """  # fmt: skip
    if isinstance(data, (str, os.PathLike)):
        return _named(os.fspath(data))
    kind = type(data).__name__
    table = frame_rows(data)
    if table is not None:
        return Source(kind, table, len(data), names=arrow_names(getattr(data, "schema", None)))
    if isinstance(data, io.IOBase) or hasattr(data, "readline"):
        raise DataError(f"expected the path of a file, got an open one ({kind}); pass the path, whose ending is read")
    if isinstance(data, Mapping) and data and all(hasattr(split, "features") for split in data.values()):
        raise DataError(f"expected one split, got {', '.join(map(str, data))}; pass data[{next(iter(data))!r}]")
    if isinstance(data, (Mapping, bytes)) or not isinstance(data, Iterable):
        raise DataError(
            "expected a file, a hub name, a datasets.Dataset, a table or an iterable of rows or texts, got "
            f"{kind}; put one text in a list"
        )
    count = len(data) if isinstance(data, Sized) else None
    mark = getattr(data, "_fingerprint", None)  # of a datasets.Dataset: its content and everything done to it
    names = class_names(getattr(data, "features", None))
    return Source(kind, lambda: iter(data), count, mark if isinstance(mark, str) else None, names)


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
        own = {k: v for k, v in row.items() if k not in ("label", "id")}
        return Example(str(row.get("id", number)), own, row.get("label"))
    if isinstance(row, (str, tuple, list, Words)):
        return Example(str(number), row)
    raise DataError(f"expected a row, a text or a mixlens.Example, got {type(row).__name__}: {row!r:.60}")


def digest(row: Any) -> bytes:
    """A row's content as bytes, the same in every run."""
    value = vars(row) if isinstance(row, Example) else str(row) if isinstance(row, Exception) else row
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=True).encode()


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


_READERS: dict[str, Callable[[io.TextIOWrapper], Iterator[Any]]] = {}


def _named(name: str) -> Source:
    if name == SAMPLE:
        from importlib import resources

        with resources.as_file(resources.files("mixlens") / "data" / "sample.jsonl") as path:
            return _file(path)
    path = Path(name)
    if path.is_file():
        return _file(path)
    if path.is_dir() and hub.is_saved(path):
        return replace(source(hub.saved(path)), name=path.name)
    if path.is_dir():
        raise DataError(f"expected a file, got the folder {name}; name the file in it")
    if _kind(path) is not None or path.is_absolute():
        raise DataError(f"expected a file, got no such file: {name}")
    return replace(source(hub.loaded(name)), name=name)


def _kind(path: Path) -> str | None:
    ending = path.name.lower().removesuffix(".gz").rpartition(".")[2]
    return ending if ending in (*_READERS, "parquet") else None


def _file(path: Path) -> Source:
    kind = _kind(path)
    if kind is None:
        known = ", ".join(f".{name}" for name in (*_READERS, "parquet"))
        raise DataError(f"expected a file that ends in {known} (or that and .gz), got {path}")
    with open(path, "rb") as file:
        mark = _sha256(file)
    if kind == "parquet":
        table = _parquet(path)
        names = arrow_names(table.schema_arrow)
        return Source(path.name, lambda: _arrow_rows(table), table.metadata.num_rows, mark, names)

    opener: Callable[..., Any] = gzip.open if path.name.endswith(".gz") else open

    def rows() -> Iterator[Any]:
        with opener(path, "rb") as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as file:
            yield from _READERS[kind](file)

    try:
        return Source(path.name, rows, sum(1 for _ in rows()), mark)
    except UnicodeDecodeError as error:
        raise DataError(
            f"expected UTF-8 in {path}, got byte {error.object[error.start]:#04x}; save it as UTF-8"
        ) from None
    except (OSError, EOFError) as error:
        raise DataError(f"expected a whole file, got: {error}; {path} cannot be read") from None


def _sha256(file: io.BufferedReader) -> str:
    sha = hashlib.sha256()
    while block := file.read(1 << 20):
        sha.update(block)
    return sha.hexdigest()


def _jsonl(file: io.TextIOWrapper) -> Iterator[Any]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError as error:
            yield DataError(f"expected JSON in line {number}, got {line.strip()[:40]!r} ({error})")


def _json(file: io.TextIOWrapper) -> Iterator[Any]:
    try:
        rows = json.load(file)
    except ValueError as error:
        raise DataError(f"expected JSON, got: {error}; is it JSON lines? then name it .jsonl") from None
    if not isinstance(rows, list):
        raise DataError(f"expected a list of rows in a .json file, got {type(rows).__name__}; or write JSON lines")
    yield from rows


def _delimited(sign: str) -> Callable[[io.TextIOWrapper], Iterator[Any]]:
    def rows(file: io.TextIOWrapper) -> Iterator[Any]:
        csv.field_size_limit(1 << 30)
        table = csv.DictReader(file, delimiter=sign, strict=True)
        while True:
            try:
                row = next(table, None)
            except csv.Error as error:
                yield DataError(f"expected {sign!r}-separated values in line {table.line_num}, got: {error}")
                continue
            if row is None:
                return
            if None in row or None in row.values():
                yield DataError(f"expected {len(table.fieldnames or ())} values in line {table.line_num}, got others")
                continue
            yield row

    return rows


_READERS |= {"jsonl": _jsonl, "json": _json, "csv": _delimited(","), "tsv": _delimited("\t")}


def _parquet(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra('Parquet needs pyarrow, which is not installed: pip install "mixlens[parquet]"') from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        raise DataError(f"expected a Parquet file, got: {error} ({path})") from None


def _arrow_rows(table: Any) -> Iterator[Any]:
    for batch in table.iter_batches(batch_size=1024):
        yield from batch.to_pylist()
