"""The console script as a process, and every method on the embedded default."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import mixlens
from cli.typed import TEXT
from mixlens.attribute import ATTRIBUTIONS
from mixlens.cli import app
from mixlens.mixing import MIXING


def process(*words: str, **settings) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mixlens", *words], capture_output=True, text=True, **settings)


def test_a_process_prints_json_and_nothing_else(tiny_bert_folder):
    run = process("explain", TEXT, "-m", str(tiny_bert_folder), "--json", "-")
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout)["text"] == TEXT


@pytest.mark.slow
def test_a_process_shows_the_traceback_when_asked(tiny_bert_folder):
    run = process("explain", TEXT, "-m", str(tiny_bert_folder), "--method", "globenk", "--debug")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("Traceback")
    assert run.stderr.rstrip().endswith("did you mean 'globenc'?")


@pytest.mark.slow
def test_a_terminal_without_the_characters_gets_the_rest(tiny_bert_folder):
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    run = process("explain", TEXT, "-m", str(tiny_bert_folder), env=ascii_only)
    assert (run.returncode, run.stderr) == (0, "")
    assert "meaningful" in run.stdout


@pytest.mark.slow
def test_the_embedded_default_answers(tmp_path):
    run = process("explain", TEXT, "--json", "-", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    data = json.loads(run.stdout)
    assert data["target"]["label"] == "positive"
    assert len(data["tokens"]) == len(data["scores"])


@pytest.fixture(scope="module")
def default(request):
    """The command line on the embedded default, loaded once."""
    lens = mixlens.load()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixlens, "load", lambda model=None: lens)

        def run(*words: str) -> dict:
            result = CliRunner().invoke(app, [*words, "--json", "-"])
            assert (result.exit_code, result.stderr) == (0, ""), result.output
            return json.loads(result.stdout)

        yield run


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name, kind in ATTRIBUTIONS.items() if kind.heads is None])
def test_every_method_explains_the_embedded_default(default, method):
    data = default("explain", TEXT, "--method", method)
    assert (data["method"], data["target"]["label"], len(data["scores"])) == (method, "positive", 8)
    assert all(math.isfinite(score) for score in data["scores"])
    assert any(data["scores"])


AGGREGATED = {  # each method once, each aggregation with several
    name: "mean" if facts.signed else ("rollout", "mean", "layer:-1")[turn % 3]
    for turn, (name, facts) in enumerate(MIXING.items())
}


@pytest.mark.slow
@pytest.mark.parametrize(("method", "how"), AGGREGATED.items())
def test_every_map_of_the_embedded_default(default, method, how):
    data = default("map", TEXT, "--method", method)
    assert [len(data["scores"]), len(data["scores"][0]), len(data["scores"][0][0])] == [6, 8, 8]
    assert default("map", TEXT, "--method", method, "--aggregate", how)["aggregation"] == how
    if MIXING[method].work != "jacobian":  # (of which there is a preset below)
        assert default("explain", TEXT, "--method", f"{method}+{how}")["method"] == f"{method}+{how}"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["attention", "alti", "value_zeroing"])
def test_flows_of_the_embedded_default(default, method):
    assert default("map", TEXT, "--method", method, "--aggregate", "flow", "--row", "0")["queries"] == [0]
    assert default("explain", TEXT, "--method", f"{method}+flow")["method"] == f"{method}+flow"


@pytest.mark.slow
def test_all_methods_side_by_side_on_the_embedded_default(default, tmp_path):
    page, picture = tmp_path / "all.html", tmp_path / "all.png"
    words = ["compare", TEXT, "--no-faithfulness", "--html", str(page), "--png", str(picture)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    for method in ATTRIBUTIONS:
        assert method in result.stdout
        assert method in page.read_text("utf-8")
    assert picture.read_bytes().startswith(b"\x89PNG")
