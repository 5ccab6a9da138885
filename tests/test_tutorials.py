"""The notebooks of `docs/tutorials`: what they say was printed is printed, and nothing of a machine stands in them.

`python docs/tutorials/run.py` runs them anew.
"""

from __future__ import annotations

import ast
import json
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import mixlens
from models import smollm2

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))
KILOBYTES = 200


def cells(path: Path) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text("utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text(lines: Any) -> str:
    return "".join(lines)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_run_from_top_to_bottom(path: Path) -> None:
    assert [cell["execution_count"] for cell in cells(path)] == list(range(1, len(cells(path)) + 1))
    outputs = [output for cell in cells(path) for output in cell["outputs"]]
    assert outputs and {output["output_type"] for output in outputs} <= {"stream", "execute_result"}
    assert {output.get("name") for output in outputs if output["output_type"] == "stream"} <= {"stdout"}  # no warnings
    whole = path.read_text("utf-8")
    assert len(whole) < KILOBYTES * 1000
    assert not re.search(r"/(home|root|tmp|work|usr)/|0x[0-9a-f]{6,}", whole)
    title = json.loads(whole)["cells"][0]["source"]
    assert text(title).startswith("# ")


def test_there_is_a_notebook_for_each_job() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "a-method-of-your-own",
        "compare-methods",
        "globenc-table",
        "many-texts",
        "rag-answer",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[smollm2.needed] * (path.stem == "rag-answer"), id=path.stem) for path in NOTEBOOKS],
)
def test_a_notebook_says_what_it_prints(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Printed text and the plain text of a cell's value; pictures are drawn and not compared."""
    if path.stem == "rag-answer":
        monkeypatch.setattr(mixlens, "load", smollm2.load)
    monkeypatch.chdir(tmp_path)
    from mixlens.mixing.table import MIXING

    names: dict[str, Any] = {}
    known = dict(MIXING)
    try:
        for cell in cells(path):
            printed, value = run(text(cell["source"]), names)
            streams = [text(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream"]
            results = [text(o["data"]["text/plain"]) for o in cell["outputs"] if o["output_type"] == "execute_result"]
            assert printed == "".join(streams)
            assert ([repr(value)] if value is not None else []) == results
    finally:
        MIXING.clear()
        MIXING.update(known)


def run(code: str, names: dict[str, Any]) -> tuple[str, Any]:
    """What a cell prints, and the value of its last line."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return out.getvalue(), value
