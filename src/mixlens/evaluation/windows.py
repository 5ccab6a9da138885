"""A run's rows: windows of 1,024, in each chunks of like length; what is closed on the disk is passed over.

Windows and chunks depend on the data and the methods alone, so that a run which goes on computes the very chunks that
are missing, with the batches of an undisturbed run.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from mixlens.errors import DataError, RunChanged
from mixlens.evaluation.chunk import records
from mixlens.evaluation.explain import failure
from mixlens.evaluation.log import END, Log, Mark, Record
from mixlens.evaluation.refusals import refuse_exclude, refuse_fields, refuse_traced
from mixlens.evaluation.scored import Read, Setting
from mixlens.lens import Lens
from mixlens.progress import OpenProgress
from mixlens.tasks import Example, Source, Task, digest, example
from mixlens.trace.prompt import read_prompt

WINDOW, CHUNK = 1024, 64
SMALL = 8  # examples in a chunk where a text takes seconds: what a kill loses stays below a minute or two
_C = ctypes.CDLL(None) if os.name == "posix" else None
_NO_COLUMN = ("DataError: expected a column", "DataError: expected a value in")


def run(
    setting: Setting,
    kind: Task,
    rows: Source,
    log: Log,
    limit: int | None,
    truncate: bool,
    report: OpenProgress,
) -> None:
    """Evaluate what the log does not hold yet. Raises DataError, RunChanged, Undefined, ResultFileError."""
    total = rows.count if limit is None else limit if rows.count is None else min(limit, rows.count)
    closed = {(mark.window, mark.chunk): mark for mark in log.marks}
    windows = {mark.window: mark for mark in log.marks if mark.window >= 0}
    end = next((mark for mark in log.marks if mark.window == END), None)
    sha, done = hashlib.sha256(), 0
    mask = getattr(setting.lens.tokenizer, "mask_token", None) if setting.lens.head.task == "masked" else None
    size = min(CHUNK, SMALL) if any(job.facts.cost(job.options).slow for job in setting.design.jobs.values()) else CHUNK
    begun = False
    window = -1
    for window, numbered in enumerate(_windows(rows, limit)):
        for _, row in numbered:
            sha.update(digest(row))
        now = (done + len(numbered), sha.hexdigest())
        if window in windows or end is not None:
            _same(windows.get(window, end), now, log)
        if window in windows and windows[window].last:
            done += len(numbered)
            continue
        good, bad = _read(setting.lens, numbered, kind, mask, truncate)
        if window == 0 and not good and all((record.error or "").startswith(_NO_COLUMN) for record in bad):
            raise DataError((bad[0].error or "").removeprefix("DataError: "))  # of no row: the call's own fault
        examples = [row for _, row in numbered if isinstance(row, Example)] or [parsed for _, parsed, _ in good]
        refuse_traced(setting.lens, setting.design, setting.target, examples)
        if window == 0:
            refuse_exclude(setting.exclude, [tokens for _, _, tokens in good])
        if window == 0 and not any(isinstance(row, Example) for _, row in numbered):  # (those hold what they hold)
            refuse_fields(kind, [y.measure for y in setting.design.yardsticks])
        groups = [good[start : start + size] for start in range(0, len(good), size)] or [[]]
        for chunk, members in enumerate(groups):
            count = len(members) + (len(bad) if chunk == 0 else 0)
            mark = Mark(window, chunk, chunk == len(groups) - 1, *now)
            if (window, chunk) not in closed:
                if not begun:  # the clock starts behind what is there already
                    report(done, total)
                    begun = True
                computed = records(setting, members, lambda share, at=done, n=count: report(at + int(share * n), total))  # type: ignore[misc]
                log.append([*(bad if chunk == 0 else []), *computed], mark)
                _trim()
            done += count
            if begun:
                report(done, total)
    if not begun:
        report(done, total)
    if done == 0:
        raise DataError(f"expected at least one row of {rows.name}, got none")
    if windows and max(windows) > window:
        _same(windows[max(windows)], (done, sha.hexdigest()), log)
    if end is None:
        log.append([], Mark(END, 0, True, done, sha.hexdigest()))
    else:
        _same(end, (done, sha.hexdigest()), log)


def _trim() -> None:
    """Hand back what the C library keeps of freed memory: glibc's free blocks, cut ever smaller, grow over a long run.

    No more is in use, but the process would be seen to grow by hundreds of megabytes; a chunk is long enough for this
    to cost nothing.
    """
    trim = getattr(_C, "malloc_trim", None)  # glibc's alone
    if trim is not None:
        trim(0)


def _same(mark: Mark | None, now: tuple[int, str], log: Log) -> None:
    """Raises RunChanged where the rows so far are not those that were read when the mark was made."""
    if mark is not None and (mark.rows, mark.hash) != now:
        raise RunChanged(
            f"expected the data of the run in {log.folder}, got other rows: its first {mark.rows} are not these "
            f"{now[0]}; give the new run another folder (out=)"
        )


def _windows(rows: Source, limit: int | None) -> Iterator[list[tuple[int, Any]]]:
    held: list[tuple[int, Any]] = []
    for number, row in enumerate(rows.rows()):
        if number == limit:
            break
        held.append((number, row))
        if len(held) == WINDOW:
            yield held
            held = []
    if held:
        yield held


def _read(
    lens: Lens, numbered: Sequence[tuple[int, Any]], kind: Task, mask: str | None, truncate: bool
) -> tuple[list[Read], list[Record]]:
    """The readable examples, longest first, and the records of the others."""
    good: list[Read] = []
    bad: list[Record] = []
    for number, row in numbered:
        id = str(number)
        try:
            parsed = example(row, number, kind, mask)
            id = parsed.id
            if parsed.traced:
                tokens = read_prompt(lens.subject, parsed.prompt, parsed.documents).tokens
            else:
                (tokens,) = lens.subject.read(parsed.text, truncate).require()
            good.append((number, parsed, tokens))
        except Exception as error:
            bad.append(Record(number, id, error=failure(error).text))
    good.sort(key=lambda read: (-len(read[2]), read[0]))
    return good, bad
