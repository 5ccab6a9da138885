"""What a type checker says of a user's own lines: they hold as they stand, without casts, and mistakes are named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mixlens

GOOD = """
import mixlens
from typing_extensions import assert_type

lens = mixlens.load()
assert_type(lens, mixlens.Lens)
attr = lens.attribute("a good film.", target="negative")
assert_type(attr, mixlens.Attribution)
print(attr.scores.tolist())
attr.to_html("page.html")
pair = lens.attribute(("a film", "a movie"), "alti")
assert_type(pair, mixlens.Attribution)
several = lens.attribute(["a good film.", "a bad film."], batch_size=8)
for each in several:
    print(each.scores)
print(several.skipped, lens.attribute("a film", target="all").names)
maps = lens.mixing("a good film.", "globenc")
assert_type(maps, mixlens.LayerMaps)
trace = mixlens.load("mixlens:smollm2").trace("The capital of France is", max_new_tokens=3)
assert_type(trace, mixlens.Trace)
print(lens.attribute([101, 7, 102]).scores)
"""
BAD = {
    'lens.attribute("a film").scoress': '"Attribution" has no attribute "scoress"',
    'lens.attribute("a film", batch_size="8")': "No overload variant",
    'lens.mixing("a film")[0].scores': "not indexable",
    "mixlens.load().attribut": 'has no attribute "attribut"',
}


@pytest.mark.slow
def test_a_users_lines_pass_a_strict_checker_and_their_mistakes_do_not(tmp_path):
    pytest.importorskip("mypy", reason="the type checker of the extra [dev]")
    wrong = "\n".join(BAD)
    (tmp_path / "user.py").write_text(GOOD)
    (tmp_path / "wrong.py").write_text(f"import mixlens\nlens = mixlens.load()\n{wrong}\n")
    # the library's own types alone: reading torch's takes two minutes and says nothing of ours
    alone = ["--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent"]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(tmp_path / "cache"),
        *alone,
    ]
    home = {**os.environ, "MYPYPATH": str(Path(mixlens.__file__).parents[1])}
    files = ["user.py", "wrong.py"]
    ran = subprocess.run([*command, *files], cwd=tmp_path, env=home, capture_output=True, text=True, check=False)
    assert (Path(mixlens.__file__).parent / "py.typed").is_file()
    errors = [line for line in ran.stdout.splitlines() if ": error: " in line]
    assert len(errors) == len(BAD), ran.stdout + ran.stderr
    for number, (error, words) in enumerate(zip(errors, BAD.values(), strict=True), start=3):
        assert error.startswith(f"wrong.py:{number}: ") and words in error
