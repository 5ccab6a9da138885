"""The rows of a data set in windows, held against what a run's folder says of them, and read as examples.

Windows depend on the data alone, so that a run which goes on computes what is missing in the batches of an undisturbed
run.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mixlens.capture.stream import Stream
from mixlens.errors import DataError, RunChanged
from mixlens.evaluation.explain import failure
from mixlens.evaluation.log import END, Log, Mark, Record
from mixlens.lens import Lens
from mixlens.tasks import Example, Source, Task, digest, example
from mixlens.trace.prompt import read_prompt

Numbered = Sequence[tuple[int, Any]]  # rows of a data set with their numbers
_NO_COLUMN = ("DataError: expected a column", "DataError: expected a value in")
_C = ctypes.CDLL(None) if os.name == "posix" else None


@dataclass(frozen=True)
class Window:
    """Rows that are read together. `before`: how many stand before them; `now`: how many there are with them, and a
    digest of all these.
    """

    number: int
    rows: Numbered
    before: int
    now: tuple[int, str]


def walk(
    rows: Source, log: Log, limit: int | None, size: int, weight: Callable[[Any], float] = lambda row: 1.0
) -> Iterator[Window]:
    """The windows of a data set, `size` rows each (or the first rows that weigh as much). Behind the last: `closed`.

    Raises DataError where there is no row, RunChanged where they are not those of the run that the log holds.
    """
    known, end = _marks(log)
    sha, done = hashlib.sha256(), 0
    for number, numbered in enumerate(in_windows(rows, limit, size, weight)):
        for _, row in numbered:
            sha.update(digest(row))
        before, done = done, done + len(numbered)
        now = (done, sha.hexdigest())
        if number in known or end is not None:
            _same(known.get(number, end), now, log)
        yield Window(number, numbered, before, now)
    if done == 0:
        raise DataError(f"expected at least one row of {rows.name}, got none")


def closed(log: Log, last: Window) -> None:
    """End a run whose windows are all done. Raises RunChanged where the run that the log holds had other rows."""
    known, end = _marks(log)
    if known and max(known) > last.number:
        _same(known[max(known)], last.now, log)
    if end is None:
        log.append([], Mark(END, 0, True, *last.now))
    else:
        _same(end, last.now, log)


def _marks(log: Log) -> tuple[dict[int, Mark], Mark | None]:
    """The marks of the windows that were done as the run began, and that of its end."""
    known = {mark.window: mark for mark in log.marks if mark.window >= 0}
    return known, next((mark for mark in log.marks if mark.window == END), None)


def count_of(rows: Source, limit: int | None) -> int | None:
    """How many rows a run has; None where nobody knows."""
    return rows.count if limit is None else limit if rows.count is None else min(limit, rows.count)


def trim() -> None:
    """Hand back what the C library keeps of freed memory: glibc's free blocks, cut ever smaller, grow over a long run.

    No more is in use, but the process would be seen to grow by hundreds of megabytes; a chunk is long enough for this
    to cost nothing.
    """
    handed = getattr(_C, "malloc_trim", None)  # glibc's alone
    if handed is not None:
        handed(0)


def _same(mark: Mark | None, now: tuple[int, str], log: Log) -> None:
    """Raises RunChanged where the rows so far are not those that were read when the mark was made."""
    if mark is not None and (mark.rows, mark.hash) != now:
        raise RunChanged(
            f"expected the data of the run in {log.folder}, got other rows: its first {mark.rows} are not these "
            f"{now[0]}; give the new run another folder (out=)"
        )


def in_windows(rows: Source, limit: int | None, size: int, weight: Callable[[Any], float]) -> Iterator[Numbered]:
    """The rows of a data set with their numbers, `size` at a time, or the first that weigh as much."""
    held: list[tuple[int, Any]] = []
    total = 0.0
    for number, row in enumerate(rows.rows()):
        if number == limit:
            break
        held.append((number, row))
        total += weight(row)
        if total >= size:
            yield held
            held, total = [], 0.0
    if held:
        yield held


def read_rows(
    lens: Lens, numbered: Numbered, kind: Task, mask: str | None, truncate: bool, windows: bool | None = None
) -> tuple[list[tuple[int, Example, Stream]], list[Record]]:
    """The readable examples, longest first, and the records of the others. `windows`: see `Subject.read`."""
    good: list[tuple[int, Example, Stream]] = []
    bad: list[Record] = []
    subject = lens.subject
    for number, row in numbered:
        id = str(number)
        try:
            parsed = example(row, number, kind, mask)
            id = parsed.id
            if parsed.traced:
                tokens: Stream = read_prompt(subject, parsed.prompt, parsed.documents).tokens
            else:
                (tokens,) = subject.read(parsed.text, truncate, windows).require()
            good.append((number, parsed, tokens))
        except Exception as error:
            bad.append(Record(number, id, error=failure(error).text))
    good.sort(key=lambda read: (-len(read[2]), read[0]))
    return good, bad


def refuse_columns(read: int, errors: Sequence[str]) -> None:
    """Raises DataError where no row was read, for want of a column: that is the call's own fault."""
    if not read and all(error.startswith(_NO_COLUMN) for error in errors):
        raise DataError(errors[0].removeprefix("DataError: "))
