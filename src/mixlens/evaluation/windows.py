"""A run's rows in windows of 1,024, in each chunks of like length; what is closed on the disk is passed over.

Windows and chunks depend on the data and the methods alone, so that a run which goes on computes the very chunks that
are missing, with the batches of an undisturbed run.
"""

from __future__ import annotations

from mixlens.evaluation.chunk import records
from mixlens.evaluation.design import Design
from mixlens.evaluation.log import END, Log, Mark
from mixlens.evaluation.naming import classes_of
from mixlens.evaluation.refusals import refuse_exclude, refuse_fields, refuse_traced
from mixlens.evaluation.scored import Setting
from mixlens.evaluation.walk import closed, count_of, read_rows, refuse_columns, trim, walk
from mixlens.progress import OpenProgress
from mixlens.tasks import Example, Source, Task
from mixlens.tasks.classes import refuse_numbers

WINDOW, CHUNK = 1024, 64
SMALL = 8  # examples in a chunk where a text takes seconds: what a kill loses stays below a minute or two


def chunk_size(design: Design) -> int:
    """How many examples are evaluated together, behind which results are on the disk."""
    return min(CHUNK, SMALL) if any(job.facts.cost(job.options).slow for job in design.jobs.values()) else CHUNK


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
    total, done, begun = count_of(rows, limit), 0, False
    there = {(mark.window, mark.chunk) for mark in log.marks}
    whole = {mark.window for mark in log.marks if mark.window != END and mark.last}
    mask = getattr(setting.lens.tokenizer, "mask_token", None) if setting.lens.head.task == "masked" else None
    size = chunk_size(setting.design)
    for window in walk(rows, log, limit, WINDOW):
        first = window.number == 0
        if window.number in whole:
            done += len(window.rows)
            continue
        good, bad = read_rows(setting.lens, window.rows, kind, mask, truncate)
        if first:
            refuse_columns(len(good), [record.error or "" for record in bad])
        examples = [row for _, row in window.rows if isinstance(row, Example)] or [parsed for _, parsed, _ in good]
        refuse_traced(setting.lens, setting.design, setting.target, examples)
        if first and isinstance(setting.target, str) and setting.target == "label":
            refuse_numbers(((number, example.label) for number, example, _ in good), classes_of(setting.lens.head))
        if first:
            refuse_exclude(setting.exclude, [tokens for _, _, tokens in good])
        if first and not any(isinstance(row, Example) for _, row in window.rows):  # (those hold what they hold)
            refuse_fields(kind, [y.measure for y in setting.design.yardsticks])
        groups = [good[start : start + size] for start in range(0, len(good), size)] or [[]]
        for chunk, members in enumerate(groups):
            count = len(members) + (len(bad) if chunk == 0 else 0)
            mark = Mark(window.number, chunk, chunk == len(groups) - 1, *window.now)
            if (window.number, chunk) not in there:
                if not begun:  # the clock starts behind what is there already
                    report(done, total)
                    begun = True
                computed = records(setting, members, lambda share, at=done, n=count: report(at + int(share * n), total))  # type: ignore[misc]
                log.append([*(bad if chunk == 0 else []), *computed], mark)
                trim()
            done += count
            if begun:
                report(done, total)
    closed(log, window)
    if not begun:
        report(done, total)
