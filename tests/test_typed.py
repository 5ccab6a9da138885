"""mypy, strict: over the package with all that CONTRIBUTING.md adds, and over a user's files that only import mixlens.

One run for both, since most of it is torch.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from sections import ROOT, SECTIONS, added, copied

ERROR = r"(?:.*/)?(\w+\.py):(\d+): error: .*\[([\w-]+)\]"
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

# What `--strict` asks of a user, where the package asks less of itself.
AS_A_USER = """
[[tool.mypy.overrides]]
module = [{}]
warn_return_any = true
disallow_untyped_calls = true
"""


def test_type_checkers_believe_the_package() -> None:
    """As mypy finds what is installed: by `py.typed`."""
    modulefinder = pytest.importorskip("mypy.modulefinder", reason="mypy is for developers")
    places = modulefinder.SearchPaths(python_path=(), mypy_path=(), package_path=(str(ROOT / "src"),), typeshed_path=())
    there = modulefinder.FindModuleCache(places, fscache=None, options=None).find_module("mixlens.lens")
    assert there == str(ROOT / "src" / "mixlens" / "lens.py")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is for developers")
def test_mypy_passes_what_is_right_and_not_what_is_wrong(tmp_path: Path) -> None:
    copy, user = copied(tmp_path / "copy"), tmp_path / "user"
    for title in SECTIONS:
        added(copy, title)
    readme = FENCED.findall((ROOT / "README.md").read_text("utf-8"))
    assert len(readme) >= 2
    wrong = "import mixlens\n\nlens = mixlens.load()\n" + "".join(f"{line}\n" for line in BAD)
    files = {**{f"readme{number}": block for number, block in enumerate(readme)}, "good": GOOD, "bad": wrong}
    user.mkdir()
    for name, text in files.items():
        (user / f"{name}.py").write_text(text, "utf-8")
    with (copy / "pyproject.toml").open("a", encoding="utf-8") as config:
        config.write(AS_A_USER.format(", ".join(f'"{name}"' for name in files)))
    modules = [word for name in files for word in ("-m", name)]
    command = [sys.executable, "-m", "mypy", "--hide-error-context", "--no-pretty", "-p", "mixlens", *modules]
    env = {**os.environ, "MYPYPATH": str(user), "PYTHONPATH": ""}
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)
    errors = [re.fullmatch(ERROR, line) for line in done.stdout.splitlines() if ": error:" in line]
    assert [error and error.groups() for error in errors] == [
        ("bad.py", str(number), code) for number, code in enumerate(BAD.values(), 4)
    ], done.stdout + done.stderr
