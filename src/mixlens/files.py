"""Writing a file whole or not at all, rows as CSV or Parquet, and reading one that may be zipped."""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import stat
import tempfile
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from mixlens.errors import ResultFileError, missing
from mixlens.escape import guard

PathLike = str | os.PathLike[str]
_HOST = f"{zlib.crc32(platform.node().encode()):08x}"  # a folder may be shared by machines, and they count alike
_LEFT = re.compile(r"\.([0-9a-f]{8})-(\d+)-[0-9a-f]{32}\.tmp")
_OPEN: set[str] = set()  # the names of this process's own, whose number a killed one may have had before
_OLD = 24 * 3600.0  # seconds: nothing that another machine writes takes longer
_NAME = 80  # bytes of the file's own name in that of its temporary one: a name has at most 255


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to; what stands there takes the name `path` when the block ends well and is gone when it fails.

    So a killed run leaves the old file or the new one, never half of one; what it left beside them is removed by the
    next write to that name. A symlink stays and its target is replaced; a device or a pipe is written through. Raises
    ResultFileError for a read-only file, a folder, an empty path, and where nothing can be written.
    """
    path = path_of(path, "name a file, or pass None to write none")
    with writing(path):
        if path.is_dir():
            raise ResultFileError(f"expected the path of a file, got the folder {path}; add a file name")
        if _is_device(path):
            with tempfile.TemporaryDirectory(prefix="mixlens-") as folder:
                temporary = Path(folder) / "file"
                yield temporary
                with open(temporary, "rb") as made, open(path, "wb") as device:
                    shutil.copyfileobj(made, device)
            return
        target = Path(os.path.realpath(path))  # of a link; of one that leads nowhere, what it would lead to
        rights = _rights(target)
        if not target.parent.is_dir():
            raise ResultFileError(
                f"expected an existing folder to write {path.name} to, got {target.parent}; create it first"
            )
        with suppress(OSError):  # a folder that may be written to and not be looked into
            _clean(target)
        temporary = target.parent / f"{_stem(target)}.{_HOST}-{os.getpid()}-{uuid.uuid4().hex}.tmp"
        _OPEN.add(temporary.name)
        try:
            temporary.touch(exist_ok=False)
            rights = temporary.stat().st_mode & 0o777 if rights is None else rights  # some writers give others
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())  # the bytes before the name
            temporary.chmod(rights)
            os.replace(temporary, target)
        finally:
            _OPEN.discard(temporary.name)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raises ResultFileError for whatever the system says against writing to `path`."""
    try:
        yield
    except ResultFileError:
        raise
    except OSError as error:
        raise ResultFileError(
            f"expected to write {path}, got: {error.strerror or error}; check rights and space"
        ) from error
    except ValueError as error:
        if "null byte" not in str(error) and "null character" not in str(error):  # a zero byte in the name
            raise
        raise ResultFileError(f"expected the path of a file, got {os.fspath(path)!r}: {error}") from error


def allocate(path: str | os.PathLike[str]) -> None:
    """Take the space of a file that has its size already: a full disk is an OSError then.

    Where it shows only as a mapped page is written, it ends the process.
    """
    if hasattr(os, "posix_fallocate") and (size := os.path.getsize(path)):
        with open(path, "rb+") as file:
            os.posix_fallocate(file.fileno(), 0, size)


def folder_of(path: str | os.PathLike[str]) -> Path:
    """The path of a folder. Raises ResultFileError for an empty one, which would mean the one that one stands in."""
    return path_of(path, "name it, '.' being this one (out='.')", "folder")


def path_of(path: Any, instead: str, kind: str = "file") -> Path:
    """What a path names; `instead`: what to pass where it is empty. Raises ResultFileError for what is no path."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise ResultFileError(f"expected the path of a {kind}, got {type(path).__name__}: {path!r:.60}")
    if not os.fspath(path):
        raise ResultFileError(f"expected the path of a {kind}, got an empty one; {instead}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise ResultFileError(f"expected the path of a {kind}, got {os.fspath(path)!r:.80}: {error.reason}") from error
    return Path(path)


def _is_device(path: Path) -> bool:
    """Whether what stands there is written through: a device, a pipe, an open file of this process by its number."""
    text = os.path.abspath(path)
    link = os.readlink(text) if os.path.islink(text) else ""
    if text.startswith(("/dev/fd/", "/proc/")) or link.startswith("/proc/"):
        return os.path.exists(text)
    try:
        return not stat.S_ISREG(os.stat(text).st_mode)
    except FileNotFoundError:
        return False


def _rights(target: Path) -> int | None:
    """Those of the file that is replaced; None where there is none. Raises ResultFileError where it is read-only."""
    try:
        rights = stat.S_IMODE(target.stat().st_mode) & 0o777
    except FileNotFoundError:
        return None
    if not rights & 0o222 or not os.access(target, os.W_OK):  # the system lets root write to it all the same
        raise ResultFileError(f"expected a file that may be written, got a read-only one: {target}; name another")
    return rights


def _stem(target: Path) -> str:
    """How the names of temporary files of a target begin."""
    return "." + target.name.encode("utf-8", "surrogateescape")[:_NAME].decode("utf-8", "ignore")


def _clean(target: Path) -> None:
    """Remove what killed writes to this name left: files of processes that are no more, or old ones."""
    if os.name != "posix":  # elsewhere there is no asking after a process
        return
    stem = _stem(target)
    for other in os.scandir(target.parent):
        match = _LEFT.fullmatch(other.name[len(stem) :]) if other.name.startswith(stem) else None
        if match is None or other.name in _OPEN:
            continue
        here = match[1] == _HOST
        if not _alive(int(match[2])) if here else time.time() - other.stat().st_mtime > _OLD:
            with suppress(OSError):
                os.unlink(other.path)


def _alive(process: int) -> bool:
    if process == os.getpid():  # and it is none of `_OPEN`
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def unzipped(path: str | os.PathLike[str]) -> IO[bytes]:
    """A file to read as bytes, unzipped where its name ends in `.gz`. Raises OSError."""
    if os.fspath(path).lower().endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb")


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


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV under the names of their columns: every number to the last bit, nothing for None.

    Texts that a spreadsheet would run (`=`, `+`, `-`, `@` first) have a quote in front; `mixlens.evaluate` and whatever
    else reads data takes it away again.
    """
    lines = [",".join(map(_cell, columns)), *(",".join(_cell(row[name]) for name in columns) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def csv_of(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns of one length as CSV, likewise."""
    rows = zip(*columns.values(), strict=True)
    return csv_text(tuple(columns), (dict(zip(columns, row, strict=True)) for row in rows))


def _cell(value: Any) -> str:
    text = "" if value is None else guard(value) if isinstance(value, str) else str(value)
    if any(sign in text for sign in ',"\r\n'):  # Python's own writer leaves a bare \r as it is, and no reader takes it
        return '"' + text.replace('"', '""') + '"'
    return text


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
        raise missing("Parquet", "pyarrow", "parquet") from None
    return pyarrow
