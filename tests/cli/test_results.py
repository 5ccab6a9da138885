"""The command line: what each verb prints where, and its files."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import mixlens
from cli.typed import TEXT, one_line_error
from mixlens import architectures
from mixlens.cli import app


def test_explain_prints_the_words(cli):
    result = cli("explain", TEXT)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "cp_lrp" in result.stdout
    assert "meaningful" in result.stdout


def test_json_on_standard_output_is_all_there_is(cli, tiny_bert_folder):
    result = cli("explain", TEXT, "--json", "-", "--method", "globenc")
    assert (result.exit_code, result.stderr) == (0, "")
    data = json.loads(result.stdout)
    assert data["text"] == TEXT
    assert data["tokens"] == ["[CLS]", "a", "deep", "and", "meaningful", "film", ".", "[SEP]"]
    assert data["method"] == "globenc"
    assert data["model"] == str(tiny_bert_folder)
    expected = mixlens.load(tiny_bert_folder).attribute(TEXT, method="globenc")
    assert data["scores"] == expected.scores.tolist()
    assert data["target"]["label"] == expected.target.label


def test_explain_writes_every_file(cli, tmp_path):
    result = cli(
        "explain", TEXT, "--html", "a.html", "--png", "a.png", "--latex", "a.tex", "--json", "a.json", "--save", "a.st"
    )
    assert result.exit_code == 0, result.stderr
    names = {"a.html", "a.png", "a.tex", "a.json", "a.st"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert {line.removeprefix("wrote ") for line in result.stderr.splitlines()} == names
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "meaningful" in (tmp_path / "a.html").read_text("utf-8")
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["text"] == TEXT
    assert mixlens.read(tmp_path / "a.st").text == TEXT


def test_several_texts_are_a_list_and_numbered_files(cli, tmp_path):
    result = cli("explain", TEXT, "not bad", "--json", "all.json", "--html", "a.html")
    assert result.exit_code == 0, result.stderr
    assert [row["text"] for row in json.loads((tmp_path / "all.json").read_text("utf-8"))] == [TEXT, "not bad"]
    assert {path.name for path in tmp_path.iterdir()} == {"all.json", "a-1.html", "a-2.html"}


@pytest.mark.parametrize(("target", "label"), [("negative", "negative"), ("POSITIVE", "positive"), ("1", "positive")])
def test_target_is_a_label_or_its_index(cli, target, label):
    result = cli("explain", TEXT, "--target", target, "--json", "-")
    assert json.loads(result.stdout)["target"]["label"] == label


def test_foil_stands_beside_the_target(cli):
    target = json.loads(cli("explain", TEXT, "--target", "0", "--foil", "1", "--json", "-").stdout)["target"]
    assert (target["label"], target["foil"]) == ("negative", "1")


def test_pair_is_two_texts(cli):
    assert json.loads(cli("explain", TEXT, "--pair", "not bad", "--json", "-").stdout)["text"] == [TEXT, "not bad"]


def test_truncate_cuts_only_when_asked(cli):
    long = "film " * 40
    assert "truncate" in one_line_error(cli("explain", long))
    assert len(json.loads(cli("explain", long, "--truncate", "--json", "-").stdout)["tokens"]) == 32


def test_options_reach_the_method(cli):
    plain, other = (
        json.loads(cli("explain", TEXT, "--method", "alti", *more, "--json", "-").stdout)["scores"]
        for more in ([], ["-o", "p=2"])
    )
    assert plain != other


def test_map_writes_pictures_and_layers(cli, tmp_path):
    result = cli(
        "map", TEXT, "--method", "norm", "--png", "m.svg", "--row", "0", "--json", "m.json", "--html", "m.html"
    )
    assert result.exit_code == 0, result.stderr
    scores = json.loads((tmp_path / "m.json").read_text("utf-8"))["scores"]
    assert (len(scores), len(scores[0]), len(scores[0][0])) == (2, 8, 8)
    assert "<svg" in (tmp_path / "m.svg").read_text("utf-8")


def test_map_rolls_out(cli, tiny_bert_folder):
    data = json.loads(cli("map", TEXT, "--method", "alti", "--aggregate", "rollout", "--json", "-").stdout)
    maps = mixlens.load(tiny_bert_folder).mixing(TEXT, method="alti")
    assert data["scores"] == maps.rollout().scores.tolist()


@pytest.mark.parametrize("how", ["mean", "sum", "flow", "layer:-1"])
def test_map_aggregates(cli, tiny_bert_folder, how):
    data = json.loads(cli("map", TEXT, "--method", "alti", "--aggregate", how, "--json", "-").stdout)
    maps = mixlens.load(tiny_bert_folder).mixing(TEXT, method="alti")
    name, _, k = how.partition(":")
    expected = maps.layer(int(k)) if k else getattr(maps, name)()
    assert data["scores"] == expected.scores.tolist()
    assert data["aggregation"] == how


def test_map_draws_one_row_of_a_flow_and_computes_no_other(cli, tiny_bert_folder, tmp_path):
    result = cli("map", TEXT, "--method", "alti", "--aggregate", "flow", "--row", "2", "--png", "f.png", "--json", "-")
    data = json.loads(result.stdout)
    expected = mixlens.load(tiny_bert_folder).mixing(TEXT, method="alti").flow(queries=[2])
    assert (data["queries"], data["scores"]) == ([2], expected.scores.tolist())
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    shown = cli("map", TEXT, "--method", "alti", "--aggregate", "flow", "--row", "2")
    assert "what flows into deep (token 2)" in " ".join(shown.stdout.split())


@pytest.mark.parametrize("how", [[], ["--aggregate", "rollout"], ["--aggregate", "flow"]])
def test_map_refuses_a_row_before_it_prints(cli, tmp_path, how):
    said = one_line_error(cli("map", TEXT, "--method", "alti", "--row", "99", "--png", "c.png", *how))
    assert "99" in said
    assert list(tmp_path.iterdir()) == []


def test_compare_puts_methods_side_by_side(cli, tmp_path):
    methods = ["--method", "globenc", "--method", "attcat"]
    result = cli("compare", TEXT, *methods, "--html", "c.html", "--png", "c.png", "--json", "c.json", "--save", "c")
    assert result.exit_code == 0, result.stderr
    assert "globenc" in result.stdout and "attcat" in result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"c.html", "c.png", "c.json", "c"}
    data = json.loads((tmp_path / "c.json").read_text("utf-8"))
    assert json.loads(json.dumps(mixlens.read(tmp_path / "c").to_dict())) == data
    alone = json.loads(cli("explain", TEXT, "--method", "attcat", "--json", "-").stdout)
    assert list(data["methods"]) == ["globenc", "attcat"]
    assert data["methods"]["attcat"]["scores"] == pytest.approx(alone["scores"], rel=1e-4)


def test_what_is_written_for_latex_floats_under_a_caption(cli, tmp_path):
    words = ["--method", "alti", "--latex", "f.tex", "--caption", r"Why? \emph{Film}, 5\% of it", "--label", "fig:f"]
    result = cli("explain", "a deep film", "a film", *words)
    assert result.exit_code == 0, result.stderr
    for number in (1, 2):  # a label twice in a paper would be none
        text = (tmp_path / f"f-{number}.tex").read_text("utf-8")
        assert f"\n\\caption{{Why? \\emph{{Film}}, 5\\% of it}}\n\\label{{fig:f-{number}}}\n\\end{{figure}}\n" in text
    assert cli("compare", TEXT, "--no-faithfulness", *words).exit_code == 0
    text = (tmp_path / "f.tex").read_text("utf-8")
    assert "\\begin{table}" in text and "\\label{fig:f}" in text
    for verb in ("explain", "compare"):
        alone = cli(verb, TEXT, "--caption", "x")
        assert alone.exit_code == 2 and "--caption goes with --latex FILE" in alone.stderr
    unnamed = cli("explain", TEXT, "--latex", "f.tex", "--label", "x")
    assert unnamed.exit_code == 2 and "expected --caption beside --label, got it alone" in unnamed.stderr
    open_brace = cli("explain", TEXT, "--latex", "f.tex", "--caption", "{")
    assert open_brace.exit_code == 2 and "expected --caption one paragraph of LaTeX" in open_brace.stderr


def test_check_prints_three_residuals_a_layer_and_the_methods(cli):
    result = cli("check")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(re.findall(r"│ \d +(│ \d\.\de-\d\d +|│ 0\.0e\+00 +){3}│", result.stdout)) == 2
    assert "passed" in result.stdout
    assert "spec (hand-written): Spec(" in result.stdout
    assert re.search(r"value_zeroing +│ yes", result.stdout)


def test_check_of_a_wrong_spec_fails_and_still_shows_where(cli, monkeypatch):
    from dataclasses import replace

    right = architectures.SPECS["bert"](None)
    wrong = replace(right, chain=(replace(right.attend, norm="output.LayerNorm"), right.feed))
    monkeypatch.setitem(architectures.SPECS, "bert", lambda config: wrong)
    result = cli("check")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "add up" in one_line_error(cli("explain", TEXT))


def test_methods_are_the_facts(cli):
    result = cli("methods", "--json", model=False)
    assert [fact["name"] for fact in json.loads(result.stdout)] == [fact["name"] for fact in mixlens.methods()]
    table = cli("methods", model=False)
    assert table.exit_code == 0
    for fact in mixlens.methods():
        assert fact["name"] in table.stdout


def test_one_method_with_everything_about_it(cli):
    shown = cli("methods", "trans_att", model=False).stdout
    assert all(word in shown for word in ("attribute", "Chefer 2021", "zero_cls=False", "class specific", "distilbert"))
    assert "gpt2" not in shown
    both = json.loads(cli("methods", "globenc", "--json", model=False).stdout)
    stages = [("globenc", "mixing"), ("globenc", "attribute"), ("globenc", "similarity")]
    assert [(fact["name"], fact["stage"]) for fact in both] == stages
    assert one_line_error(cli("methods", "trans_atl", model=False)).endswith("did you mean 'trans_att'?")


def test_version(cli):
    assert CliRunner().invoke(app, ["--version"]).stdout == f"mixlens {mixlens.__version__}\n"


def test_a_word_of_a_token_classifier(cli, tmp_path, monkeypatch):
    from answer.test_entities import make

    lens = make()
    monkeypatch.setattr("mixlens.cli.running.mixlens.load", lambda name: lens)
    words = ("Anna met Anna Smithson.", "--method", "alti", "--target", "PER")
    result = cli("explain", *words, "--word", "Smithson", "--json", "-", "--html", "a.html")
    assert result.exit_code == 0, result.stderr
    target = json.loads(result.stdout)["target"]
    assert (target["label"], target["position"], target["word"]) == ("PER", [4, 5], "Smithson")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "went into the answer" in page and "target PER (Smithson)" in page
    said = one_line_error(cli("explain", *words, "--word", "Anna"))
    assert "say which by its tokens in place of --word: --position 1:1 or --position 3:3" in said
    assert cli("explain", *words, "--position", "1:1", "--json", "-").exit_code == 0
    assert cli("compare", *words, "--word", "Smithson", "--no-faithfulness").exit_code == 0
    for wrong, says in ((("--position", "x"), "a token's number, or FIRST:LAST"), (("--word", " "), "an empty one")):
        assert says in cli("explain", *words, *wrong).stderr


def test_windows_of_a_long_text(cli, tmp_path):
    long = " ".join(["a deep and meaningful film."] * 8)
    said = one_line_error(cli("explain", long))
    assert "shorten the text, pass --window 32 to explain it in overlapping parts, or pass --truncate" in said
    result = cli("explain", long, "--window", "20", "--stride", "10", "--json", "-", "--html", "a.html")
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert len(data["tokens"]) == 50 and [row["first"] for row in data["meta"]["windows"]] == [1, 11, 21, 31]
    assert data["options"] == {"window": 20, "stride": 10}
    assert "Window by window" in (tmp_path / "a.html").read_text("utf-8")
    assert "joined from 5 windows of 20 tokens" in " ".join(cli("explain", long, "--window", "20").stdout.split())
    assert "--stride beside --window, got it alone" in one_line_error(cli("explain", long, "--stride", "3"))
    assert "use --window" in cli("explain", long, "-o", "window=20").stderr
