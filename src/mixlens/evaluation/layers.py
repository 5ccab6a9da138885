"""From what a run kept of the model's vectors to the table's lines, a layer each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.evaluation.design import MODEL
from mixlens.evaluation.fingerprint import plain, versions
from mixlens.evaluation.log import lines
from mixlens.evaluation.result import Row, Table
from mixlens.evaluation.vectors import unpacked
from mixlens.files import allocate, replacing, write_text
from mixlens.measure import MEASURES, Corpus
from mixlens.measure.measure import Spread

SPREADS = "spreads.json"


def corpus_rows(
    folder: Path,
    manifest: Mapping[str, Any],
    errors: Mapping[str, int],
    *,
    level: float,
    resamples: int,
    seed: int,
) -> Iterator[Row]:
    """The lines of the measures of a corpus."""
    known = _Known(folder)
    for number, (name, facts) in enumerate(manifest.get("corpora", {}).items()):
        measure = MEASURES[facts["measure"]]
        assert isinstance(measure, Corpus)
        vectors, kept = _gathered(folder, name, number, len(facts["layers"]))
        companions = _counts(kept, len(facts["layers"])) if measure.collects == "sums" else np.array(kept, dtype=str)
        failed = errors[""] + errors.get(f"{name} {MODEL}", 0)
        for at, layer in enumerate(facts["layers"]):
            companion = companions[:, at] if measure.collects == "sums" else companions
            draw_options: dict[str, Any] = {"level": level, "resamples": resamples, "draw_seed": seed}
            spread = known.spread(measure, np.array(vectors[at]), companion, {**draw_options, **facts["options"]})
            yield Row(
                method=MODEL,
                measure=facts["label"],
                reference=None,
                layer=layer,
                n=spread.n,
                n_undefined=len(companions) - spread.n,
                n_errors=failed,
                mean=_number(spread.value),
                std=None,
                low=_number(spread.low),
                high=_number(spread.high),
                higher_is_better=facts["higher_is_better"],
                null=_number(spread.null),
                p_null=_number(spread.p_null),
            )


def labelled_vectors(table: Table, measure: str) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """(layer, text, dim) and (text,): what a run kept for a measure of labelled vectors, and the labels, in order."""
    facts = table.facts(measure)
    number = list(table.corpora).index(table.named(measure))
    vectors, labels = _gathered(table.folder, table.named(measure), number, len(facts["layers"]))
    return vectors, np.array(labels, dtype=str)


class _Known:
    """Spreads, kept in the run's folder by a digest of all that they were worked out of: probes take minutes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SPREADS
        self.spreads: dict[str, list[float]] = {}
        try:
            read = json.loads(self.path.read_text("utf-8"))
            self.spreads = {
                key: [float(part) for part in numbers] for key, numbers in read.items() if len(numbers) == 6
            }
        except (OSError, ValueError, TypeError, AttributeError):
            pass  # none yet, or no such file as this writes: it is made again

    def spread(
        self, measure: Corpus, vectors: NDArray[Any], companion: NDArray[Any], options: Mapping[str, Any]
    ) -> Spread:
        """`measure.spread_of`, once."""
        facts = json.dumps(
            [measure.name, plain(options), versions(), vectors.shape, str(companion.dtype)], sort_keys=True
        )
        sha = hashlib.sha256(facts.encode())
        sha.update(vectors.tobytes())
        sha.update(companion.tobytes())
        key = sha.hexdigest()
        if key not in self.spreads:
            self.spreads[key] = list(astuple(measure.spread_of(vectors, companion, **options)))
            write_text(self.path, json.dumps(self.spreads))
        n, *rest = self.spreads[key]
        return Spread(int(n), *rest)


def _gathered(folder: Path, name: str, number: int, layers: int) -> tuple[NDArray[np.float32], list[Any]]:
    """(layer, text, dim), on the disk, in the data's order; each text's counts a layer, or its label."""
    members = sorted(line["i"] for line in lines(folder) if name in line.get("kept", ()))
    places = {i: at for at, i in enumerate(members)}
    companions: list[Any] = [None] * len(members)
    path = folder / f"vectors-{number}.npy"
    array: np.memmap[Any, np.dtype[np.float32]] | None = None
    with replacing(path) as temporary:
        for line in lines(folder):
            kept = line.get("kept", {}).get(name)
            if kept is None:
                continue
            vectors = unpacked(kept)
            if array is None:
                shape = (layers, len(members), vectors.shape[1])
                array = np.lib.format.open_memmap(temporary, "w+", np.float32, shape)
                allocate(temporary)
            array[:, places[line["i"]]] = vectors
            companions[places[line["i"]]] = kept["n"] if "n" in kept else kept["y"]
        if array is None:
            with open(temporary, "wb") as file:
                np.save(file, np.empty((layers, 0, 1), dtype=np.float32))
        else:
            array.flush()
        del array
    return np.load(path, mmap_mode="r" if members else None), companions


def _counts(kept: list[Any], layers: int) -> NDArray[np.int64]:
    return np.array(kept, dtype=np.int64).reshape(-1, layers)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
