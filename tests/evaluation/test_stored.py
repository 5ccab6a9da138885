"""A run folder that an earlier version wrote goes on: `tests/stored/run`, of the first format with marks and digests.

What the machine and the packages are is left out of the comparison: that a run refuses others is tested elsewhere.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import mixlens
from mixlens.evaluation import windows
from mixlens.evaluation.fingerprint import model_facts, versions

STORED = Path(__file__).parents[1] / "stored" / "run"
TINY = Path(__file__).parents[1] / "golden" / "tiny"
TEXTS = [([2, 5, 6, 7, 3], 1), ([2, 8, 3], 0), ([2, 9, 10, 11, 12, 3], 1), ([2, 7, 7, 3], 0)]


@pytest.fixture
def lens(monkeypatch: pytest.MonkeyPatch) -> mixlens.Lens:
    monkeypatch.setattr(windows, "CHUNK", 2)
    lens = mixlens.load(TINY, dtype=torch.float64)
    lens.name = "tiny"
    return lens


@pytest.fixture
def folder(lens: mixlens.Lens, tmp_path: Path) -> Path:
    """The stored run, as if it had been made here."""
    shutil.copytree(STORED, tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    assert set(manifest["model"]) == {"name", *model_facts(lens)}  # nothing is asked now that it does not say
    manifest |= {"model": {"name": "tiny", **model_facts(lens)}, "versions": versions()}
    path.write_text(json.dumps(manifest), "utf-8")
    return tmp_path / "run"


def evaluate(lens: mixlens.Lens, folder: Path) -> mixlens.Table:
    rows = [{"input_ids": ids, "label": label} for ids, label in TEXTS]
    methods: list[Any] = ["alti", ("IxG", "grad_x_input", {"absolute": True})]
    measures = ["spearman", "aopc", "anisotropy"]
    return mixlens.evaluate(lens, rows, methods, measures, folder, layers="each", resamples=20)


def table(folder: Path) -> tuple[list[list[str]], list[float]]:
    """What the lines of a run's table are about, and their numbers."""
    rows = list(csv.DictReader((folder / "table.csv").read_text("utf-8").splitlines()))
    real = ("mean", "std", "low", "high", "null")
    return (
        [[cell for name, cell in row.items() if name not in real] for row in rows],
        [float(row[name]) if row[name] else -9.0 for row in rows for name in real],
    )


def test_a_finished_run_is_read(lens: mixlens.Lens, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "records", None)
    evaluate(lens, folder)
    (about, numbers), (stored_about, stored) = table(folder), table(STORED)
    assert about == stored_about and numbers == pytest.approx(stored, rel=1e-12)


def test_a_killed_run_goes_on(lens: mixlens.Lens, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen, made = folder / "results.jsonl", list[int](), windows.records
    first, mark, rest = path.read_bytes().partition(b'{"end"')
    path.write_bytes(first + mark + rest.partition(b"\n")[0] + b"\n" + rest.partition(b"\n")[2][:100])

    def records(setting: Any, examples: Any, tick: Any) -> Any:
        seen.append(len(examples))
        return made(setting, examples, tick)

    monkeypatch.setattr(windows, "records", records)
    evaluate(lens, folder)
    assert seen == [2]
    (about, numbers), (stored_about, stored) = table(folder), table(STORED)
    assert about == stored_about and numbers == pytest.approx(stored, rel=1e-6, abs=1e-9)  # vectors are float32
