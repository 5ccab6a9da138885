"""Whoever explains the windows, the folder is the same but for rounding; workers that are lost cost nothing."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import accelerate
import pytest
import torch
from torch.nn.utils import parametrizations

import mixlens
from mixlens.dataset import engines
from mixlens.dataset import explain as module
from mixlens.dataset import worker as worker_module
from mixlens.dataset.worker import Worker
from mixlens.errors import DataError, ModelError, UnknownOption, WorkerLost

TEXTS = ["a deep film .", "not bad", "", "a very slow and bad film .", "meaningful and deep .", "good", "bad", "a film"]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 2)


@pytest.fixture
def hired(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whoever is hired from here on."""
    seen: list[Any] = []

    def kept(kind: Callable[..., Any]) -> Callable[..., Any]:
        def hire(*args: Any) -> Any:
            seen.append(kind(*args))
            return seen[-1]

        return hire

    monkeypatch.setattr(engines, "ENGINES", {name: kept(kind) for name, kind in engines.ENGINES.items()})
    return seen


def alike(a: Path, b: Path) -> bool:
    """The same files, and in them the same rows but for rounding: sums depend on where memory begins."""
    assert {path.name for path in a.iterdir()} == {path.name for path in b.iterdir()}
    one, other = mixlens.read(a), mixlens.read(b)
    assert isinstance(one, mixlens.Explained) and isinstance(other, mixlens.Explained)
    assert [path.name for path, _ in one.parts] == [path.name for path, _ in other.parts]
    assert one.failures == other.failures and len(one) == len(other) > 0
    for mine, its in zip(one, other, strict=True):
        assert (mine.row, mine.id, mine.text, mine.tokens, mine.target) == (
            its.row,
            its.id,
            its.text,
            its.tokens,
            its.target,
        )
        assert mine.scores == pytest.approx(its.scores, rel=1e-4, abs=1e-6)
    return one.finished and other.finished


@pytest.mark.slow
def test_processes_make_the_same_folder(lens: mixlens.Lens, tmp_path: Path, hired: list[Any]) -> None:
    """One of two is killed at its first window."""
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "alone")
    killed: list[int] = []

    def kill(done: int, total: int | None) -> None:
        if done and not killed:
            killed.append(hired[0].all[0].child.pid)
            os.kill(killed[0], signal.SIGKILL)

    made = mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "two", workers=2, progress=kill)
    assert alike(tmp_path / "two", tmp_path / "alone") and made.finished and len(made) == 7
    (pool,) = hired
    assert killed and pool.count == 2
    assert [process.child for process in pool.all] == [None, None] and not pool.folder.exists()
    assert mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "alone", workers=2).finished
    assert len(hired) == 1  # nobody is hired for what is there


def started_here() -> Any:
    """Ray, where it is installed and starts: it needs ports and shared memory, which not every machine gives."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    start = "import ray; ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False); ray.shutdown()"
    try:
        done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("Ray does not start here within two minutes")
    if done.returncode:
        pytest.skip(f"Ray does not start here: {(done.stderr.strip().splitlines() or ['no reason'])[-1][:200]}")
    return ray


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_ray_makes_the_same_folder(lens: mixlens.Lens, tmp_path: Path, hired: list[Any]) -> None:
    ray = started_here()
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "alone")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    killed: list[int] = []

    def kill(done: int, total: int | None) -> None:
        if done and not killed:
            first = hired[0].actors[0]
            killed.append(ray.get(first.__ray_call__.remote(lambda worker: os.getpid())))
            os.kill(killed[0], signal.SIGKILL)

    try:
        options: dict[str, Any] = {"engine": "ray", "workers": 2, "progress": kill}
        made = mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "ray", **options)
        assert ray.is_initialized()  # a cluster that was there goes on
    finally:
        ray.shutdown()
    assert alike(tmp_path / "ray", tmp_path / "alone") and made.finished
    assert killed and hired[0].count == 2


def test_a_worker_s_rows_are_the_run_s(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent is all that it needs. (In this process: the rest of it are pipes.)"""
    sent: list[bytes] = []

    class Here:
        count = 3

        def __init__(self, setting: Any, workers: int | None) -> None:
            with open(tmp_path / "setting.pt", "wb") as file:
                engines.pack(setting, file)
            self.worker = Worker(str(tmp_path / "setting.pt"), "cpu", torch.get_num_threads())

        def hand(self, window: Any) -> Callable[..., Any]:
            sent.append(pickle.dumps(window))
            return lambda tick: self.worker.rows(pickle.loads(sent[-1]) if window.number == 3 else window)

        def close(self) -> None:
            sent.append(b"closed")

    monkeypatch.setattr(engines, "ENGINES", {"local": Here})
    seen: list[int] = []
    mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "alone")
    mixlens.explain_data(
        lens, TEXTS, "alti", out=tmp_path / "sent", workers=3, progress=lambda done, total: seen.append(done)
    )
    assert alike(tmp_path / "sent", tmp_path / "alone")
    assert len(sent) == 5 and sent[-1] == b"closed" and seen == [0, 2, 4, 6, 8]


