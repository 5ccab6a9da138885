"""`mixlens evaluate`: its flags, what it refuses before any work, which files are written when one cannot be."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import mixlens
from mixlens.cli import app
from mixlens.errors import UnknownOption


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


@pytest.fixture
def cli(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run `mixlens evaluate` in a folder with data of two rows, on the tiny model; nothing else is ever loaded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mixlens.cli.evaluating.load", lambda model: lens)
    (tmp_path / "d.csv").write_text("text,label\na deep film,1\nnot bad,0\n")
    return lambda *words: CliRunner().invoke(app, ["evaluate", "--data", "d.csv", "--resamples", "20", *words])


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test when the run begins."""
    monkeypatch.setattr(mixlens, "evaluate", lambda *_, **__: pytest.fail("the run began"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the library was asked for; the run itself stays away."""
    found: dict[str, Any] = {}

    def evaluate(*_: Any, **how: Any) -> None:
        found.update(how)
        raise UnknownOption("seen; pass second=, or out='x' (limit=), layers=None, truncate=True, resamples=2000")

    monkeypatch.setattr(mixlens, "evaluate", evaluate)
    return found


def said(done: Any) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stderr).split())


def test_a_second_model_and_the_resamples_reach_the_run(
    cli: Callable[..., Any], lens: mixlens.Lens, asked: dict[str, Any]
) -> None:
    done = cli("--measures", "consistency", "--methods", "alti", "--second", "other", "--resamples", "30")
    assert done.exit_code == 1
    assert (asked["second"], asked["resamples"]) == (lens, 30)


def test_sources_left_out_reach_the_run(cli: Callable[..., Any], asked: dict[str, Any]) -> None:
    cli("--measures", "aopc", "--exclude", "first", "--exclude", "template")
    assert asked["exclude"] == ["first", "template"]


def test_an_encoding_reaches_the_file(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_bytes("text;label\ngood café film;1.0\n".encode("latin-1"))
    words = ("--methods", "alti", "--measures", "special_rank", "--target", "label")
    assert "pass its --encoding ('latin-1'" in cli(*words).stderr
    done = cli(*words, "--encoding", "latin-1")
    assert (done.exit_code, done.stderr) == (0, "")


def test_hints_name_the_flags(cli: Callable[..., Any], asked: dict[str, Any]) -> None:
    hint = "seen; pass --second, or --out x (--limit), layers=None, --truncate, --resamples 2000"
    assert cli("--measures", "aopc").stderr == f"error: {hint}\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--measures", "consistency"], 2, "add --second MODEL"),
        (["--measures", "aopc", "--second", "other"], 2, "add consistency to --measures"),
        (["--resamples", "0"], 2, "'--resamples'"),
        (["--layers", "all"], 2, "--layers is one of each, upto, got 'all'"),
        (["--kind", "curves"], 2, "--kind chooses what --png draws; add --png FILE"),
        (["--measure", "aopc"], 2, "--measure chooses what --png draws; add --png FILE"),
        (["--csv", "."], 2, "is a folder"),
        (["--measures", "spearman", "--png", "z.png", "--kind", "curves"], 1, "it needs a perturbation measure"),
        (["--measures", "aopc", "-o", "aopc.levels=attcat-code", "--png", "z.png", "--kind", "curves"], 1, "alike"),
        (["--measures", "special_rank", "--png", "z.png"], 1, "a better direction"),
        (["--png", "z.png", "--kind", "heatmap"], 1, "it needs --layers each or 'upto'"),
        (["--methods", "random", "--layers", "each", "--png", "z.png", "--kind", "heatmap"], 1, "methods that have"),
        (["--png", "z.png", "--kind", "layers"], 1, "the model's vectors"),
        (["--png", "z.png", "--measure", "aopcc"], 1, "did you mean 'aopc'"),
        (
            ["--png", "z.png", "--kind", "curves", "--measure", "spearman"],
            1,
            "spearman has no picture of kind 'curves'",
        ),
        (["--measures", "anisotropy", "--png", "z.png", "--kind", "ranking"], 1, "a better direction"),
    ],
)
def test_refused_before_the_run(cli: Callable[..., Any], never: None, words: list[str], code: int, says: str) -> None:
    done = cli(*words)
    assert (done.exit_code, done.stdout) == (code, "")
    assert says in said(done)


def test_a_missing_extra_is_refused_before_the_run(
    cli: Callable[..., Any], never: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = cli("--parquet", "t.parquet")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "pip install" in done.stderr


def test_one_measure_is_drawn_and_one_lost_file_is_not_all(
    cli: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def broken(self: Any, path: Path) -> None:
        raise mixlens.errors.ResultFileError("no space")

    monkeypatch.setattr("mixlens.view.evaluation_figures._ranking", lambda found, measure: drawn.append(measure))
    monkeypatch.setattr("mixlens.view.kit.figures.finish", lambda draw, path, *what, look: draw(*what))
    monkeypatch.setattr(mixlens.Table, "to_html", broken)
    words = "--methods alti --measures special_rank,spearman:grad_l2,sufficiency --measure sufficiency"
    done = cli(*words.split(), "--html", "t.html", "--latex", "t.tex", "--png", "t.png")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == ["wrote t.tex", "wrote t.png", "error: no space"]
    assert (tmp_path / "t.tex").exists()
    assert drawn == ["sufficiency"]


def test_the_budget_reaches_the_run_and_stands_in_its_folder(cli: Callable[..., Any], tmp_path: Path) -> None:
    done = cli("--methods", "alti", "--measures", "special_rank", "--memory", "3GB", "--out", "run")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))["memory"] == 3 * 10**9
    refused = cli("--memory", "9..9GB")
    assert refused.exit_code == 1 and "expected --memory" in refused.stderr
