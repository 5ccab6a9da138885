"""A run that is killed ends with the very files of an undisturbed one; a changed run is refused by name."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mixlens
from mixlens.dataset import engines
from mixlens.dataset import explain as module
from mixlens.errors import ResultFileError, RunChanged

TEXTS = ["a deep film .", "not bad", "", "a very slow and bad film .", "meaningful and deep .", "good", "bad", "a film"]
DRIVER = """
import os, signal, sys
import torch
torch.set_num_threads(1)
import mixlens
from mixlens.dataset import engines
from mixlens.dataset import explain as module
from mixlens.evaluation import log
module.WINDOW = 3
if sys.argv[3] == "between":  # behind a whole file, before the log has it
    def append(*args):
        os.kill(os.getpid(), signal.SIGKILL)
    whole, calls = log.Log.append, []
    def second(self, *args):
        calls.append(1)
        return append() if len(calls) == 2 else whole(self, *args)
    log.Log.append = second
def progress(done, total):
    if sys.argv[3] == "within" and done > 3:
        os.kill(os.getpid(), signal.SIGKILL)
mixlens.explain_data(mixlens.load(sys.argv[1]), {texts!r}, "alti", out=sys.argv[2], progress=progress)
"""


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 3)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "manifest.json"}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["within", "between"])
def test_a_killed_process_loses_no_file(
    lens: mixlens.Lens, tiny_bert_folder: Path, tmp_path: Path, where: str, script: Callable[..., str]
) -> None:
    """Another process dies; this one goes on, and has made the undisturbed files."""
    (driver := tmp_path / "driver.py").write_text(DRIVER.replace("{texts!r}", repr(TEXTS)), "utf-8")
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "undisturbed")
    script(driver, str(tiny_bert_folder), str(tmp_path / "killed"), where, status=-signal.SIGKILL)
    there = sorted(path.name for path in (tmp_path / "killed").glob("*.parquet"))
    assert there == ["part-000000.parquet"] + ["part-000001.parquet"] * (where == "between")
    so_far = mixlens.read(tmp_path / "killed")
    assert isinstance(so_far, mixlens.Explained) and not so_far.finished and repr(so_far).endswith(", unfinished)")
    before = (tmp_path / "killed" / "part-000000.parquet").stat().st_mtime_ns
    assert mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "killed").finished
    assert (tmp_path / "killed" / "part-000000.parquet").stat().st_mtime_ns == before
    assert files(tmp_path / "killed") == files(tmp_path / "undisturbed")


def test_ctrl_c_goes_on_where_it_was(lens: mixlens.Lens, tmp_path: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        if done > 4:
            raise KeyboardInterrupt

    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "run", progress=stop)
    assert not (tmp_path / "run" / "summary.html").exists()
    seen: list[int] = []
    again = mixlens.explain_data(
        lens, TEXTS, "alti", out=tmp_path / "run", progress=lambda done, total: seen.append(done)
    )
    assert seen[0] == 3  # what is there is not computed again
    assert files(tmp_path / "run") == files(tmp_path / "whole") and again.finished


def test_a_finished_run_is_read(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    monkeypatch.setattr(engines, "rows_of", None)
    again = mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path, top=3)
    assert [text.scores for text in again] == [text.scores for text in first]
    read = mixlens.read(tmp_path)
    assert repr(read) == repr(again) == "Explained(alti, 7 texts, 1 failed)"


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"method": "globenc"}, 'method: was "alti", now "globenc"'),
    ({"target": "positive"}, 'target: was null, now "positive"'),
    ({"batch_size": 3}, "batch_size: was 32, now 3"),
    ({"truncate": True}, "truncate: was false, now true"),
    ({"limit": 2}, "limit: was null, now 2"),
    ({"normalize": False}, "options.normalize: was null, now false"),
    ({"memory": "3GB"}, "memory: was"),
    ({"field": "review"}, "task.fields.text"),
    ({"data": [*TEXTS[:4], "other", *TEXTS[5:]]}, "expected the data of the run in .*, got other rows: its first 6"),
    ({"data": TEXTS[:5]}, "data.rows: was 8, now 5"),
]


def test_a_changed_run_is_refused(lens: mixlens.Lens, tmp_path: Path) -> None:
    asked: dict[str, Any] = {"data": TEXTS, "method": "alti", "out": tmp_path}
    mixlens.explain_data(lens, **asked)
    before = files(tmp_path)
    for change, says in CHANGES:
        with pytest.raises(RunChanged, match=says):
            mixlens.explain_data(lens, **{**asked, **change})
        assert files(tmp_path) == before


def test_another_model_is_refused(lens: mixlens.Lens, tmp_path: Path, tiny_bert_folder: Path) -> None:
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    other = mixlens.load(str(tiny_bert_folder))
    other.model.classifier.weight.data *= 1.5
    with pytest.raises(RunChanged, match=r"model\.weights: was"):
        mixlens.explain_data(other, TEXTS, "alti", out=tmp_path)


def test_an_evaluation_s_folder_is_refused_and_the_other_way(lens: mixlens.Lens, tmp_path: Path) -> None:
    mixlens.evaluate(lens, TEXTS, ["random"], ["special_rank"], tmp_path / "table", resamples=2)
    with pytest.raises(RunChanged, match="another:\n  what made it: was evaluate, now explain_data\ngive the new"):
        mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "table")
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "texts")
    with pytest.raises(RunChanged, match="what made it: was explain_data, now evaluate"):
        mixlens.evaluate(lens, TEXTS, ["random"], ["special_rank"], tmp_path / "texts", resamples=2)
    with pytest.raises(ResultFileError, match=r"expected a folder that mixlens\.explain_data wrote"):
        mixlens.Explained(tmp_path / "table")


def test_a_file_that_is_gone_is_made_again(lens: mixlens.Lens, tmp_path: Path) -> None:
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    before = files(tmp_path)
    (tmp_path / "part-000001.parquet").unlink()
    with pytest.raises(ResultFileError, match=r"expected part-000001\.parquet to go on at row 3, got part-000002"):
        len(mixlens.read(tmp_path))
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    assert files(tmp_path) == before


def test_a_last_file_that_is_gone_is_missed(lens: mixlens.Lens, tmp_path: Path) -> None:
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    whole = files(tmp_path)
    (tmp_path / "part-000002.parquet").unlink()
    with pytest.raises(ResultFileError, match=r"expected the files of 8 rows in .*, got those of 6; call .* again"):
        len(mixlens.read(tmp_path))
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    assert files(tmp_path) == whole


def test_a_file_that_was_changed_is_refused(lens: mixlens.Lens, tmp_path: Path) -> None:
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    path = tmp_path / "part-000001.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ResultFileError, match="as it was written, it was changed since"):
        mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    with pytest.raises(ResultFileError, match="damaged or another's"):
        list(mixlens.read(tmp_path))


def test_files_of_a_newer_format_are_refused(lens: mixlens.Lens, tmp_path: Path, monkeypatch: Any) -> None:
    from mixlens.results import shards

    monkeypatch.setattr(shards, "FORMAT", 2)
    mixlens.explain_data(lens, ["good"], "alti", out=tmp_path)
    monkeypatch.setattr(shards, "FORMAT", 1)
    with pytest.raises(ResultFileError, match="format 1 or older, got format 2"):
        len(mixlens.read(tmp_path))


def test_the_record_of_the_run(lens: mixlens.Lens, tmp_path: Path) -> None:
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert (manifest["kind"], manifest["method"], manifest["classes"]) == (
        "explain_data",
        "alti",
        ["negative", "positive"],
    )
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text("utf-8").splitlines()]
    assert [(line["id"], line["rows"], line["failed"]) for line in lines if "id" in line] == [
        ("part-000000.parquet", 3, 1),
        ("part-000001.parquet", 3, 0),
        ("part-000002.parquet", 2, 0),
    ]
    assert (tmp_path / "summary.html").is_file()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_texts(tiny_bert_folder: Path, script: Callable[..., str]) -> None:
    out = script(Path(__file__).with_name("flat.py"), str(tiny_bert_folder))
    mib = {line.split()[0]: [float(number) for number in line.split()[1:]] for line in out.splitlines()}
    assert len(mib["flat"]) == 4
    assert mib["flat"][-1] - mib["flat"][0] < 2  # 192 texts more
    assert mib["leak"][-1] - mib["leak"][0] > 2  # (20 kB a text kept are seen)
