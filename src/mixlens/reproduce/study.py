"""What a reproduction is run with: models, data, how many texts, and where results are kept."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mixlens
from mixlens.errors import DataError, UnknownOption
from mixlens.evaluation import Table, evaluate
from mixlens.evaluation.fingerprint import model_facts, versions
from mixlens.evaluation.log import Log, Mark, Record, lines
from mixlens.files import unzipped
from mixlens.lens import Lens
from mixlens.progress import PartsProgress
from mixlens.reproduce.findings import Method
from mixlens.results import Attribution, LayerMaps
from mixlens.target import Target
from mixlens.tasks import digest

BATCH = 32
DataRow = dict[str, Any]


@dataclass(eq=False)
class Study:
    """One run of one reproduction. `models`: role -> model, for other models than the embedded ones.

    `out` is its own folder; `runs`, beside it, holds the evaluations, which several reproductions may share.
    """

    name: str
    data: Path | None
    out: Path
    runs: Path
    limit: int | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    device: str | None = None
    batch_size: int = BATCH
    costly: int | None = None  # texts for methods of hundreds of passes a text; None: all
    resamples: int = 1000
    seeds: int | None = None  # of generated data; None: as many as it is published with
    progress: PartsProgress | None = None
    generated: bool = False  # its data are made, none are read from `data`
    used: dict[str, str] = field(default_factory=dict)  # role -> model, for the record
    counted: dict[str, int] = field(default_factory=dict)  # data set -> texts
    _lenses: dict[str, Lens] = field(default_factory=dict, repr=False)

    def lens(self, role: str) -> Lens:
        """The lens on the model of a role ("sst2", "agreement" ...): the embedded one unless another was named."""
        if role not in self._lenses:
            wanted = self.models.get(role, self.models.get("*"))
            self.add(role, lambda: mixlens.load(wanted if wanted is not None else f"mixlens:{role}"))
            self.used[role] = self._lenses[role].name
        return self._lenses[role]

    def add(self, role: str, load: Callable[[], Lens]) -> None:
        """A lens for a role that no model is named for, on the study's device."""
        if role in self._lenses:
            return
        lens = load()
        if self.device is not None:
            try:
                lens.model.to(self.device)
            except (RuntimeError, AssertionError) as error:  # AssertionError: torch was built without it
                raise UnknownOption(f"expected device= one that is here, got {self.device!r}: {error}") from None
        self._lenses[role] = lens

    def attribute(self, role: str, text: Any, method: str, target: Target | None = None, **options: Any) -> Attribution:
        """`Lens.attribute` of one text, on the model of a role."""
        result = self.lens(role).attribute(text, method, target, **options)
        assert isinstance(result, Attribution)
        return result

    def mixing(self, role: str, text: Any, method: str) -> LayerMaps:
        """`Lens.mixing` of one text, on the model of a role."""
        maps = self.lens(role).mixing(text, method)
        assert isinstance(maps, LayerMaps)
        return maps

    def rows(
        self, file: str, keep: Callable[[DataRow, int], bool] | None = None, at_most: int | None = None
    ) -> list[DataRow]:
        """The rows of a file of the data folder (or of its `.gz`), in order, no more than asked for.

        `keep(row, number)` chooses. Raises DataError where there is no folder or no such file.
        """
        if self.data is None:
            raise DataError(
                f"{self.name} needs {file}, which has no licence that would let us bring it along; give the folder "
                "that holds it with --data DIR (docs/reproduction.md says which files, and where they are from)"
            )
        path = next((p for p in (self.data / file, self.data / f"{file}.gz") if p.is_file()), None)
        if path is None:
            raise DataError(f"expected the file {self.data / file} (or {file}.gz) for {self.name}, found none")
        with io.TextIOWrapper(unzipped(path), encoding="utf-8") as lines:
            every = [json.loads(line) for line in lines]
        chosen = [row for number, row in enumerate(every) if keep is None or keep(row, number)]
        chosen = chosen[: min(self.limit or len(chosen), at_most or len(chosen))]
        self.counted[file] = len(chosen)
        return chosen

    def evaluate(
        self, part: str, role: str, data: Any, methods: Sequence[Any], measures: Sequence[Any], **settings: Any
    ) -> Table:
        """`mixlens.evaluate`, kept in a folder, so that a killed run goes on and one that was done is only read."""
        report = None if self.progress is None else (lambda done, total: self.progress(part, done, total))  # type: ignore[misc]
        lens = self.lens(role)
        return evaluate(
            lens,
            data,
            methods,
            measures,
            self._folder(part),
            batch_size=settings.pop("batch_size", self.batch_size),
            resamples=self.resamples,
            progress=report,
            **settings,
        )

    def each(
        self, part: str, role: str, rows: Sequence[DataRow], numbers: Callable[[DataRow], Sequence[float]]
    ) -> NDArray[np.float64]:
        """(row, number): what `numbers` finds in each row, kept in a folder row by row; a killed run goes on there."""
        folder = self._folder(part)
        known = hashlib.sha256(b"\n".join(digest(row) for row in rows)).hexdigest()
        log = Log(folder, {"model": model_facts(self.lens(role)), "rows": known, "versions": versions()})
        try:
            for at in range(len(log.marks), len(rows)):
                log.append([Record(at, str(at), [float(v) for v in numbers(rows[at])])], Mark(at, 0, True, at + 1, ""))
                if self.progress is not None:
                    self.progress(part, at + 1, len(rows))
        finally:
            log.close()
        return np.array([line["v"] for line in lines(folder)], dtype=np.float64)

    def _folder(self, part: str) -> Path:
        return self.runs / (part if self.limit is None else f"{part}-limit{self.limit}")

    def split(
        self,
        part: str,
        role: str,
        rows: Sequence[DataRow],
        methods: Sequence[Method],
        measures: Sequence[str],
        costly: Sequence[str],
        beside: Sequence[Any] = (),
        **settings: Any,
    ) -> Joined:
        """`evaluate`, where the methods labelled in `costly` have a run of their own, on `self.costly` of the texts.

        These are evenly spaced; all of them without a limit. `beside`: measures of the other methods alone.
        """
        few = len(rows) if self.costly is None else min(self.costly, len(rows))
        chosen = tuple(round(i * (len(rows) - 1) / max(1, few - 1)) for i in range(few))
        dear = [m for m in methods if m[0] in costly]
        rest = [m for m in methods if m[0] not in costly]
        table = self.evaluate(f"{part}-others", role, rows, rest, [*measures, *beside], **settings)
        part = f"{part}-costly" if few == len(rows) else f"{part}-{few}"
        other = self.evaluate(part, role, [rows[i] for i in chosen], dear, measures, **settings)
        return Joined(table, other, tuple(m[0] for m in dear), chosen, len(rows))


@dataclass(frozen=True, eq=False)
class Joined:
    """Two tables of the same measures: all texts, and for some methods a part of them."""

    table: Table
    other: Table
    costly: tuple[str, ...]
    chosen: tuple[int, ...]
    count: int

    def values(self, measure: str, method: str, layer: int | None = None) -> NDArray[np.float64]:
        """(example,) in the data's order; NaN where undefined, and where a costly method did not look."""
        if method not in self.costly:
            return self.table.values(measure, method, layer)
        out = np.full(self.count, np.nan)
        out[list(self.chosen)] = self.other.values(measure, method, layer)
        return out

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers' numbers, from 1."""
        return tuple(str(k + 1) for k in range(1 + max(row.layer for row in self.table if row.layer is not None)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of the texts."""
        names = ", ".join(self.costly)
        partial = len(self.chosen) < self.count
        return (f"{names}: on {len(self.chosen)} of the {self.count} texts, evenly spaced.",) if partial else ()
