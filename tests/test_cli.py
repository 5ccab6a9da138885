"""The command line: what it prints where, its exit codes, its files, and errors on one line."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import mixlens
from mixlens import architectures
from mixlens.attribute import ATTRIBUTIONS
from mixlens.cli import app, running
from mixlens.cli.inputs import settings_of
from mixlens.mixing import MIXING

TEXT = "a deep and meaningful film."


@pytest.fixture
def cli(tiny_bert_folder, tmp_path, monkeypatch):
    """Run `mixlens VERB ...` in an empty folder, on the tiny model where the verb takes one."""
    monkeypatch.chdir(tmp_path)

    def run(verb: str, *words: str, model: bool = True):
        more = [] if not model else [str(tiny_bert_folder)] if verb == "check" else ["-m", str(tiny_bert_folder)]
        result = CliRunner().invoke(app, [verb, *words, *more])
        if not isinstance(result.exception, SystemExit | mixlens.errors.MixlensError | None):
            raise result.exception
        return result

    return run


def one_line_error(result, code: int = 1) -> str:
    """The error, held to the rule: exit code, nothing on standard output, one line."""
    assert (result.exit_code, result.stdout) == (code, "")
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr)
    return result.stderr.removeprefix("error: ").strip()


# ---- results


def test_explain_prints_the_words(cli):
    result = cli("explain", TEXT)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "alti" in result.stdout
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
        json.loads(cli("explain", TEXT, *more, "--json", "-").stdout)["scores"] for more in ([], ["-o", "p=2"])
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


def test_check_prints_three_residuals_a_layer_and_the_methods(cli):
    result = cli("check")
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(re.findall(r"│ \d +(│ \d\.\de-\d\d +|│ 0\.0e\+00 +){3}│", result.stdout)) == 2
    assert "passed" in result.stdout
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
    assert [(fact["name"], fact["stage"]) for fact in both] == [("globenc", "mixing"), ("globenc", "attribute")]
    assert one_line_error(cli("methods", "trans_atl", model=False)).endswith("did you mean 'trans_att'?")


def test_version(cli):
    assert CliRunner().invoke(app, ["--version"]).stdout == f"mixlens {mixlens.__version__}\n"


# ---- errors


def test_unknown_method_suggests(cli):
    assert one_line_error(cli("explain", TEXT, "--method", "globenk")).endswith("did you mean 'globenc'?")


@pytest.mark.parametrize("verb", ["explain", "map"])
def test_unknown_method_suggests_in_any_case(cli, verb):
    assert one_line_error(cli(verb, TEXT, "--method", "ALTI")).endswith("; did you mean 'alti'?")
    assert one_line_error(cli(verb, TEXT, "--method", "Globenk")).endswith("; did you mean 'globenc'?")


def test_unknown_option_names_those_there_are(cli):
    assert "would ignore the option 'q'" in one_line_error(cli("explain", TEXT, "--option", "q=1"))


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
    monkeypatch.setattr("mixlens.cli.commands.load", lambda model: 1 / 0)
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
        (["explain"], "Missing argument"),
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


# ---- progress


def test_progress_shows_only_after_a_second_and_only_on_a_terminal(monkeypatch, capsys):
    from rich.console import Console

    monkeypatch.setattr(running, "DELAY", 0.05)
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: True))
    with running.progress("quick"):
        pass
    assert "quick" not in capsys.readouterr().err
    with running.progress("slow") as line:
        line.report(1, 2)
        time.sleep(0.5)
    assert "slow" in capsys.readouterr().err
    monkeypatch.setattr(Console, "is_terminal", property(lambda self: False))
    with running.progress("piped"):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_counted_lines_where_there_is_no_terminal(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    line = running.Progress("loading", counted=True)
    line.stage("first part")
    line.report(300, 1000)  # the run goes on here: these are not what the rate is made of
    now[0] += 61
    line.report(361, 1000)
    line.stage("second part")
    line.report(0, None)
    now[0] += 200
    line.report(50, None)
    assert capsys.readouterr().err.splitlines() == [
        "first part: 361 of 1000, 1/s, 11 min left",
        "second part: 50, 0.25/s",
    ]


def test_what_the_progress_line_says(monkeypatch):
    from mixlens.view.kit.terminal import as_text

    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    line = running.Progress("loading the model", counted=True)
    line.bar.get_time = lambda: now[0]
    line.stage("evaluating")
    shown = []

    def look(seconds: float) -> None:
        now[0] += seconds
        (task,) = line.bar.tasks
        shown.append(" ".join(as_text(line.bar.make_tasks_table([task])).split("━")[-1].split()))

    look(5)
    line.report(40, 100)  # those that were there already
    look(10)
    line.report(60, 100)
    look(5)
    line.stage("another part")
    line.report(0, None)
    look(10)
    line.report(7, None)
    look(1)
    assert shown == [
        "0:00:05 elapsed",
        "40/100 0:00:15 elapsed",
        "60/100 2/s 0:00:20 elapsed, 0:00:15 left",
        "0:00:10 elapsed",
        "7 0.7/s 0:00:11 elapsed",
    ]


def test_interrupted_is_130(cli, monkeypatch):
    def interrupt(model):
        raise KeyboardInterrupt

    monkeypatch.setattr("mixlens.cli.commands.load", interrupt)
    assert cli("explain", TEXT).exit_code == 130


# ---- as a process


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
@pytest.mark.parametrize("method", ATTRIBUTIONS)
def test_every_method_explains_the_embedded_default(default, method):
    data = default("explain", TEXT, "--method", method)
    assert (data["method"], data["target"]["label"], len(data["scores"])) == (method, "positive", 8)
    assert all(math.isfinite(score) for score in data["scores"])
    assert any(data["scores"])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rollout", "mean", "layer:-1"])
@pytest.mark.parametrize("method", MIXING)
def test_every_map_of_the_embedded_default(default, method, how):
    data = default("map", TEXT, "--method", method)
    assert [len(data["scores"]), len(data["scores"][0]), len(data["scores"][0][0])] == [6, 8, 8]
    if how != "rollout" or not MIXING[method].signed:
        assert default("map", TEXT, "--method", method, "--aggregate", how)["aggregation"] == how
        assert default("explain", TEXT, "--method", f"{method}+{how}")["method"] == f"{method}+{how}"


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name, facts in MIXING.items() if facts.rows_sum_to_one])
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
