"""The folder of a run: what it was made with, and its results line by line, durable as they come.

`manifest.json` is written before the first result. `results.jsonl` holds a line an example and, behind each chunk, a
line that closes it; what stands behind the last closed chunk (a run was killed there) is cut off when the run goes on.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from io import BufferedWriter
from pathlib import Path
from typing import Any

from mixlens.errors import ResultFileError, RunChanged
from mixlens.evaluation.fingerprint import refuse_changes
from mixlens.files import write_text, writing
from mixlens.results.folder import END as END
from mixlens.results.folder import MANIFEST as MANIFEST
from mixlens.results.folder import RESULTS as RESULTS
from mixlens.results.folder import finished as finished
from mixlens.results.folder import manifest_of


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept of one example: a value a column (NaN: undefined), and which methods failed, with the reason.

    `error`: the example could not be evaluated at all.
    """

    number: int
    id: str
    values: Sequence[float] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Any] = field(default_factory=dict)  # what a measure of a corpus keeps of it


def refuse_others(folder: Path, files: Sequence[str]) -> None:
    """Raises RunChanged where a folder in which no run has begun holds a file that a run would write over."""
    before = manifest_of(folder)
    if (folder / RESULTS).exists() or (before is not None and {"model", "versions"} <= before.keys()):
        return
    there = next((path.name for name in (MANIFEST, *files) for path in sorted(folder.glob(name))), None)
    if there is not None:
        raise RunChanged(f"{folder} holds {there}, and no run that wrote it; give the run another folder (out=)")


@dataclass(frozen=True)
class Mark:
    """What a closed chunk says: its window, its number there, whether it is the last of it.

    `rows`: how many were read when its window was, `hash`: of their content. `lines`: a digest of the chunk's results.
    """

    window: int
    chunk: int
    last: bool
    rows: int
    hash: str
    lines: str = ""


_MARK = {"window": int, "chunk": int, "last": bool, "rows": int, "hash": str, "lines": str}


class Log:
    """The open folder. One process at a time; the lock goes with the process, however it ends.

    `once`: what is settled when a run begins; a run that goes on has it from its folder, in `manifest`. `files`: what
    else the run writes there, as patterns.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        once: Mapping[str, Any] | None = None,
        files: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.manifest: dict[str, Any] = {**json.loads(json.dumps(manifest)), **(once or {})}
        try:
            refuse_others(folder, files)
            folder.mkdir(parents=True, exist_ok=True)
            self.file: BufferedWriter = open(folder / RESULTS, "ab")  # noqa: SIM115
        except RunChanged:
            raise
        except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
            raise ResultFileError(f"expected a folder to write to, got: {error}; check rights and space") from error
        try:
            with writing(folder):
                _lock(self.file, folder)
                self._settle(once or {})
                self.marks = self._recover()
        except BaseException:
            self.close()
            raise

    def _settle(self, once: Mapping[str, Any]) -> None:
        path = self.folder / MANIFEST
        if path.exists() and os.path.getsize(self.folder / RESULTS):  # nothing was found yet: nothing to mix
            try:
                before = json.loads(path.read_text("utf-8"))
                if not isinstance(before, dict):
                    raise ValueError
            except (ValueError, RecursionError):
                raise RunChanged(f"{path} is no manifest of a run; give the run another folder (out=)") from None
            now = {name: value for name, value in self.manifest.items() if name not in once}
            self.manifest = {**now, **{name: before[name] for name in once if name in before}}
            refuse_changes(before, self.manifest, str(self.folder))
        elif os.path.getsize(self.folder / RESULTS):
            raise RunChanged(f"{self.folder} holds results without a {MANIFEST}; give the run another folder (out=)")
        else:
            write_text(path, json.dumps(self.manifest, indent=1, ensure_ascii=False) + "\n")
            _sync_folder(self.folder)

    def _recover(self) -> list[Mark]:
        """The closed chunks; whatever stands behind them is cut off. Raises ResultFileError: not what was written."""
        marks, good, at, chunk = [], 0, 0, hashlib.sha256()
        with open(self.folder / RESULTS, "rb") as file:
            for line in file:
                at += len(line)
                if not (line.startswith(b'{"end"') and line.endswith(b"}\n")):
                    chunk.update(line)
                    continue
                with _intact(self.folder):
                    mark = Mark(**json.loads(line)["end"])
                    if any(type(getattr(mark, name)) is not kind for name, kind in _MARK.items()):
                        raise ValueError
                if mark.lines != chunk.hexdigest():
                    raise damaged(self.folder)
                marks.append(mark)
                good, chunk = at, hashlib.sha256()
        if good < at:
            self.file.truncate(good)
            os.fsync(self.file.fileno())
        return marks

    def append(self, records: Sequence[Record], mark: Mark) -> None:
        """A chunk's results, on the disk when this returns. Raises ResultFileError."""
        results = "".join(_line(record) + "\n" for record in records).encode()
        closed = replace(mark, lines=hashlib.sha256(results).hexdigest())
        try:
            self.file.write(results + json.dumps({"end": vars(closed)}).encode() + b"\n")
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise ResultFileError(
                f"expected to write {self.folder / RESULTS}, got: {error.strerror or error}; make space, then the same "
                "call goes on from what is there"
            ) from error

    def close(self) -> None:
        """Let the folder go."""
        with suppress(OSError):  # what could not be written, once more: it is said already, and cut off later
            self.file.close()


def lines(folder: Path) -> Iterator[dict[str, Any]]:
    """The examples' lines of a finished or unfinished run, in the order of evaluation; unclosed chunks left out."""
    held: list[dict[str, Any]] = []
    try:
        results = open(folder / RESULTS, "rb")  # noqa: SIM115
    except OSError as error:
        raise ResultFileError(f"expected the results of a run in {folder}, got: {error}; is it still there?") from error
    with results as file:
        for line in file:
            if not line.endswith(b"}\n"):
                return
            with _intact(folder):
                entry = json.loads(line)
                if not isinstance(entry, dict):
                    raise ValueError
                known = "end" in entry or ("i" in entry and ("v" in entry or "error" in entry))
            if not known:
                raise damaged(folder)
            if "end" in entry:
                yield from held
                held = []
            else:
                held.append(entry)


@contextmanager
def _intact(folder: Path) -> Iterator[None]:
    """Raises ResultFileError where a closed line is no longer what was written."""
    try:
        yield
    except (ValueError, TypeError, RecursionError):
        raise damaged(folder) from None


def damaged(folder: Path) -> ResultFileError:
    """The error for results that are not what a run wrote."""
    return ResultFileError(
        f"expected the lines of a run in {folder / RESULTS}, some were changed since; restore the file, or delete the "
        "folder and run again"
    )


def _line(record: Record) -> str:
    """JSON that gives every number back to the last bit; an undefined one is null."""
    out: dict[str, Any] = {"i": record.number, "id": record.id}
    if record.error is not None:
        return json.dumps({**out, "error": record.error})
    values = [v if math.isfinite(v) else None for v in record.values]
    facts = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.facts.items()}
    extra = {"errors": dict(record.errors)} if record.errors else {}
    kept = {"kept": dict(record.kept)} if record.kept else {}
    return json.dumps({**out, **facts, **extra, **kept, "v": values})


def _lock(file: BufferedWriter, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # no such lock on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ResultFileError(f"another process is writing to {folder}; wait for it, or choose another out=") from None


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # not every system can
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