def test_a_worker_that_is_always_lost_is_said(
    lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BEGIN", "raise SystemExit(9)")
    with pytest.raises(WorkerLost, match=r"expected the rows 0 to 1 explained, got 3 workers lost .* goes on"):
        mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path, workers=2)
    assert not list(tmp_path.glob("*.parquet"))


def test_what_is_the_call_s_fault_comes_out(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = "import pickle, sys; from mixlens.errors import UnknownOption\n"
    answers += "pickle.dump(UnknownOption('no such thing'), sys.stdout.buffer); sys.stdout.flush(); sys.stdin.read()"
    monkeypatch.setattr(engines, "BEGIN", answers)
    with pytest.raises(UnknownOption, match="no such thing"):
        mixlens.explain_data(lens, TEXTS, "alti", workers=2)


def test_what_cannot_be_sent_is_refused(tiny_bert_folder: Path, lens: mixlens.Lens) -> None:
    class Odd(dict[str, Any]):
        def __reduce__(self) -> Any:
            raise TypeError("an odd row")

    with pytest.raises(DataError, match="expected rows that can be sent to a worker, got: an odd row; leave workers="):
        mixlens.explain_data(lens, [Odd(text="a film")], "alti", workers=2)
    kept = mixlens.load(str(tiny_bert_folder))
    accelerate.cpu_offload(kept.model, execution_device="cpu")
    with pytest.raises(ModelError, match="expected a model whose weights are all in memory, got one with weights that"):
        mixlens.explain_data(kept, TEXTS, "alti", workers=2)
    other = mixlens.load(str(tiny_bert_folder))
    parametrizations.weight_norm(other.model.classifier)
    with pytest.raises(ModelError, match=r"sent to another process \(pickled\), got: .*parametrized"):
        mixlens.explain_data(other, TEXTS, "alti", workers=2)


def test_classes_that_only_the_run_knows(
    tiny_bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a script or of a notebook's cells are."""
    cells: Any = ModuleType("cells")

    class Here:
        count = 1

        def __init__(self, setting: Any, workers: int | None) -> None:
            engines.pack(setting, file := io.BytesIO())
            self.packed = file.getvalue()

        def hand(self, window: Any) -> Callable[..., Any]:
            sys.modules.pop("cells", None)
            return lambda tick: Worker(self.packed, "cpu", torch.get_num_threads()).rows(window)

        def close(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, "cells", cells)
    monkeypatch.setattr(engines, "ENGINES", {"local": Here})
    mine = mixlens.load(str(tiny_bert_folder))
    cells.Mine = type("Mine", (type(mine.model),), {"__module__": "cells"})
    mine.model.__class__ = cells.Mine
    with pytest.raises(ModelError, match="whose classes a worker can import, got: No module named 'cells'; put them"):
        mixlens.explain_data(mine, TEXTS, "alti", workers=2)


class Answers(io.BytesIO):
    """What a worker wrote."""

    def close(self) -> None:
        pass


class Odd(Exception):
    """One that does not come out of a pickle."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(f"{name} {number}")


def test_a_worker_answers_whatever_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    cells: Any = ModuleType("cells")
    cells.Row = type("Row", (), {"__module__": "cells"})
    with monkeypatch.context() as known:
        known.setitem(sys.modules, "cells", cells)
        unknown = pickle.dumps(cells.Row())
    sent = [pickle.dumps(("setting.pt", "cpu", 1)), *(pickle.dumps(window) for window in (unknown, pickle.dumps(7)))]
    answers = Answers()

    def rows(worker: Any, window: Any) -> Any:
        raise Odd("a worker's", window)

    monkeypatch.setattr(Worker, "rows", rows)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"".join(sent))))
    monkeypatch.setattr(worker_module, "os", SimpleNamespace(fdopen=lambda handle, mode: answers))
    monkeypatch.setattr(worker_module, "signal", SimpleNamespace(signal=lambda *args: None, SIGINT=2, SIG_IGN=1))
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    worker_module.main(1)
    answers.seek(0)
    refused, odd = pickle.load(answers), pickle.load(answers)
    assert isinstance(refused, DataError) and "rows whose classes a worker can import, got: No mod" in str(refused)
    assert type(odd) is RuntimeError and str(odd) == "Odd: a worker's 7"


def test_workers_and_engines_are_checked(lens: mixlens.Lens) -> None:
    for workers in (0, -1, 1.5, True):
        with pytest.raises(UnknownOption, match="expected workers of 1 or more, or None"):
            mixlens.explain_data(lens, TEXTS, "alti", workers=workers)  # type: ignore[arg-type]
    with pytest.raises(UnknownOption, match="expected engine= one of local, ray, got 'spark'"):
        mixlens.explain_data(lens, TEXTS, "alti", engine="spark")


def test_gpus_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [engines.on(torch.device("cuda:1"), i) for i in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert engines.on(torch.device("cpu"), 1) == "cpu"
