"""`mixlens.explain_data`: every text of a data set, explained, in a run that goes on where it was killed.

Rows are read in windows of a quarter of them, 512 to 1,024 (128 where workers want some each, fewer where texts are
long), explained longest first, and written in the data's order, a Parquet file a window. A folder keeps the windows
that it was begun with, and a file is there whole or not at all: a run that is killed and started again computes the
very windows that are missing, on as many threads with the same batches.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from mixlens.arguments import checked, is_whole, shown
from mixlens.budget import bytes_of
from mixlens.capture.offload import device_of
from mixlens.dataset.asked import asked_of
from mixlens.dataset.engines import ENGINES, made
from mixlens.dataset.window import LONGEST, Setting, other_columns
from mixlens.errors import ResultFileError, UnknownOption, did_you_mean
from mixlens.evaluation.fingerprint import model_facts, plain, versions
from mixlens.evaluation.log import END, Log, Mark, Record, lines
from mixlens.evaluation.naming import classes_of
from mixlens.evaluation.refusals import refuse_no_lens
from mixlens.evaluation.walk import Window, closed, count_of, refuse_columns, trim, walk
from mixlens.files import folder_of, parquet, writing
from mixlens.lens import Lens
from mixlens.process import settled
from mixlens.progress import OpenProgress, barred
from mixlens.results import Explained
from mixlens.results.explained import KIND
from mixlens.results.shards import PATTERN, name_of, write
from mixlens.tasks import Source, Task
from mixlens.tasks.classes import refuse_numbers

WINDOW, LEAST = 1024, 512  # rows in a file: a quarter of all, within these (smaller ones hold fewer of like length)
SHARED = 128  # at least, where there are workers that want a window each
CHARACTERS = 240  # that make a text count as one row; a longer one counts for more
SMALL = 32  # rows in a file where a text takes seconds
SUMMARY = "summary.html"


@settled
@barred
@checked
def explain_data(
    lens: Lens,
    data: Any,
    method: str | None = None,
    target: Any = None,
    out: str | os.PathLike[str] | None = None,
    *,
    field: str | Mapping[str, str | Sequence[str]] | None = None,
    task: str | Task = "classification",
    encoding: str | None = None,
    limit: int | None = None,
    truncate: bool = False,
    window: int | None = None,
    stride: int | None = None,
    batch_size: int = 32,
    memory: int | str | None = None,
    top: int = 15,
    by: str | None = None,
    seed: int = 0,
    workers: int | None = None,
    engine: str = "local",
    progress: OpenProgress | bool | None = None,
    **options: Any,
) -> Explained:
    """Every text of a data set, explained: in Parquet files as they come, and a page that sums them up.

    `data`: as in `mixlens.evaluate`: a path or address (.csv, .tsv, .jsonl, .json, .txt, .parquet), a hub name, a
    `datasets.Dataset`, a table (pandas, polars, Arrow), or an iterable of rows, texts, pairs or `Example`s. `method`,
    `target`, `truncate`, `window`, `stride`, `options`: as in `lens.attribute`; `target="label"` explains each text's
    gold label. `out`: the folder that keeps `part-*.parquet`, `summary.html` and the run's record; started again with
    the same arguments the run goes on there (None: a folder that is gone with the result). `field`: the column of the
    text, or a mapping of the task's fields to columns (`{"text": "review", "label": "stars"}`). `task`: how rows are
    read, as in `evaluate` ("pairs" for two texts). `memory`: bytes or "2GB" to stay inside. `top`, `by`, `seed`: of the
    page: words of each class; a table for each value of a column; draws of intervals and null. `workers`: processes
    that explain the rows side by side, each with its share of the cores and of `memory`; `engine="ray"` (extra `ray`):
    actors of a Ray cluster instead, by default one a GPU or, without any, one for every four cores, each of which may
    take `memory`. Neither is part of what a run is: it goes on with others. `progress`: True for a bar, or a function
    of (rows done, in all or None).

    A row that cannot be explained stands in the files with its error, and in `.failures`. Texts are explained in
    batches of like length, which changes no number by more than rounding. Needs the extra `parquet`. Raises DataError,
    RunChanged (the folder holds another run), UnknownMethod, UnknownOption, TargetError, Undefined, ResultFileError,
    MissingExtra.

    Examples:
        >>> rows = [{"review": "a deep film.", "stars": 5}, {"review": "so dull", "stars": 1}]
        >>> explained = mixlens.explain_data(lens, rows, "alti", field="review")
        >>> for text in explained:
        ...     print(text.target, text.data["stars"], max(text.words, key=lambda word: word[1])[0])
        positive 5 deep
        negative 1 dull
        >>> explained.frame()[["id", "target", "stars"]].values.tolist()
        [['0', 'positive', 5], ['1', 'negative', 1]]
    """
    report: Any = progress or (lambda done, total: None)  # a function or None, by `barred`
    refuse_no_lens(lens, None)
    parquet()
    for name, value, least in (("top", top, 1), ("seed", seed, 0)):
        if not is_whole(value) or value < least:
            raise UnknownOption(f"expected {name} of {least} or more, got {shown(value)}")
    if workers is not None and (not is_whole(workers) or workers < 1):
        raise UnknownOption(f"expected workers of 1 or more, or None, got {shown(workers)}")
    if engine not in ENGINES:
        raise UnknownOption(f"expected engine= one of {', '.join(ENGINES)}, got {shown(engine)}")
    if by is not None and not isinstance(by, str):
        raise UnknownOption(f"expected by= a column's name, or None, got {shown(by)}")
    kept = None if out is None else folder_of(out)
    setting, facts, rows = asked_of(
        lens, data, method, options, target, field, task, encoding, truncate, window, stride, batch_size
    )
    kind, name, windows = setting.task, setting.method, setting.windows
    budget = bytes_of(memory, device_of(lens.model))
    fixed = {} if memory is None else {"memory": budget}
    least = LEAST if engine == "local" and workers in (None, 1) else SHARED
    size = SMALL if facts.cost(options).slow else rows_a_file(count_of(rows, limit), least)
    folder = kept or _temporary()
    made_with = {
        "format": 1,
        "kind": KIND,
        "model": {"name": lens.name, **model_facts(lens)},
        "data": {"name": rows.name, "rows": rows.count, "fingerprint": rows.fingerprint},
        "task": {"name": kind.name, "fields": {k: list(v) for k, v in kind.names.items()}},
        "method": name,
        "options": plain(options),
        "target": plain(target),
        "classes": [str(name) for name in lens.head.labels.values()],
        "limit": limit,
        "truncate": truncate,
        "batch_size": batch_size,
        **({} if windows is None else {"windows": windows.written}),
        **fixed,
        "versions": versions(),
    }
    try:
        once = {"window": size, **({} if fixed else {"memory": budget})}
        log = Log(folder, made_with, once, files=(SUMMARY, PATTERN))
        try:
            setting = replace(setting, memory=log.manifest.get("memory"))
            _run(setting, rows, log, limit, by, report, engine, workers)
        finally:
            log.close()
        result = Explained(folder)
        result.to_html(folder / SUMMARY, top=top, by=by, seed=seed)
    except BaseException:
        if out is None:
            rmtree(folder, ignore_errors=True)
        raise
    if out is None:
        finalize(result, rmtree, folder, ignore_errors=True)  # gone with the result
    return result


def _run(
    setting: Setting,
    rows: Source,
    log: Log,
    limit: int | None,
    by: str | None,
    report: OpenProgress,
    engine: str,
    workers: int | None,
) -> None:
    """Explain what the folder does not hold yet. Raises DataError, RunChanged, ResultFileError."""
    total, done, last = count_of(rows, limit), 0, None
    digests = {entry["i"]: entry["sha256"] for entry in lines(log.folder) if "sha256" in entry}
    there = {mark.window for mark in log.marks if mark.window != END}

    def missing() -> Iterator[Window]:
        nonlocal done, last
        begun = False
        for window in walk(rows, log, limit, int(log.manifest["window"]), _weight):
            last = window
            if window.number == 0 and by is not None:
                refuse_by(by, [row for _, row in window.rows], setting.task)
            path = log.folder / name_of(window.number)
            if window.number in there and path.exists():
                _unchanged(path, digests.get(window.number))
                done += len(window.rows)
                continue
            if not begun:  # the clock starts behind what is there already
                report(done, total)
                begun = True
            yield window

    def tick(count: int) -> None:
        report(done + count, total)

    for window, rows_made in made(setting, missing(), engine, workers, tick):
        path = log.folder / name_of(window.number)
        errors = [row["error"] for row in rows_made if row["error"] is not None]
        if window.number == 0:
            refuse_columns(len(rows_made) - len(errors), errors)
            if setting.target == "label":
                labels = ((row["row"], row["label"]) for row in rows_made)
                refuse_numbers(labels, classes_of(setting.lens.head))
        write(path, rows_made, setting.method, setting.written)
        if window.number not in there:
            facts = {"rows": len(rows_made), "failed": len(errors), "sha256": _digest(path)}
            mark = Mark(window.number, 0, True, *window.now)
            log.append([Record(window.number, path.name, facts=facts)], mark)
        trim()
        done += len(window.rows)
        report(done, total)
    assert last is not None  # or `walk` had raised
    closed(log, last)


def rows_a_file(count: int | None, least: int = LEAST) -> int:
    """So many that a run which is stopped loses little, and workers have something to share; None: nobody knows."""
    return WINDOW if count is None else min(WINDOW, max(least, -(-count // 4)))


def refuse_by(by: str, rows: Sequence[Any], task: Task) -> None:
    """Raises UnknownOption where no row has the column, or none a value in it that is kept."""
    tables = [row for row in rows if isinstance(row, Mapping)]
    columns = {str(name) for row in tables for name in row}
    if by not in columns:
        hint = did_you_mean(by, columns) if columns else "; the data are texts without columns"
        raise UnknownOption(f"expected by= a column of the data, got {shown(by)}{hint}")
    values = any(row.get(by) is not None for row in tables)
    if values and not any(by in other_columns(row, task) for row in tables):
        raise UnknownOption(
            f"expected by= a column of numbers, flags or short texts, got {shown(by)}, which is the text itself, or "
            f"holds texts of more than {LONGEST} characters, or other values"
        )


def _weight(row: Any) -> float:
    """How many rows a row counts for: one, or more where its text is long."""
    values = row.values() if isinstance(row, Mapping) else row if isinstance(row, tuple) else [row]
    size = sum(len(value) for value in values if isinstance(value, (str, list)))
    return max(1.0, size / CHARACTERS)


def _unchanged(path: Path, digest: str | None) -> None:
    """Raises ResultFileError for a file that is not as it was written."""
    if digest is not None and _digest(path) != digest:
        raise ResultFileError(
            f"expected {path} as it was written, it was changed since; delete it, and the same call makes it again"
        )


def _digest(path: Path) -> str:
    with writing(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _temporary() -> Path:
    with writing("a temporary folder"):
        return Path(mkdtemp(prefix="mixlens-"))
