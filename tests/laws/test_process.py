"""What a process has set changes no number, and nothing of it is changed: every method under every such state."""

from __future__ import annotations

import ast
import gc
import locale
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch

import mixlens
import mixlens.process
from mixlens.aggregate import AGGREGATIONS
from mixlens.attribute import ATTRIBUTIONS
from mixlens.mixing import MIXING
from models import families

SOURCES = sorted(set(Path(mixlens.__file__).parent.rglob("*.py")) - {Path(mixlens.process.__file__)})  # (that asks)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def default_device(device: str) -> Iterator[None]:
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def deterministic() -> Iterator[None]:
    """Memory that is handed out uninitialised holds NaN, too."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def flush_denormal() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def shown_warnings(action: str) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        yield


@contextmanager
def decimal_comma() -> Iterator[None]:
    """A locale of the process; where none but C is installed, C's own (the tests run in UTF-8)."""
    before = locale.setlocale(locale.LC_ALL)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "C"):
        try:
            locale.setlocale(locale.LC_ALL, name)
            break
        except locale.Error:
            continue
    try:
        yield
    finally:
        locale.setlocale(locale.LC_ALL, before)


@contextmanager
def at_once(*states: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    with ExitStack() as stack:
        for state in states:
            stack.enter_context(state())
        yield


STATES = {
    "float64": lambda: default_dtype(torch.float64),
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "device": lambda: default_device("meta"),
    "device context": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
    # what does not hide each other
    "grad, deterministic": lambda: at_once(torch.enable_grad, deterministic),
    "no_grad, denormals, ignored warnings, locale": lambda: at_once(
        torch.no_grad, flush_denormal, lambda: shown_warnings("ignore"), decimal_comma
    ),
}
QUICK = ("float64", "device")  # the others in the slow suite
TEXT = [5, 17, 8, 44, 23]
KINDS = [("bert", "sequence"), ("llama", "causal")]


def process() -> list[object]:
    """What a process has set, as far as a call might move it (Python's own `random` is moved by the shape checker)."""
    return [
        torch.get_default_dtype(),
        torch.empty(0).device,
        torch.is_autocast_enabled("cpu"),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_num_threads(),
        torch.random.get_rng_state().tolist() if torch.empty(0).device.type == "cpu" else None,
        str(np.random.get_state()),
        locale.setlocale(locale.LC_ALL),
        np.geterr(),
        dict(os.environ),
        dict(mpl.rcParams),
        list(warnings.filters),
        gc.isenabled(),
        sys.getrecursionlimit(),
    ]


def everything(lens: mixlens.Lens) -> dict[str, torch.Tensor]:
    """All maps and scores of a text, and the aggregations of a map."""
    found: dict[str, torch.Tensor] = {}
    supported = lens.check().supports
    for name in MIXING:
        if supported[name] is None:
            found[name] = lens.mixing(TEXT, name).scores
    maps = lens.mixing(TEXT, "attention")
    for name in AGGREGATIONS:
        found[f"attention {name}"] = getattr(maps, name)(*[0] * (name == "layer")).scores
    for name in ATTRIBUTIONS:
        if supported[name] is None and not (name in ("partial_lrp", "trans_att") and lens.head.task != "sequence"):
            more = {"steps": 8, "tolerance": float("inf")} if name == "integrated_gradients" else {}
            try:
                found[f"{name} scores"] = lens.attribute(TEXT, name, **more).scores
            except mixlens.errors.MixlensError as error:  # (no convergence, no mask token): the same in every state
                found[f"{name} refused {error}"] = torch.zeros(1, dtype=torch.float32, device="cpu")
    found["ratio"] = lens.mixing_ratio(TEXT, "norm")
    found["mean"], found["deviation"] = lens.output_statistics([TEXT, TEXT[1:]])
    return found


@pytest.fixture(scope="module", params=[KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.slow)], ids="-".join)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A model in float32 (the compiled loops' precision), saved, and its numbers in a process without settings."""
    folder = tmp_path_factory.mktemp("model")
    families.make(*request.param).float().save_pretrained(folder)
    return folder, everything(mixlens.load(folder))


@pytest.mark.parametrize(
    "state", [state if state in QUICK else pytest.param(state, marks=pytest.mark.slow) for state in STATES]
)
def test_a_state_of_the_process_changes_no_number_and_is_not_changed(state: str, made: tuple[Path, dict]) -> None:
    folder, expected = made
    with STATES[state]():
        before = process()
        got = everything(mixlens.load(folder))
        after = process()
    assert after == before
    assert got.keys() == expected.keys()
    for name, scores in got.items():
        assert scores.dtype == expected[name].dtype, name
        torch.testing.assert_close(
            scores, expected[name], rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_threads_change_rounding_alone(count: int, made: tuple[Path, dict]) -> None:
    folder, expected = made
    with threads(count):
        got = everything(mixlens.load(folder))
    exact = everything(mixlens.load(folder, dtype="float64"))
    for name, scores in got.items():
        rounding = float((expected[name] - exact.get(name, expected[name])).abs().max())
        limit = 4 * rounding + 1e-5 * float(expected[name].abs().max())
        assert float((scores - expected[name]).abs().max()) <= limit, name


FACTORIES = frozenset(
    "arange as_tensor asarray empty empty_strided eye full hann_window linspace logspace ones rand randint randn "
    "randperm scalar_tensor tensor zeros".split()
)


def _unsettled(source: str) -> list[str]:
    """Allocations of torch that leave dtype or device to the process, and files opened in the process's encoding.

    `**kind` passes: what is in it is not seen here.
    """
    bad = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        named = {keyword.arg for keyword in node.keywords}
        function = node.func
        if isinstance(function, ast.Attribute) and getattr(function.value, "id", None) == "torch":
            if function.attr in FACTORIES and not ({"dtype", "device"} <= named or None in named):
                bad.append(f"{node.lineno}: torch.{function.attr}")
            if function.attr.endswith("Tensor"):
                bad.append(f"{node.lineno}: torch.{function.attr}")
            continue
        reads, opens = getattr(function, "attr", None) == "read_text", getattr(function, "id", None) == "open"
        writes = getattr(function, "attr", None) == "write_text"
        binary = any("b" in ast.unparse(mode) for mode in node.args[1:2])
        if "encoding" not in named and ((reads and not node.args) or writes or (opens and not binary)):
            bad.append(f"{node.lineno}: {ast.unparse(function)}")
    return bad


def test_every_allocation_names_dtype_and_device_and_every_file_its_encoding() -> None:
    assert {str(path): bad for path in SOURCES if (bad := _unsettled(path.read_text(encoding="utf-8")))} == {}


@pytest.mark.parametrize(
    "line", ["torch.zeros(3)", "torch.arange(3, device=d)", "torch.FloatTensor([1])", "open(p)", "p.read_text()"]
)
def test_an_allocation_that_does_not_is_found(line: str) -> None:
    assert len(_unsettled(line)) == 1


@pytest.mark.slow
def test_home_locale_and_encoding_of_the_process_do_not_matter(tiny_bert_folder: Path) -> None:
    """A home that cannot be written to, and no UTF-8 anywhere."""
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "HF_HUB_OFFLINE": "1"}
    code = (
        "import sys, mixlens; lens = mixlens.load(sys.argv[1]);"
        "attr = lens.attribute('a deep \\u4e2d film .'); attr.to_html(sys.argv[2] + '.html');"
        "attr.plot(sys.argv[2] + '.png'); attr.save(sys.argv[2] + '.mixlens'); print(attr.scores.tolist())"
    )
    said = []
    for number, more in enumerate(
        ({}, {"HOME": "/proc/none", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    ):
        out = tiny_bert_folder / f"out{number}"
        run = subprocess.run(
            [sys.executable, "-c", code, str(tiny_bert_folder), str(out)],
            env={**bare, **more},
            capture_output=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr.decode("utf-8", "replace")
        said.append((run.stdout, out.with_suffix(".html").read_bytes()))
    assert said[0] == said[1]
