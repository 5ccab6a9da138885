"""Errors on one line, wrong usage before the work, and the exit codes."""

from __future__ import annotations

import json
import re

import pytest

import mixlens
from cli.typed import TEXT, one_line_error
from mixlens.cli import running
from mixlens.cli.inputs import settings_of


def test_unknown_method_suggests(cli):
    assert one_line_error(cli("explain", TEXT, "--method", "globenk")).endswith("did you mean 'globenc'?")


@pytest.mark.parametrize("verb", ["explain", "map"])
def test_unknown_method_suggests_in_any_case(cli, verb):
    assert one_line_error(cli(verb, TEXT, "--method", "ALTI")).endswith("; did you mean 'alti'?")
    assert one_line_error(cli(verb, TEXT, "--method", "Globenk")).endswith("; did you mean 'globenc'?")


def test_unknown_option_names_those_there_are(cli):
    assert "would ignore the option 'q'" in one_line_error(cli("explain", TEXT, "--method", "alti", "--option", "q=1"))


def test_unknown_label_names_those_there_are(cli):
    assert "negative, positive" in one_line_error(cli("explain", TEXT, "--target", "happy"))


@pytest.mark.parametrize("verb", [["explain", TEXT, "-m"], ["map", TEXT, "-m"], ["check"]])
def test_a_folder_that_does_not_exist(cli, verb):
    assert "no such folder" in one_line_error(cli(*verb, "./nowhere", model=False))


def test_empty_text(cli):
    assert "at least one token" in one_line_error(cli("explain", " "))


def test_debug_lets_the_traceback_through(cli):
    result = cli("explain", TEXT, "--method", "globenk", "--debug")
    assert result.exit_code == 1
    assert isinstance(result.exception, mixlens.errors.UnknownMethod)


def test_a_fault_of_our_own_is_one_line_too(cli, monkeypatch):
    monkeypatch.setattr(mixlens.errors, "did_you_mean", None)
    monkeypatch.setattr(running, "load", lambda model: 1 / 0)
    monkeypatch.setattr("mixlens.cli.explaining.load", lambda model: 1 / 0)
    assert (
        one_line_error(cli("explain", TEXT)) == "unexpected ZeroDivisionError: division by zero (--debug shows where)"
    )


def test_nothing_is_written_on_an_error(cli, tmp_path):
    one_line_error(cli("explain", TEXT, "--method", "globenk", "--html", "a.html", "--json", "a.json"))
    assert list(tmp_path.iterdir()) == []


def test_one_file_that_cannot_be_written_is_not_all(cli, tmp_path, monkeypatch):
    def broken(self, path):
        raise mixlens.errors.ResultFileError("no space")

    monkeypatch.setattr(mixlens.Attribution, "to_html", broken)
    result = cli("explain", TEXT, "--html", "a.html", "--latex", "a.tex", "--json", "-")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == ["wrote a.tex", "error: no space"]
    assert json.loads(result.stdout)["text"] == TEXT
    assert {path.name for path in tmp_path.iterdir()} == {"a.tex"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", TEXT, "--png", "a.gif"], "ends in .png, .svg, .pdf"),
        (["explain", TEXT, "--html", "no/a.html"], "does not exist"),
        (["explain", TEXT, "--html", "."], "is a folder"),
        (["explain", TEXT, "more", "--pair", "x"], "one TEXT"),
        (["explain", TEXT, "-o", "p"], "KEY=VALUE"),
        (["explain", TEXT, "-o", "target=1"], "use --target"),
        (["map", TEXT, "--row", "0"], "add --png"),
        (["map", TEXT, "--aggregate", "roll"], "one of rollout, flow, layer, mean, sum"),
        (["map", TEXT, "--aggregate", "layer"], "layer:K"),
        (["map", TEXT, "--aggregate", "mean:1"], "takes no number"),
        (["map", TEXT, "--row", "first", "--png", "a.png"], "'max'"),
        (["explain"], "expected a TEXT in quotes, or --data FILE, got neither"),
        (["explian", TEXT], "No such command"),
    ],
)
def test_wrong_usage_is_exit_code_2(cli, words, message):
    result = cli(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())


def test_option_values_are_json_or_text():
    assert settings_of(["p=1", "upto=null", "normalize=false", "distance=cosine", "at=[1, 2]", "x=a=b"]) == {
        "p": 1,
        "upto": None,
        "normalize": False,
        "distance": "cosine",
        "at": [1, 2],
        "x": "a=b",
    }
