"""From a run's lines to its table, column by column."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.errors import ResultFileError
from mixlens.evaluation.design import NULL
from mixlens.evaluation.layers import corpus_rows
from mixlens.evaluation.log import MANIFEST, damaged, lines
from mixlens.evaluation.result import Row, Table
from mixlens.files import allocate, replacing
from mixlens.measure.statistics import paired, summarise

CSV, VALUES = "table.csv", "values.npy"


def tabulate(folder: Path, *, level: float = 0.95, resamples: int = 1000, seed: int = 0, csv: bool = True) -> Table:
    """The table of a run's folder; `csv`: also written to table.csv there. Raises ResultFileError."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ResultFileError(f"expected the folder of a run, got {folder}: {error}") from None
    array, errors, wrong = _gather(folder, manifest)
    table = Table((), manifest, folder, level, resamples, seed, array)
    corpora = corpus_rows(folder, manifest, errors, level=level, resamples=resamples, seed=seed)
    rows = (*_rows(table, errors), *corpora)
    table = Table(rows, manifest, folder, level, resamples, seed, array, wrong)
    if csv:
        table.to_csv(folder / CSV)
    return table


def _gather(folder: Path, manifest: Mapping[str, Any]) -> tuple[NDArray[np.float64], dict[str, int], tuple[str, ...]]:
    """(column, example), on the disk; how many examples failed, in all ("") and by measure and method; wrong ones."""
    numbers = [line["i"] for line in lines(folder)]
    count = len(numbers)
    columns = len(manifest["columns"])
    shape = (max(1, columns), count)  # a file of nothing cannot be mapped
    if sorted(numbers) != list(range(count)):
        raise damaged(folder)
    errors: dict[str, int] = {"": 0}
    wrong: list[tuple[int, str]] = []
    with replacing(folder / VALUES) as temporary:
        array = np.lib.format.open_memmap(temporary, "w+", np.float64, shape)
        allocate(temporary)
        held: list[tuple[int, Sequence[float | None]]] = []

        def put() -> None:
            if held:
                array[:, [i for i, _ in held]] = np.array([v for _, v in held], dtype=np.float64).T
            held.clear()

        for line in lines(folder):
            if "error" in line:
                errors[""] += 1
                line["v"] = [None] * columns
            if line.get("right") is False:
                wrong.append((line["i"], str(line["id"])))
            for name in line.get("errors", ()):
                errors[name] = errors.get(name, 0) + 1
            if len(line["v"]) != columns:
                raise damaged(folder)
            held.append((line["i"], line["v"] or [None]))
            if len(held) == 64:
                put()
        put()
        array.flush()
        del array
    return np.load(folder / VALUES, mmap_mode="r"), errors, tuple(id for _, id in sorted(wrong))


def _rows(table: Table, errors: Mapping[str, int]) -> Iterator[Row]:
    for name, method, layer, point in table.manifest["columns"]:
        if point is not None or method not in table.methods:
            continue
        facts = table.manifest["measures"][name]
        values, null = table.values(name, method, layer), table.values(name, NULL)
        level, draws, seed = table.level, table.resamples, table.seed
        summary = summarise(values, level=level, resamples=draws, seed=seed)
        failed = errors[""] + errors.get(f"{name} {method}", 0)
        both = np.isfinite(values) & np.isfinite(null)
        chance = null[both].mean() if both.any() else None
        comparable = both.any() and method != NULL
        p = paired(values, null, level=level, resamples=draws, seed=seed).p if comparable else None
        yield Row(
            method=method,
            measure=facts["label"],
            reference=facts["reference"],
            layer=layer,
            n=summary.n,
            n_undefined=summary.n_undefined - failed,
            n_errors=failed,
            mean=_number(summary.mean),
            std=_number(summary.std),
            low=_number(summary.low),
            high=_number(summary.high),
            higher_is_better=facts["higher_is_better"],
            null=_number(chance),
            p_null=_number(p),
        )


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
