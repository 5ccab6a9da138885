"""`mixlens.evaluate`: methods by measures over a data set, in a run that goes on where it was killed.

Rows are read in windows of 1,024, sorted by length within, and evaluated in chunks of 64, or of 8 where a method makes
hundreds of passes a text; windows and chunks depend on the data and the methods alone. A chunk's results are on the
disk before the next begins. So a run that is killed and started again computes the very chunks that are missing, with
the same batches, and ends with the same numbers to the last bit.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import numpy as np

from mixlens.answer.spans import LONGEST_ANSWER
from mixlens.arguments import checked
from mixlens.budget import bytes_of
from mixlens.capture.offload import device_of
from mixlens.errors import DataError, RunChanged, UnknownOption
from mixlens.evaluation.chunk import Read, Record, Setting, records
from mixlens.evaluation.explain import failure
from mixlens.evaluation.facts import model_facts, plain, versions
from mixlens.evaluation.log import END, Log, Mark, finished
from mixlens.evaluation.plan import NULL, Asked, Plan, Yardstick, make
from mixlens.evaluation.refusals import refuse_fields, refuse_target
from mixlens.evaluation.table import Table
from mixlens.evaluation.tabulate import tabulate
from mixlens.evaluation.vectors import layers_of
from mixlens.files import folder_of, writing
from mixlens.measure.statistics import summarise
from mixlens.process import settled
from mixlens.progress import barred
from mixlens.tasks import SAMPLE, Example, Source, Task, digest, example, source
from mixlens.tasks import task as task_named
from mixlens.tasks.labels import named

WINDOW, CHUNK = 1024, 64
SMALL = 8  # examples in a chunk where a text takes seconds: what a kill loses stays below a minute or two
_C = ctypes.CDLL(None) if os.name == "posix" else None
_NO_COLUMN = ("DataError: expected a column", "DataError: expected a value in")
MEASURES = ("spearman", "aopc")

Progress = Callable[[int, "int | None"], None]


@settled
@barred
@checked
def evaluate(
    lens: Any,
    data: Any = SAMPLE,
    methods: str | Sequence[Asked] | None = None,
    measures: str | Sequence[Asked] = MEASURES,
    out: str | os.PathLike[str] | None = None,
    *,
    task: str | Task = "classification",
    encoding: str | None = None,
    target: Any = None,
    reference: str = "saliency",
    layers: str | None = None,
    second: Any = None,
    limit: int | None = None,
    truncate: bool = False,
    batch_size: int = 32,
    memory: int | str | None = None,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = 1000,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | bool | None = None,
) -> Table:
    """Which of the methods is to be believed, by these measures, over a data set?

    `data`: a path (.jsonl, .csv, .tsv, .json, .txt, .parquet), a hub name, a `datasets.Dataset`, a table (pandas,
    polars, Arrow), or an iterable of rows, texts or `Example`s; the bundled sample of 40 sentences by default.
    `methods`, `measures`: names, or (label, name, options); six methods by default, none where the measures look at the
    model alone (`anisotropy`, `mdl_compression`); `"spearman:saliency"` sets a measure's reference. `out`: a folder
    that keeps the results as they come; started again with the same arguments the run goes on there. `task`: a name of
    `TASKS` or what `mixlens.task(...)` gives. `encoding`: of a text file; None: by its byte order mark, else UTF-8.
    `target`: what is explained, for all texts alike; "label" is each text's gold label, None the prediction. `layers`:
    "each" measures every layer's own map (or the gradient at its input) too, "upto" the aggregate up to it. `second`: a
    lens on another model, for `consistency`. `memory`: bytes or "2GB" to stay inside; None: what is free as the run
    begins, and batches are made for that however often the run goes on. `options`: method or measure -> its options.
    `level`, `resamples`: of the bootstrap intervals. `progress`: True for a bar, or a function of (examples done, in
    all or None), first of those that were there already.

    An example that cannot be evaluated is counted and its error kept; the run goes on. Raises DataError, RunChanged
    (the folder holds another run), UnknownMethod, UnknownOption, TargetError, Undefined, ResultFileError, MissingExtra.
    """
    report: Any = progress  # a function or None, by `barred`
    summarise(np.zeros(1), level=level, resamples=resamples)  # what they may be, before the work
    kept = None if out is None else folder_of(out)
    kind = task if isinstance(task, Task) else task_named(task)
    options = {k: dict(v) for k, v in (options or {}).items()}
    drawn = _drawn(kept, seed)
    plan = make(lens, methods, measures, reference=reference, layers=layers, options=options, seed=drawn, second=second)
    refuse_target(lens, target)
    if target is not None and not plan.methods and not any(y.measure.name == "mdl_compression" for y in plan.corpora):
        raise UnknownOption(f"target={target!r} would be ignored: no measure asked for looks at what is explained")
    rows = _named(source(data, encoding), kind, lens, target)
    budget = bytes_of(memory, device_of(lens.model))
    setting = Setting(lens, plan, target, batch_size, budget, second)
    asked = {} if memory is None else {"memory": budget}
    manifest = _manifest(setting, rows, kind, {"limit": limit, "truncate": truncate, "layers": layers, **asked})
    folder = kept or _temporary()
    try:
        log = Log(folder, manifest, once={} if asked else {"memory": budget})
        try:
            setting = replace(setting, memory=log.manifest.get("memory"))
            _run(setting, kind, rows, log, limit, truncate, report)
        finally:
            log.close()
        table = tabulate(folder, level=level, resamples=resamples, seed=seed)
    except BaseException:
        if out is None:
            rmtree(folder, ignore_errors=True)
        raise
    if out is None:
        finalize(table, rmtree, folder, ignore_errors=True)  # gone with the table
    return table


def _drawn(folder: Path | None, seed: int) -> int:
    """The seed of the random scores: that of a finished run, whose scores are there and of which no more are drawn."""
    try:
        there = (finished(folder) or {})["methods"][NULL]["options"]["seed"] if folder is not None else seed
    except (KeyError, TypeError):
        return seed
    return there if type(there) is int and type(seed) is int and seed >= 0 else seed


def _temporary() -> Path:
    with writing("a temporary folder"):
        return Path(mkdtemp(prefix="mixlens-"))


def _named(rows: Source, kind: Task, lens: Any, target: Any) -> Source:
    """The rows with the names that the data has for its labels' numbers. Raises TargetError."""
    head = lens.head
    known = list(head.labels.values()) if head.task in ("sequence", "token") and not head.regression else []
    read = named(rows.names, kind, known, isinstance(target, str) and target == "label")
    return replace(rows, rows=lambda: read(rows.rows()))


