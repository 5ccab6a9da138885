"""`mixlens explain --data`: files, notes, and what goes with which."""

from __future__ import annotations

import re
import sys

import pytest

import mixlens
from cli.typed import TEXT, one_line_error
from mixlens.cli import explaining
from mixlens.cli.explaining import _columns

CSV = 'review,stars,name\n"a deep film",5,x\n,1,y\nbad,1,z\n'


@pytest.fixture
def reviews(tmp_path):
    (tmp_path / "reviews.csv").write_text(CSV, encoding="utf-8")
    return "reviews.csv"


def test_a_file_s_texts_are_explained(cli, reviews, tmp_path):
    result = cli("explain", "--data", reviews, "--field", "review", "--method", "alti", "--out", "run", "--by", "stars")
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "manifest.json",
        "results.jsonl",
        "part-000000.parquet",
        "summary.html",
    }
    assert "alti · 2 texts of reviews.csv" in result.stdout
    first, second = result.stderr.splitlines()
    assert first.startswith("1 row could not be explained (from 0: 1), the first: EmptyInput: ")
    assert second == "wrote 1 Parquet file and summary.html in run"
    explained = mixlens.read(tmp_path / "run")
    assert [(text.text, text.data["stars"]) for text in explained] == [("a deep film", "5"), ("bad", "1")]


def test_without_pyarrow_it_is_said_before_a_model_is_loaded(cli, reviews, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(explaining, "load", None)
    result = cli("explain", "--data", reviews, "--field", "review", "--out", "run")
    assert result.exit_code == 1 and 'pip install ".[parquet]"' in result.stderr


def test_rows_that_failed_are_named_up_to_eight(cli, tmp_path):
    (tmp_path / "bad.csv").write_text("text,n\n" + ",1\n" * 10 + "a deep film,2\n")
    result = cli("explain", "--data", "bad.csv", "--method", "alti", "--out", "run")
    assert "10 rows could not be explained (from 0: 0, 1, 2, 3, 4, 5, 6, 7 and 2 more), the first: E" in result.stderr


def test_options_go_where_they_belong(cli, reviews, tmp_path):
    more = ["--limit", "1", "--batch-size", "3", "--memory", "2GB", "--truncate", "--option", "normalize=false"]
    more += ["--dtype", "float64", "--device", "cpu", "--target", "positive", "--encoding", "utf-8", "--seed", "3"]
    more += ["--task", "classification", "--field", "text=review", "--field", "label=stars", "--top", "2"]
    result = cli("explain", "--data", reviews, "--out", "run", "--method", "attcat", *more)
    assert result.exit_code == 0, result.stderr
    explained = mixlens.read(tmp_path / "run")
    manifest = explained.manifest
    assert (manifest["limit"], manifest["batch_size"], manifest["memory"]) == (1, 3, 2 * 10**9)
    assert (manifest["truncate"], manifest["options"]) == (True, {"normalize": False})
    assert (manifest["model"]["dtype"], manifest["method"]) == ("float64", "attcat")
    assert [text.target for text in explained] == ["positive"] and [text.label for text in explained] == ["5"]


def test_workers_are_hired(cli, reviews, monkeypatch):
    from mixlens.dataset import engines

    def hire(setting, workers):
        raise engines.WorkerLost(f"{workers} by Ray")

    monkeypatch.setitem(engines.ENGINES, "ray", hire)
    asked = ["explain", "--data", reviews, "--field", "review", "--out", "run", "--method", "alti"]
    assert "3 by Ray" in one_line_error(cli(*asked, "--workers", "3", "--engine", "ray"))
    assert "expected --engine one of local, ray, got 'spark'" in one_line_error(cli(*asked, "--engine", "spark"))
    assert cli(*asked, "--workers", "1").exit_code == 0  # this process


def test_a_changed_run_is_said_in_words_of_the_command_line(cli, reviews):
    asked = ["explain", "--data", reviews, "--field", "review", "--out", "run"]
    assert cli(*asked, "--method", "alti").exit_code == 0
    changed = cli(*asked, "--method", "globenc", "--truncate")
    assert (changed.exit_code, changed.stdout) == (1, "")
    assert changed.stderr.splitlines() == [
        "error: expected the run that run holds, got another:",
        '  method: was "alti", now "globenc"',
        "  truncate: was false, now true",
        "give the new run another folder (--out), or delete this one",
    ]


def test_nothing_that_can_be_explained_is_an_error(cli, tmp_path):
    (tmp_path / "empty.csv").write_text('text\n""\n" "\n', encoding="utf-8")
    message = one_line_error(cli("explain", "--data", "empty.csv", "--out", "run", "--method", "alti"))
    assert message.startswith("none of 2 rows could be explained, the first: EmptyInput")


def test_a_device_that_is_not_there(cli, reviews):
    message = one_line_error(cli("explain", "--data", reviews, "--out", "run", "--device", "moon"))
    assert message.startswith("expected --device one that is here, got 'moon'")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--data", "reviews.csv"], "--data needs --out DIR"),
        ([TEXT, "--data", "reviews.csv", "--out", "run"], "expected TEXT or --data FILE, got both"),
        ([TEXT, "--out", "run"], "--out goes with --data FILE"),
        ([TEXT, "--limit", "3"], "--limit goes with --data FILE"),
        ([TEXT, "--batch-size", "3"], "--batch-size goes with --data FILE"),
        ([TEXT, "--field", "review"], "--field goes with --data FILE"),
        ([TEXT, "--device", "cpu"], "--device goes with --data FILE"),
        (["--data", "reviews.csv", "--out", "run", "--html", "a.html"], "--html goes with TEXT"),
        (["--data", "reviews.csv", "--out", "run", "--skip"], "--skip goes with TEXT"),
        (["--data", "reviews.csv", "--out", "run", "--json", "-"], "--json goes with TEXT"),
        (["--data", "reviews.csv", "--out", "run", "--dtype", "int8"], "--dtype is one of float32"),
        (["--data", "reviews.csv", "--out", "run", "--field", "="], "--field takes COLUMN or FIELD=COLUMN"),
        (["--data", "reviews.csv", "--out", "run", "-o", "top=3"], "use --top"),
        (["--data", "reviews.csv", "--out", "no/such/run"], "does not exist"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_wrong_usage(cli, words, says):
    result = cli("explain", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.stderr).split())


def test_columns_by_field():
    assert _columns(None) is None and _columns([]) is None
    assert _columns(["review"]) == "review"
    assert _columns(["review", "label=stars"]) == {"text": "review", "label": "stars"}
    assert _columns(["text=a=b"]) == {"text": "a=b"}
