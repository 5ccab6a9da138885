"""The table: its columns, its values and comparisons, every export and picture."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import mixlens
from forking import Forking
from mixlens.cli import app
from mixlens.errors import MissingExtra, ResultFileError, UnknownOption
from mixlens.evaluation.result import COLUMNS
from mixlens.evaluation.tabulate import tabulate
from mixlens.measure import statistics
from mixlens.view import evaluation
from mixlens.view.kit.spelling import number
from pages import styled

TEXTS = ["a deep film .", "not bad", "a very slow and bad film .", "meaningful and deep .", "bad", ""]
METHODS = ["alti", "saliency", ("</script><b>", "grad_x_input", {}), "random"]
MEASURES = ["spearman:grad_l2", "spearman:blank_out", "aopc", "sufficiency", "special_rank"]


@pytest.fixture(scope="module")
def table(tiny_bert_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> mixlens.Table:
    lens = mixlens.load(str(tiny_bert_folder))
    out = tmp_path_factory.mktemp("run") / "deep" / "er"
    return mixlens.evaluate(lens, TEXTS, METHODS, MEASURES, out, layers="each", resamples=200)


def test_rows_are_what_the_values_say(table: mixlens.Table) -> None:
    assert COLUMNS == (
        "method", "measure", "reference", "layer", "n", "n_undefined", "n_errors", "mean", "std", "low", "high",
        "higher_is_better", "null", "p_null",
    )  # fmt: skip
    for row in table:
        measure = row.measure if row.reference is None else f"{row.measure}:{row.reference}"
        values = table.values(measure, row.method, row.layer)
        summary = statistics.summarise(values, resamples=200)
        assert (row.n, row.mean, row.std, row.low, row.high) == (
            summary.n, summary.mean, summary.std, summary.low, summary.high,
        )  # fmt: skip
        assert row.n + row.n_undefined + row.n_errors == len(values) == len(TEXTS)
        assert row.n_errors == 1
        null = table.values(measure, "random")
        assert row.null == pytest.approx(np.nanmean(null))
        expected = None if row.method == "random" else statistics.paired(values, null, resamples=200).p
        assert row.p_null == expected
    assert [r.layer for r in table if r.method == "alti" and r.measure == "aopc"] == [None, 0, 1]
    assert {r.higher_is_better for r in table if r.measure == "sufficiency"} == {False}


def test_csv_holds_every_bit(table: mixlens.Table, tmp_path: Path) -> None:
    text = table.to_csv(tmp_path / "t.csv")
    assert text == (tmp_path / "t.csv").read_text("utf-8") == (table.folder / "table.csv").read_text("utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert [float(r["mean"]) for r in rows] == [r.mean for r in table]
    assert [r["layer"] for r in rows] == ["" if r.layer is None else str(r.layer) for r in table]


def test_frame_and_parquet(table: mixlens.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table.to_frame()
    assert tuple(frame.columns) == COLUMNS
    assert frame["mean"].tolist() == [r.mean for r in table]
    assert frame.attrs["manifest"]["data"]["name"] == "list"
    parquet = pytest.importorskip("pyarrow.parquet")
    table.to_parquet(tmp_path / "t.parquet")
    assert parquet.read_table(tmp_path / "t.parquet").to_pylist() == table.to_dicts()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="parquet"):
        table.to_parquet(tmp_path / "u.parquet")


def test_pages_and_latex_are_inert(table: mixlens.Table, tmp_path: Path) -> None:
    page = table.to_html(tmp_path / "t.html")
    assert (tmp_path / "t.html").read_text("utf-8") == page
    for text in (page, table._repr_html_()):
        assert "<b>" not in text
        assert "&lt;/script&gt;&lt;b&gt;" in text
        assert "http" not in text.replace("http-equiv", "")
    assert page.count("data:image/png") == 4 + 2 + 5  # rankings (special_rank has no direction), curves, heatmaps
    latex = table.to_latex(tmp_path / "t.tex")
    assert r"special\_rank" in latex
    cited = re.search("^% what to cite: mixlens cite (.*)$", latex, re.MULTILINE)
    assert cited and cited[1] == "alti saliency grad_x_input random spearman aopc sufficiency special_rank"
    assert mixlens.cite(*cited[1].split()).count("@") > 3
    assert latex.count(r"\\") == 1 + len(METHODS) + len(MEASURES) * (1 + 2)  # and each measure's heads and two layers
    assert r"\textbf{" in latex
    shown = str(table)
    assert "grad_l2" in shown
    assert "</script><b>" in shown
    assert "failed" in shown


def test_layers_stand_in_latex_and_in_pages(table: mixlens.Table, tiny_bert_folder: Path) -> None:
    row = table.row("aopc", "saliency", 1)
    assert None not in (row.mean, row.low, row.high)
    text = f"{number(row.mean)} [{number(row.low)}, {number(row.high)}]"  # type: ignore[arg-type]
    for shown in (table.to_latex(), table.to_html(), table._repr_html_()):
        assert text in shown
    deep = {one.measure: one for one in evaluation.depths(table)}
    assert list(deep) == MEASURES
    assert deep["aopc"].methods == ("alti", "saliency", "</script><b>")  # random has no layers
    assert [(name, [c and c.row for c in cells]) for name, cells in deep["aopc"].lines] == [
        (str(k + 1), [table.row("aopc", m, k) for m in deep["aopc"].methods]) for k in range(2)
    ]
    assert "to_latex" in flat(str(table))
    bare = mixlens.evaluate(mixlens.load(str(tiny_bert_folder)), TEXTS, ["alti"], ["special_rank"], resamples=10)
    assert "layer" not in bare.to_latex() + str(bare)
    text = table.to_latex(caption="Faithful", label="tab:f")
    assert text.count("\\caption{Faithful}\n\\label{tab:f}\n\\begin{tabular}") == text.count("\\begin{table}") == 1


def flat(text: str) -> str:
    return " ".join(text.split())


def colored(thing: Any) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=200)
    console.print(thing)
    file: Any = console.file
    return str(file.getvalue())


@pytest.mark.slow
def test_marks_in_pages(table: mixlens.Table) -> None:
    chance, told = (replace(table, rows=tuple(replace(r, p_null=p) for r in table)) for p in (0.5, 0.0))
    for soft, page in (('; color: var(--soft)">', "to_html"), ('; color: #6d7076">', "_repr_html_")):
        assert "; font-weight: 700" + soft in styled(getattr(chance, page)())
        assert soft not in styled(getattr(told, page)())


def test_marks_are_what_the_legend_says(table: mixlens.Table) -> None:
    chance = replace(table, rows=tuple(replace(r, p_null=0.5) for r in table))
    told = replace(table, rows=tuple(replace(r, p_null=0.0) for r in table))
    grey = r"\textcolor[HTML]{767676}{"
    assert grey in chance.to_latex() and grey not in told.to_latex()
    assert r"\textbf{" + grey in chance.to_latex()  # the best may be so by chance
    assert r"\usepackage{xcolor}" in chance.to_latex()
    assert "~: indistinguishable from random" in flat(str(chance)) and "*: the best" in flat(str(chance))
    assert "grey" not in str(chance) and "bold" not in str(chance)
    mean = number(chance.row("aopc", chance.ranking("aopc").names[0]).mean)  # type: ignore[arg-type]
    assert f"*~{mean}" in str(chance) and f"*{mean}" in str(told) and f"~{mean}" not in str(told)
    shown = colored(chance)
    assert "grey: indistinguishable from random" in shown and "bold: the best" in shown
    assert re.search(rf"\x1b\[1;2m *{re.escape(mean)}", shown) and f"~{mean}" not in shown


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(table: mixlens.Table, tmp_path: Path) -> None:
    (tmp_path / "t.tex").write_text(table.to_latex(), encoding="utf-8")
    packages = r"\usepackage[T1]{fontenc}\usepackage{booktabs}\usepackage{xcolor}"
    body = r"\begin{document}\input{t}\end{document}"
    (tmp_path / "m.tex").write_text(r"\documentclass{article}" + packages + body)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "m.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]


@pytest.mark.parametrize("kind", ["ranking", "curves", "heatmap"])
def test_pictures(kind: str, table: mixlens.Table, tmp_path: Path) -> None:
    table.plot(tmp_path / "t.png", kind=kind)
    assert (tmp_path / "t.png").read_bytes()[:4] == b"\x89PNG"
    table.plot(tmp_path / "t.svg", kind=kind, measure="sufficiency")
    assert "sufficiency" in (tmp_path / "t.svg").read_text("utf-8")


def test_what_has_no_picture(table: mixlens.Table, tiny_bert_folder: Path) -> None:
    with pytest.raises(UnknownOption, match="did you mean 'curves'"):
        table.plot(kind="curve")
    with pytest.raises(UnknownOption, match="a perturbation measure"):
        table.plot(kind="curves", measure="special_rank")
    with pytest.raises(UnknownOption, match="a better direction"):
        table.plot(kind="ranking", measure="special_rank")
    flat = mixlens.evaluate(mixlens.load(str(tiny_bert_folder)), TEXTS, ["alti"], ["special_rank"], resamples=10)
    with pytest.raises(UnknownOption, match="layers='each' or 'upto'"):
        flat.plot(kind="heatmap")


def test_names(table: mixlens.Table) -> None:
    asked: list[tuple[Callable[[], Any], str]] = [
        (lambda: table.values("spearman", "alti"), "say which: spearman:grad_l2, spearman:blank_out"),
        (lambda: table.values("aopcc", "alti"), "did you mean 'aopc'"),
        (lambda: table.values("aopc", "altii"), "did you mean 'alti'"),
        (lambda: table.values("aopc", "alti", 7), "layer 7"),
        (lambda: table.row("aopc", "alti", 7), "layer 7"),
        (lambda: table.curve("special_rank", "alti"), "no curve"),
    ]
    for ask, says in asked:
        with pytest.raises(UnknownOption, match=says):
            ask()
    assert table.values("spearman:grad_l2", "alti").shape == (6,)
    assert table.curve("aopc", "alti").shape == (6, 12)
    assert repr(table) == "Table(4 methods, 5 measures, 6 examples)"


def test_comparisons(table: mixlens.Table) -> None:
    a, b = (table.values("aopc", m) for m in ("alti", "saliency"))
    assert table.better("aopc", "alti", "saliency") == statistics.paired(a, b, resamples=200)
    ranked = table.ranking("sufficiency")  # lower is better
    assert list(ranked.means) == sorted(ranked.means)
    assert set(ranked.names) == set(table.methods)


def test_a_table_is_read_again_from_its_folder(table: mixlens.Table, tmp_path: Path) -> None:
    again = tabulate(table.folder, resamples=200)
    assert again.rows == table.rows
    with pytest.raises(ResultFileError, match="expected the folder of a run"):
        tabulate(tmp_path)


# ---- the command line


@pytest.fixture
def cli(tiny_bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("words,gold\na deep film,1\nnot bad,0\n,1\n")
    return lambda *words: CliRunner().invoke(app, ["evaluate", "-m", str(tiny_bert_folder), *words])


def test_read_needs_no_model_and_writes_no_table(table: mixlens.Table, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(table.folder, folder)
    (folder / "table.csv").write_text("of another level")
    again = mixlens.read(str(folder))
    assert isinstance(again, mixlens.Table)
    assert [(row.method, row.measure, row.n, row.mean) for row in again] == [
        (row.method, row.measure, row.n, row.mean) for row in table
    ]
    assert again.better("aopc", "alti", "saliency").difference == table.better("aopc", "alti", "saliency").difference
    assert (folder / "table.csv").read_text() == "of another level"
    results = (folder / "results.jsonl").read_text().splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(results[:-1]))  # the mark of the end is gone
    with pytest.raises(ResultFileError, match="the call that began it goes on with it"):
        mixlens.read(folder)


def test_command_line(cli: Callable[..., Any], tmp_path: Path) -> None:
    words = "--data d.csv --field text=words --field label=gold --methods alti,random --measures spearman:grad_l2,aopc"
    files = "--csv t.csv --html t.html --latex t.tex --png t.png --kind curves --out run -o aopc.replace=pad"
    done = cli(*words.split(), "--target", "label", *files.split(), "--caption", "Three films", "--label", "tab:t")
    assert done.exit_code == 0, done.stderr
    assert "spearman : grad_l2" in done.stdout
    assert "up to 1 texts of 3 failed" in " ".join(done.stdout.split())
    assert {p.name for p in tmp_path.iterdir()} == {"d.csv", "t.csv", "t.html", "t.tex", "t.png", "run"}
    assert (tmp_path / "t.csv").read_bytes() == (tmp_path / "run" / "table.csv").read_bytes()
    assert "\\caption{Three films}\n\\label{tab:t}\n" in (tmp_path / "t.tex").read_text("utf-8")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["measures"]["aopc"]["options"]["replace"] == "pad"
    changed = cli(*words.split(), "--out", "run")
    assert changed.exit_code == 1
    assert changed.stderr.splitlines() == [
        "error: expected the run that run holds, got another:",
        '  measures.aopc.options.replace: was "pad", now "delete"',
        '  target: was "label", now null',
        "give the new run another folder (--out), or delete this one",
    ]
    words = words.replace("alti,random", "alti,globenc")
    changed = cli(*words.split(), "--out", "run", "-o", "aopc.replace=pad", "--target", "label")
    assert changed.stderr.splitlines()[1:-1] == ['  methods: was ["alti", "random"], now ["alti", "globenc", "random"]']


def test_wrong_words(cli: Callable[..., Any]) -> None:
    for words, code, says in [
        (["--field", "text"], 2, "--field takes FIELD=COLUMN"),
        (["-o", "replace=pad"], 2, "--option takes NAME.KEY=VALUE"),
        (["--html", "no/such.html"], 2, "does not exist"),
        (["--methods", "altii"], 1, "did you mean 'alti'"),
        (["--task", "pair"], 1, "did you mean 'pairs'"),
        (["--data", "none.csv"], 1, "no such file"),
    ]:
        done = cli(*words)
        assert (done.exit_code, done.stdout) == (code, "")
        assert says in done.stderr


@pytest.mark.slow
def test_no_arguments_at_all(tmp_path: Path, forking: Forking) -> None:
    words, source = ("-m", "mixlens", "evaluate", "--out", "run"), Path(mixlens.__file__).parents[1]
    status, printed = forking.run(tmp_path, *words, source=source)
    assert status == 0, printed
    assert "40 texts of sample.jsonl" in printed
