"""What comes from outside (labels, names, data, what was typed) steers no terminal and breaks no file; standard input
and standard output as people have them.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import mixlens
from mixlens import errors
from mixlens.capture.text import Tokens
from mixlens.cli import app, commands, running
from mixlens.cli.inputs import value_of
from mixlens.escape import STEERS, visible
from mixlens.results import Attribution, Comparison, LayerMaps
from mixlens.target import Target

EVIL = "a\x1b[31m\x07\x9b\x7f\x00\r\u202e\ud800"
TEXT = "a deep film ."
FULL = Path("/dev/full")


def attribution() -> Attribution:
    source = Tokens(
        (5, 6), (EVIL, "b"), (False, False), (f"{EVIL} b",), ((0, 0, len(EVIL)), (0, len(EVIL) + 1, len(EVIL) + 2))
    )
    target = Target(EVIL, index=1, label=EVIL)
    return Attribution(source, torch.tensor([0.7, 0.3]), EVIL, {EVIL: EVIL}, {"model": EVIL, EVIL: 1}, target=target)


def maps() -> LayerMaps:
    return LayerMaps(attribution().source, torch.rand(2, 2, 2), EVIL, {}, {"model": EVIL}, aggregation=EVIL)


def comparison() -> Comparison:
    return Comparison({"m\x1b\x9b": attribution()}, {"x" + EVIL: EVIL}, maps={"m\x1b\x9b": maps()})


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


@pytest.fixture(scope="module")
def table(lens: mixlens.Lens) -> mixlens.Table:
    """An evaluation whose method, measure, data and model have such names."""
    named = [(EVIL, "alti", {}), ("two", "saliency", {})], [(EVIL, "aopc", {})]
    table = mixlens.evaluate(lens, [TEXT, "not bad ."], *named, resamples=20)
    manifest = {**table.manifest, "data": {"name": EVIL}, "model": {**table.manifest["model"], "name": EVIL}}
    return replace(table, manifest=manifest)


MADE: dict[str, Callable[[], Any]] = {"attribution": attribution, "maps": maps, "comparison": comparison}


@pytest.fixture(params=[*MADE, "table"])
def result(request: pytest.FixtureRequest) -> Any:
    return MADE[request.param]() if request.param in MADE else request.getfixturevalue("table")


def harmless(text: str) -> bool:
    """No control but line ends and tabs, and no turn of the reading direction."""
    return STEERS.search(text) is None and "\r" not in text


def test_a_result_steers_no_terminal(result: Any) -> None:
    assert harmless(str(result))
    assert harmless(repr(result))
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system="truecolor")
    console.print(result)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert harmless(re.sub(r"\x1b\[[0-9;]*m", "", shown))  # rich's own colours
    assert "\x1b[31ma" not in shown


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # two tokens make a small picture
def test_a_result_is_a_valid_file_of_every_kind(result: Any, tmp_path: Path) -> None:
    result.plot(tmp_path / "a.svg")
    ElementTree.parse(tmp_path / "a.svg")
    page = result.to_html() if hasattr(result, "to_html") else ""
    assert harmless(page)
    assert harmless(result._repr_html_())
    views = [name for name in dir(result) if name.startswith("to_") and name != "to_csv"]  # a CSV is data
    for name in views:
        if signature(getattr(result, name)).return_annotation == "str":
            assert harmless(getattr(result, name)()), name


def test_an_error_steers_no_terminal() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.MixlensError)]
    assert len(kinds) > 15
    for kind in kinds:
        assert str(kind(f"no label {EVIL}")) == visible(f"no label {EVIL}")


@pytest.fixture
def cli(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The command line in an empty folder, on the tiny model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mixlens, "load", lambda model=None: lens)

    def run(*words: str, **how: Any) -> Any:
        return CliRunner().invoke(app, list(words), **how)

    return run


GIVEN = EVIL.replace("\ud800", "\udcff").replace("\0", "")  # what an argument of a process can hold
TYPED = [
    ["explain", TEXT, "--target", EVIL],
    ["explain", TEXT, "--method", EVIL],
    ["explain", TEXT, "--method", "alti", "-o", "distance=" + EVIL],
    ["explain", TEXT, f"--{EVIL}"],
    ["explain", TEXT, "--png", GIVEN],
    ["explain", TEXT, "--html", f"{GIVEN}/no/a.html"],
    ["map", TEXT, "--row", EVIL],
    [EVIL],
    ["evaluate", "--data", EVIL + ".csv"],
    ["evaluate", "--field", EVIL],
    ["evaluate", "--task", EVIL],
    ["check", TEXT, EVIL],
    ["methods", EVIL],
    ["reproduce", EVIL],
]


@pytest.mark.parametrize("words", TYPED, ids=lambda words: " ".join(words).encode("ascii", "ignore").decode()[:20])
def test_what_was_typed_comes_back_by_signs(words: list[str], cli: Callable[..., Any]) -> None:
    done = cli(*words)
    assert done.exit_code in (1, 2)
    assert done.stderr
    assert harmless(done.output)


def test_data_steers_no_terminal(cli: Callable[..., Any], tmp_path: Path) -> None:
    evil = EVIL.replace("\ud800", "")
    rows = [{"text": TEXT, "label": evil}, {"text": {evil: 1}, "id": evil}]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    words = ["evaluate", "--data", "d.jsonl", "--methods", "alti", "--measures", "special_rank", "--resamples", "20"]
    done = cli(*words)
    assert (done.exit_code, "1 examples failed" in done.stderr) == (0, True)
    assert harmless(done.output)
    done = cli(*words, "--target", "label")
    assert done.exit_code == 1
    assert harmless(done.output)


def test_json_is_the_same_by_other_signs(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = EVIL.replace("\ud800", "\uffff") + " film"
    done = cli("explain", text, "--json", "-")
    assert done.exit_code == 0, done.output
    assert harmless(done.stdout)
    assert json.loads(done.stdout)["text"] == text


# ---- standard input


@pytest.mark.parametrize(
    "words", [["explain", "-"], ["map", "-"], ["explain", TEXT, "-"], ["explain", TEXT, "--pair", "-"]]
)
def test_standard_input_is_a_text(words: list[str], cli: Callable[..., Any]) -> None:
    done = cli(*words, "--json", "-", input=b"\xef\xbb\xbfnot bad .\n")
    assert (done.exit_code, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    text = data[-1]["text"] if isinstance(data, list) else data["text"]
    assert text in ("not bad .", [TEXT, "not bad ."])


def test_standard_input_is_compared(cli: Callable[..., Any]) -> None:
    done = cli("compare", "-", "--method", "alti", "--no-faithfulness", "--json", "-", input="not bad .\n")
    assert json.loads(done.stdout)["text"] == "not bad ."


def test_standard_input_is_read_once_and_is_utf8(cli: Callable[..., Any]) -> None:
    done = cli("explain", "-", "-", input="a")
    assert (done.exit_code, "can be read once" in " ".join(done.stderr.split())) == (2, True)
    done = cli("explain", "-", input=b"caf\xe9")
    assert (done.exit_code, "is no UTF-8" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["reviews.csv", "my reviews.TSV.GZ", "film"])
@pytest.mark.parametrize("verb", ["explain", "map", "compare"])
def test_a_files_name_is_said_to_be_one(verb: str, name: str, cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / name).write_text("text\na film\n")
    more = ["--method", "alti", "--no-faithfulness"] if verb == "compare" else []
    done = cli(verb, name, *more)
    assert done.exit_code == 0, done.output
    (line,) = done.stderr.splitlines()
    quoted = f"'{name}'" if " " in name else name
    rows = "" if name == "film" else f"; for its rows: mixlens explain --data {quoted} --out DIR"
    said = f"{name!r} is explained as a text, and is the name of a file; for what is in it: - < {quoted}{rows}"
    assert line == f"warning: {said}"


def test_a_pictures_name_leads_to_a_model_of_pictures(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "two.png").write_bytes(b"\x89PNG")
    (line,) = cli("explain", "two.png", "--method", "alti").stderr.splitlines()
    assert "is the name of a file; a picture or a sound needs a model that reads it, as --model mixlens:digits" in line


# ---- standard output, and what stops it


@pytest.mark.skipif(not FULL.exists(), reason="no such device here")
@pytest.mark.parametrize(
    "words",
    [["methods"], ["methods", "--json"], ["--version"], ["reproduce"], ["explain", TEXT, "--json", "-"], ["--help"]],
)
def test_a_full_disk_is_a_line(
    words: list[str], lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mixlens, "load", lambda model=None: lens)
    monkeypatch.setattr(sys, "argv", ["mixlens", *words])
    with open(FULL, "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as done:
            commands.main()
    assert done.value.code == 1
    line = capfd.readouterr().err
    assert line.count("\n") == 1
    assert "No space left on device" in line
    assert line.startswith("error: ")


@pytest.mark.parametrize(
    ("out", "says"), [(True, "the same command goes on from what is in run"), (False, "--out DIR")]
)
def test_ctrl_c_says_that_the_same_command_goes_on(
    out: bool, says: str, cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mixlens, "evaluate", interrupted)
    done = cli("evaluate", *(["--out", "run"] if out else []))
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr.startswith("interrupted; ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_ctrl_c_in_a_reproduction(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixlens.reproduce.reproduce", interrupted)
    done = cli("reproduce", "globenc-figure5", "--out", "there")
    assert (done.exit_code, done.stderr) == (130, "interrupted; the same command goes on from what is in there\n")


# ---- names and values


@pytest.mark.parametrize("flag", ["--html", "--save", "--json", "--png"])
@pytest.mark.parametrize("name", ["x" * 300, "文" * 90])
def test_a_name_that_no_file_can_have_is_wrong_usage(flag: str, name: str, cli: Callable[..., Any]) -> None:
    done = cli("explain", TEXT, flag, name + ".png")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "no file can have the name" in " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stderr).split())


def test_an_empty_folder_is_not_the_one_that_one_stands_in(cli: Callable[..., Any], tmp_path: Path) -> None:
    for verb in (["evaluate"], ["reproduce", "globenc-figure5"]):
        done = cli(*verb, "--out", "")
        assert (done.exit_code, "got an empty one" in " ".join(done.stderr.split())) == (2, True)
    assert not list(tmp_path.iterdir())


def test_values_that_are_nested_deeply(cli: Callable[..., Any], lens: mixlens.Lens) -> None:
    for deep in ("[" * 100_000, "[" * 400 + "]" * 400):
        done = cli("explain", TEXT, "-o", f"p={deep}")
        assert done.exit_code in (1, 2)
        assert "Traceback" not in done.output
        assert "unexpected" not in done.output
    value: Any = 1
    for _ in range(5000):
        value = [value]
    circle: list[Any] = []
    circle += [circle, circle]
    for deep_value in (value, circle, {"a": value}):
        with pytest.raises(errors.UnknownOption, match="too deep"):
            lens.attribute(TEXT, method="alti", p=deep_value)
        with pytest.raises(errors.UnknownOption, match="too deep"):
            lens.mixing(TEXT, method="alti", p=deep_value)
        for name in ("alti", "aopc"):
            with pytest.raises(errors.UnknownOption, match="too deep"):
                mixlens.evaluate(
                    lens, [TEXT], ["alti"], ["aopc"], options={name: {"p" if name == "alti" else "levels": deep_value}}
                )
    assert value_of("[[1]]") == [[1]]


def test_a_full_disk_in_evaluate_is_typed(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mixlens.evaluation import log

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    how: dict[str, Any] = {"methods": ["alti"], "measures": ["special_rank"], "resamples": 20}
    with monkeypatch.context() as patch:
        patch.setattr(log.os, "fsync", full)
        with pytest.raises(errors.ResultFileError, match=r"No space left on device"):
            mixlens.evaluate(lens, [TEXT], out=tmp_path / "a", **how)
        made = log.Log._settle
        patch.setattr(log.Log, "_settle", lambda self, manifest: None)
        with pytest.raises(
            errors.ResultFileError, match=r"results.jsonl, got: No space left on device; make space, then"
        ):
            mixlens.evaluate(lens, [TEXT], out=tmp_path / "b", **how)
        patch.setattr(log.Log, "_settle", made)
    assert np.isfinite(mixlens.evaluate(lens, [TEXT], out=tmp_path / "a", **how).rows[0].mean or 0.0)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="not on this system")
def test_a_full_disk_behind_a_mapped_file_is_typed(
    lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(errors.ResultFileError, match=r"values\.npy, got: No space left on device"):
        mixlens.evaluate(lens, [TEXT], ["alti"], ["special_rank"], tmp_path / "a", resamples=20)


def test_notes_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    running.note(f"a\n{EVIL}\nb")
    line = capsys.readouterr().err
    assert harmless(line)
    assert line.count("\n") == 1
