"""`py.typed` as a user meets it: mypy, strict, over files that only import mixlens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GOOD = """
from pathlib import Path
from typing import Any

import torch
from typing_extensions import assert_type

import mixlens
from mixlens.results import Attribution, Comparison, LayerMaps, Results, Similarity, Trace


def texts(lens: mixlens.Lens, unknown: Any, path: Path, ids: torch.Tensor) -> None:
    assert_type(lens.attribute("a good film."), Attribution)
    assert_type(lens.attribute("a good film.", "alti", "positive", batch_size=1, receptive_field=True), Attribution)
    assert_type(lens.attribute(text="a good film."), Attribution)
    assert_type(lens.attribute(("a man", "a person")), Attribution)
    assert_type(lens.attribute(mixlens.Words(["a", "film"])), Attribution)
    assert_type(lens.attribute([101, 102]), Attribution)
    assert_type(lens.attribute(path), Attribution)
    assert_type(lens.attribute(["good", "bad"], errors="skip"), Results[Attribution])
    assert_type(lens.attribute([("a man", "a person")]), Results[Attribution])
    assert_type(lens.attribute([[101, 102], [101, 102]]), Results[Attribution])
    assert_type(lens.attribute("a good film.", target="all"), Results[Attribution])
    assert_type(lens.attribute("a good film.", "alti", "all"), Results[Attribution])
    assert_type(lens.attribute(unknown), Any)
    assert_type(lens.attribute(ids), Any)
    assert_type(lens.attribute({"input_ids": ids}), Any)
    assert_type(lens.mixing("a good film.", "alti", queries=[0]), LayerMaps)
    assert_type(lens.mixing(["good", "bad"]), Results[LayerMaps])
    assert_type(lens.mixing_ratio("good"), torch.Tensor)
    assert_type(lens.mixing_ratio(["good", "bad"]), list[torch.Tensor])
    assert_type(lens.compare("good", ["alti", "attcat"]), Comparison)
    assert_type(lens.plan("good").passes, float)


def answers(lens: mixlens.Lens) -> None:
    chat = [{"role": "user", "content": "Who wrote Hamlet?"}]
    assert_type(lens.trace("Anna has a dog.", max_new_tokens=1), Trace)
    assert_type(lens.trace(chat, documents={"a.txt": "Shakespeare."}), Trace)
    assert_type(lens.trace([chat, chat]), Results[Trace])
    assert_type(lens.trace(["Anna", "Tom"]), Results[Trace])
    assert_type(lens.similarity("a car", "an automobile"), Similarity)
    assert_type(lens.similarity("a car", ["an automobile", "a tree"]), Results[Similarity])


def sorted_words(lens: mixlens.Lens, reviews: list[str]) -> list[str]:
    first = lens.attribute(reviews[0])
    lines = [f"{first.target.label} {first.meta['probability']}"]
    for result in lens.attribute(reviews, method="alti"):
        lines += [word.text for word in sorted(result.words(), key=lambda word: -word.score)]
    return lines
"""
BAD = {
    'lens.attribute("a", batch_size="many")': "call-overload",
    "lens.attribute(3.5)": "call-overload",
    'lens.mixing("a", method=3)': "call-overload",
    'lens.mixing("a").words()': "attr-defined",
    'lens.attribute(["a", "b"]).target': "attr-defined",
    'lens.trace("a", max_new_tokens="2")': "call-overload",
    'lens.mixing_ratio(["a"]).shape': "attr-defined",
}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is for developers")
def test_a_users_mypy_passes_what_is_right_and_not_what_is_wrong(tmp_path: Path) -> None:
    readme = FENCED.findall((ROOT / "README.md").read_text("utf-8"))
    assert len(readme) >= 2
    files = {f"readme{number}": block for number, block in enumerate(readme)}
    wrong = "import mixlens\n\nlens = mixlens.load()\n" + "".join(f"{line}\n" for line in BAD)
    for name, text in {**files, "good": GOOD, "bad": wrong}.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    env = {**os.environ, "MYPYPATH": "", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "mypy", "--strict", "--hide-error-context", "--no-pretty", "--config-file=", "."]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    found = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line for line in found if not line.startswith("bad.py:")] == [], done.stdout
    assert [(int(line.split(":")[1]), line.rpartition("[")[2].rstrip("]")) for line in found] == [
        (number, code) for number, code in enumerate(BAD.values(), 4)
    ], done.stdout + done.stderr
