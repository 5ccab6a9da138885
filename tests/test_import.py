"""An import stays light, and the check of that can fail."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "matplotlib", "numpy", "scipy", "pandas", "jinja2", "tokenizers", "safetensors"}
PRINT = "; import sys; print(*sorted({m.partition('.')[0] for m in sys.modules}))"


def loaded_by(statement: str) -> set[str]:
    """The top-level modules in a fresh interpreter after the statement."""
    run = subprocess.run([sys.executable, "-c", statement + PRINT], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("statement", ["import mixlens", "import mixlens.cli", "from mixlens import errors"])
def test_import_is_light(statement):
    assert not loaded_by(statement) & HEAVY


@pytest.mark.slow
def test_the_check_can_fail():
    assert {"torch", "numpy"} <= loaded_by("import mixlens; mixlens.Lens") & HEAVY


def test_help_answers_at_once():
    """Under 0.7 s of processor time (the clock of a busy machine says less); best of three."""

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "mixlens", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.7