def _manifest(setting: Setting, rows: Source, kind: Task, how: Mapping[str, Any]) -> dict[str, Any]:
    plan = setting.plan
    corpora = {y.name: {**_facts(y), "layers": layers_of(setting.lens, y)} for y in plan.corpora}
    return {
        "format": 2,
        "model": {"name": setting.lens.name, **model_facts(setting.lens)},
        "second": None if setting.second is None else model_facts(setting.second),
        "data": {"name": rows.name, "rows": rows.count, "fingerprint": rows.fingerprint},
        "task": {"name": kind.name, "fields": {k: list(v) for k, v in kind.names.items()}},
        "target": plain(setting.target),
        **how,
        "batch_size": setting.batch_size,
        "methods": {label: plain(asdict_job(plan, label)) for label in plan.methods},
        "asked": list(plan.asked),
        "measures": {y.name: _facts(y) for y in plan.yardsticks},
        **({"corpora": corpora} if corpora else {}),
        # (a run of before explained other spans of a question's context: it does not go on)
        **({"answers": f"spans of {LONGEST_ANSWER}"} if setting.lens.head.task == "question" else {}),
        "columns": [list(asdict(column).values()) for column in plan.columns],
        "versions": versions(),
    }


def _facts(y: Yardstick) -> dict[str, Any]:
    return {
        "label": y.label,
        "measure": y.measure.name,
        "reference": y.reference,
        "reference_key": y.reference_key,
        "options": {**plain(y.options), **y.spans},
        "higher_is_better": y.measure.higher_is_better,
        "range": [str(end) for end in y.measure.range],
    }


def asdict_job(plan: Plan, label: str) -> dict[str, Any]:
    """What a method's label stands for."""
    job = plan.jobs[plan.methods[label]]
    return {"name": job.name, "options": dict(job.options), "layers": list(job.numbers)}


def _run(
    setting: Setting,
    kind: Task,
    rows: Source,
    log: Log,
    limit: int | None,
    truncate: bool,
    progress: Progress | None,
) -> None:
    total = rows.count if limit is None else limit if rows.count is None else min(limit, rows.count)
    closed = {(mark.window, mark.chunk): mark for mark in log.marks}
    windows = {mark.window: mark for mark in log.marks if mark.window >= 0}
    end = next((mark for mark in log.marks if mark.window == END), None)
    sha, done = hashlib.sha256(), 0
    mask = getattr(setting.lens.tokenizer, "mask_token", None) if setting.lens.head.task == "masked" else None
    size = min(CHUNK, SMALL) if any(job.facts.cost(job.options).slow for job in setting.plan.jobs.values()) else CHUNK
    report = progress or (lambda done, total: None)
    begun = False
    window = -1
    for window, some in enumerate(_windows(rows, limit)):
        for _, row in some:
            sha.update(digest(row))
        now = (done + len(some), sha.hexdigest())
        if window in windows or end is not None:
            _same(windows.get(window, end), now, log)
        if window in windows and windows[window].last:
            done += len(some)
            continue
        good, bad = _read(setting.lens, some, kind, mask, truncate)
        if window == 0 and not good and all((one.error or "").startswith(_NO_COLUMN) for one in bad):
            raise DataError((bad[0].error or "").removeprefix("DataError: "))  # of no row: the call's own fault
        if window == 0 and not any(isinstance(row, Example) for _, row in some):  # (those hold what they hold)
            refuse_fields(kind, [y.measure for y in setting.plan.yardsticks])
        groups = [good[start : start + size] for start in range(0, len(good), size)] or [[]]
        for chunk, members in enumerate(groups):
            count = len(members) + (len(bad) if chunk == 0 else 0)
            mark = Mark(window, chunk, chunk == len(groups) - 1, *now)
            if (window, chunk) not in closed:
                if not begun:  # the clock starts behind what is there already
                    report(done, total)
                    begun = True
                found = records(setting, members, lambda share, at=done, n=count: report(at + int(share * n), total))  # type: ignore[misc]
                log.append([*(bad if chunk == 0 else []), *found], mark)
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
    lens: Any, some: Sequence[tuple[int, Any]], kind: Task, mask: str | None, truncate: bool
) -> tuple[list[Read], list[Record]]:
    """The readable examples, longest first, and the records of the others."""
    good: list[Read] = []
    bad: list[Record] = []
    for number, row in some:
        id = str(number)
        try:
            one = example(row, number, kind, mask)
            id = one.id
            (tokens,) = lens.subject.read(one.text, truncate).require()
            good.append((number, one, tokens))
        except Exception as error:
            bad.append(Record(number, id, error=failure(error).text))
    good.sort(key=lambda read: (-len(read[2]), read[0]))
    return good, bad
