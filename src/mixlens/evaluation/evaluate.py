"""`mixlens.evaluate`: methods by measures over a data set, in a run that goes on where it was killed.

Rows are read in windows of 1,024, sorted by length within, and evaluated in chunks of 64, or of 8 where a method makes
hundreds of passes a text; windows and chunks depend on the data and the methods alone. A chunk's results are on the
disk before the next begins. So a run that is killed and started again computes the very chunks that are missing, with
the same batches, and ends with the same numbers to the last bit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

import numpy as np

from mixlens.arguments import checked
from mixlens.budget import bytes_of
from mixlens.capture.offload import device_of
from mixlens.errors import UnknownOption
from mixlens.evaluation.design import NULL, Entry, make
from mixlens.evaluation.log import Log, finished
from mixlens.evaluation.manifest import manifest
from mixlens.evaluation.naming import source_named
from mixlens.evaluation.refusals import refuse_no_lens, refuse_target
from mixlens.evaluation.result import Table
from mixlens.evaluation.scored import Setting
from mixlens.evaluation.tabulate import CSV, VALUES, tabulate
from mixlens.evaluation.windows import run
from mixlens.files import folder_of, writing
from mixlens.lens import Lens
from mixlens.measure.statistics import summarise
from mixlens.process import settled
from mixlens.progress import OpenProgress, barred
from mixlens.tasks import SAMPLE, Task, source
from mixlens.tasks import task as task_named

MEASURES = ("spearman", "aopc")


@settled
@barred
@checked
def evaluate(
    lens: Lens,
    data: Any = SAMPLE,
    methods: str | Sequence[Entry] | None = None,
    measures: str | Sequence[Entry] = MEASURES,
    out: str | os.PathLike[str] | None = None,
    *,
    task: str | Task = "classification",
    encoding: str | None = None,
    target: Any = None,
    reference: str = "saliency",
    layers: str | None = None,
    second: Lens | None = None,
    limit: int | None = None,
    truncate: bool = False,
    exclude: str | Sequence[str] = (),
    batch_size: int = 32,
    memory: int | str | None = None,
    seed: int = 0,
    level: float = 0.95,
    resamples: int = 1000,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: OpenProgress | bool | None = None,
) -> Table:
    """Which of the methods is to be believed, by these measures, over a data set?

    `data`: a path (.jsonl, .csv, .tsv, .json, .txt, .parquet), a hub name, a `datasets.Dataset`, a table (pandas,
    polars, Arrow), or an iterable of rows, texts or `Example`s; the bundled sample of 40 sentences by default.
    `methods`, `measures`: names, or (label, name, options); six methods by default, none where the measures look at the
    model alone (`anisotropy`, `mdl_compression`); `"spearman:saliency"` sets a measure's reference. For a method's name
    may stand a function, which gives a score for each token of what is asked (`Question`). `out`: a folder
    that keeps the results as they come; started again with the same arguments the run goes on there. `task`: a name of
    `TASKS` or what `mixlens.task(...)` gives. `encoding`: of a text file; None: by its byte order mark, else UTF-8.
    `target`: what is explained, for all texts alike; "label" is each text's gold label, None the prediction. `layers`:
    "each" measures every layer's own map (or the gradient at its input) too, "upto" the aggregate up to it. `second`: a
    lens on another model, for `consistency`. `exclude`: sources that every explanation leaves out before rows are
    divided, as in `Lens.trace`: "first", "template", or roles of the chats that have them. `memory`: bytes or "2GB" to
    stay inside; None: what is free as the run begins, and batches are made for that however often the run goes on.
    `options`: method or measure -> its options. `level`, `resamples`: of the bootstrap intervals. `progress`: True for
    a bar, or a function of (examples done, in all or None), first of those that were there already.

    An example that cannot be evaluated is counted and its error kept; the run goes on. Raises DataError, RunChanged
    (the folder holds another run), UnknownMethod, UnknownOption, TargetError, Undefined, ResultFileError, MissingExtra.

    Examples:
        >>> table = mixlens.evaluate(lens, methods=["alti", "saliency"], measures=["aopc"], limit=4)
        >>> table
        Table(2 methods, 1 measure, 4 examples)
        >>> row = table.row("aopc", "alti")
        >>> row.n, row.low <= row.mean <= row.high
        (4, True)
        >>> texts = [("a fine film", "positive"), ("a dull film", "negative")]
        >>> rows = [{"review": text, "stars": label} for text, label in texts]
        >>> task = mixlens.task("classification", text="review", label="stars")
        >>> mixlens.evaluate(lens, rows, ["alti"], ["spearman"], task=task, target="label").row("spearman", "alti").n
        2
        >>> def last(question):  # scores from elsewhere
        ...     return [float(i) for i in range(len(question))]
        >>> mixlens.evaluate(lens, methods=["alti", ("last", last, {})], measures=["aopc"], limit=4)
        Table(2 methods, 1 measure, 4 examples)
    """
    report: Any = progress  # a function or None, by `barred`
    summarise(np.zeros(1), level=level, resamples=resamples)  # what they may be, before the work
    kept = None if out is None else folder_of(out)
    kind = task if isinstance(task, Task) else task_named(task)
    refuse_no_lens(lens, second)
    options = {k: dict(v) for k, v in (options or {}).items()}
    drawn = _drawn(kept, seed)
    design = make(
        lens, methods, measures, reference=reference, layers=layers, options=options, seed=drawn, second=second
    )
    refuse_target(lens, target, design)
    rows = source_named(source(data, encoding), kind, lens.head, target)
    budget = bytes_of(memory, device_of(lens.model))
    sources = (exclude,) if isinstance(exclude, str) else tuple(exclude)
    if sources and not design.methods:
        raise UnknownOption(f"exclude={exclude!r} would be ignored: no measure asked for looks at scores")
    setting = Setting(lens, design, target, batch_size, budget, second, sources)
    fixed = {} if memory is None else {"memory": budget}
    made_with = manifest(setting, rows, kind, {"limit": limit, "truncate": truncate, "layers": layers, **fixed})
    folder = kept or _temporary()
    try:
        log = Log(folder, made_with, once={} if fixed else {"memory": budget}, files=(CSV, VALUES))
        try:
            setting = replace(setting, memory=log.manifest.get("memory"))
            run(setting, kind, rows, log, limit, truncate, report or (lambda done, total: None))
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
        drawn = (finished(folder) or {})["methods"][NULL]["options"]["seed"] if folder is not None else seed
    except (KeyError, TypeError):
        return seed
    return drawn if type(drawn) is int and type(seed) is int and seed >= 0 else seed


def _temporary() -> Path:
    with writing("a temporary folder"):
        return Path(mkdtemp(prefix="mixlens-"))
