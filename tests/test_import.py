"""An import stays light, and the check of that can fail."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import mixlens

HEAVY = {"torch", "transformers", "matplotlib", "numpy", "scipy", "pandas", "jinja2", "tokenizers", "safetensors"}
PRINT = "\nimport sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"


def loaded_by(statement: str) -> set[str]:
    """The top-level modules in a fresh interpreter after the statement."""
    run = subprocess.run([sys.executable, "-c", statement + PRINT], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("statement", ["import mixlens", "import mixlens.cli", "from mixlens import errors"])
def test_import_is_light(statement):
    assert not loaded_by(statement) & HEAVY


def test_the_check_can_fail():
    assert loaded_by("import mixlens, numpy") & HEAVY == {"numpy"}


def test_help_answers_at_once():
    """Under 0.7 s of processor time (the clock of a busy machine says less); best of three."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "mixlens", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.7


@pytest.mark.parametrize("words", ["cite alti aopc", "cite globenk", "methods", "methods alti --json"])
def test_who_asks_what_there_is_waits_for_no_torch(words):
    """What the tables say is read as data; a name that is none is refused by the same."""
    run = f"import sys; sys.argv = ['mixlens', *{words.split()}]; import mixlens.cli, contextlib, os"
    quiet = (
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(open(os.devnull, 'w')): mixlens.cli.main()"
    )
    assert not loaded_by(f"{run}\n{quiet}\n") & HEAVY


def imported(path: Path) -> set[str]:
    """The full names that a module imports as it is imported itself."""
    top = ast.parse(path.read_text("utf-8")).body
    names = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
    return names | {f"{n.module}.{alias.name}" for n in top if isinstance(n, ast.ImportFrom) for alias in n.names}


def test_printing_a_result_imports_no_matplotlib():
    """Figures are files of their own: a terminal, a page, LaTeX and a table cost no more than they must."""
    view = Path(mixlens.__file__).parent / "view"
    modules = {path.stem: path for path in view.rglob("*.py")}
    drawing = {name for name in modules if name.endswith("figures") or name in ("fonts", "reproduction", "style")}
    drawing |= {"evaluation", "evaluation_cells"}  # which pictures there are decides what is marked
    assert {"figures", "fonts", "maps_figures"} <= drawing
    for name in modules.keys() - drawing:
        ends = {part for full in imported(modules[name]) for part in (full.partition(".")[0], full.rpartition(".")[2])}
        assert not ends & (drawing | {"matplotlib"}), name
