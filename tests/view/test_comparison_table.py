"""A comparison as a table: tidy rows in CSV and Parquet, LaTeX, text."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mixlens.errors import MissingExtra
from mixlens.measure.faithfulness import Faithfulness
from mixlens.results import Attribution, Comparison

RATED = Faithfulness(0.8125, 0.5, 0.25, 0.625, 1 / 21)
NAN = float("nan")


@pytest.fixture
def found(film: Attribution) -> Comparison:
    other = replace(film, method="alti", scores=film.scores.flip(0))
    ratings = {"globenc": RATED, "alti": Faithfulness(NAN, NAN, NAN, NAN, NAN)}
    return Comparison({"globenc": film, "alti": other}, {"trans_att": "not here\nnor \\there"}, ratings)


def test_a_row_a_method_and_token(found: Comparison, tmp_path: Path) -> None:
    text = found.to_csv(tmp_path / "c.csv")
    assert (tmp_path / "c.csv").read_text("utf-8") == text
    rows = list(csv.DictReader(text.splitlines()))
    assert list(rows[0]) == [
        "method", "index", "token", "special", "segment", "start", "end", "score",
        "faithfulness", "aopc", "permuted", "greedy", "best", "p",
    ]  # fmt: skip
    n = len(found.first.tokens)
    assert [row["method"] for row in rows] == ["globenc"] * n + ["alti"] * n
    assert [row["token"] for row in rows[n:]] == list(found.first.tokens)
    assert [float(row["score"]) for row in rows[n:]] == found["alti"].scores.tolist()
    assert (rows[1]["index"], rows[1]["start"], rows[1]["end"], rows[0]["start"]) == ("1", "0", "1", "")
    assert {(row["faithfulness"], row["p"]) for row in rows[:n]} == {("0.8125", repr(1 / 21))}
    assert {row["faithfulness"] + row["aopc"] for row in rows[n:]} == {""}


def test_parquet_holds_the_same(found: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert found.to_parquet(tmp_path / "c.parquet") == tmp_path / "c.parquet"
    read = parquet.read_table(tmp_path / "c.parquet")
    assert read.to_pylist() == found.to_dicts()
    assert [str(kind) for kind in read.schema.types[4:8]] == ["int64", "int64", "int64", "double"]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="parquet"):
        found.to_parquet(tmp_path / "d.parquet")


def test_without_faithfulness_or_offsets(ids: Attribution) -> None:
    rows = Comparison({"attention": ids}, {}).to_dicts()
    assert [(row["token"], row["start"], row["faithfulness"]) for row in rows] == [
        (token, None, None) for token in ids.tokens
    ]
    assert "faithful" not in Comparison({"attention": ids}, {}).to_latex()


def test_texts_of_a_pair_are_told_apart(pair: Attribution) -> None:
    segments = [row["segment"] for row in Comparison({"alti": pair}, {}).to_dicts()]
    assert segments == [None, 0, 0, 0, None, 1, 1, None]


def test_latex_puts_the_number_beside_the_name(found: Comparison, tmp_path: Path) -> None:
    text = found.to_latex(tmp_path / "c.tex")
    assert (tmp_path / "c.tex").read_text("utf-8") == text
    assert "globenc & 0.81 & {" in text
    assert "alti & -{} & {" in text or "alti & - & {" in text
    assert text.count(r"{\strut meaningful}") == 2
    assert "% not shown: trans_att: not here nor \\there" in text.splitlines()


def test_latex_is_inert(nasty: Attribution) -> None:
    found = Comparison({r"[\input{x}]": nasty, "*": nasty}, {"a": "b\n\\evil"})
    lines = found.to_latex().splitlines()
    body = "\n".join(line for line in lines if not line.startswith("%"))
    assert "\\input" not in body and "\\evil" not in body
    assert "{}[" in body and "{}*" in body  # no options of the \\ before them
    assert body.count("{") - body.count("\\{") == body.count("}") - body.count("\\}")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("name", ["film", "signed", "pair", "nasty"])
def test_latex_compiles(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    attr = request.getfixturevalue(name)
    text = Comparison({"[a]": attr, "*": attr}, {}, {"*": RATED}).to_latex()
    (tmp_path / "t.tex").write_text("".join(c for c in text if c.isascii()), encoding="utf-8")
    packages = r"\usepackage[T1]{fontenc}\usepackage{booktabs}\usepackage{xcolor}"
    (tmp_path / "m.tex").write_text(
        rf"\documentclass{{article}}{packages}\begin{{document}}\input{{t}}\end{{document}}"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "m.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]


def test_printed_as_a_table(found: Comparison) -> None:
    assert "faithful" in str(found) and "0.81" in str(found)
    assert repr(found).startswith("Comparison(")
