"""What users get wrong about a data set or an option is said before the work, in words."""

from __future__ import annotations

import json
from dataclasses import replace
from inspect import unwrap

import numpy as np
import pytest
import torch
from transformers import BertForQuestionAnswering
from typer.testing import CliRunner

import mixlens
from mixlens.cli import app
from mixlens.errors import DataError, ResultFileError, RunChanged, TargetError, Undefined, UnknownOption
from mixlens.measure import statistics
from mixlens.measure.perturb import shares
from mixlens.subject import Subject
from mixlens.tasks.classes import refuse_numbers
from models import families
from models.words import tokenizer

TEXTS = [{"text": "a deep and meaningful film .", "label": "positive"}, {"text": "not good , very slow .", "label": 0}]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder):
    return mixlens.load(str(tiny_bert_folder))


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        ({"level": 1.5}, "expected level between 0 and 1, got 1.5"),
        ({"resamples": 0}, "expected resamples of 1 or more, got 0"),
        ({"options": {"alti": {"p": True}}}, "expected p= a whole number for alti, got True"),
        ({"seed": -1}, "expected seed= a whole number of 0 or more, got -1"),
        ({"seed": True}, "expected seed= a whole number"),
        ({"measures": ["aopc"], "options": {"aopc": {"levels": [5.0]}}}, "levels: expected at least one share"),
        ({"measures": ["aopc"], "options": {"aopc": {"shortest": "x"}}}, "expected shortest= a whole number"),
        ({"options": {"spearman": {"special": "no"}}}, "expected special= True or False, got 'no'"),
    ],
)
def test_options_are_checked_before_the_work(lens, ask, says, monkeypatch):
    monkeypatch.setattr(Subject, "passes", lambda *a, **k: pytest.fail("work began"))
    with pytest.raises(UnknownOption, match=says):
        mixlens.evaluate(lens, TEXTS, **{"methods": ["alti"], "measures": ["spearman"], **ask})


def test_levels_that_are_no_shares():
    with pytest.raises(UnknownOption, match="levels: expected at least one share, each 0 to 1, got 5"):
        unwrap(shares)(5)  # past the tests' own check of types


def test_intervals_that_are_no_numbers():
    with pytest.raises(UnknownOption, match="level: expected a share between 0 and 1, got 'a'"):
        unwrap(statistics._tails)("a")
    with pytest.raises(UnknownOption, match="resamples: expected a whole number of at least 1, got 'x'"):
        next(unwrap(statistics.weights)(3, "x"))


def test_options_of_a_measure_with_a_composed_reference(lens):
    options = {"spearman": {"special": False}}
    table = mixlens.evaluate(lens, TEXTS, ["alti"], ["spearman:alti+layer:0"], options=options, resamples=10)
    assert table.row("spearman", "alti").n == 2


def test_the_null_is_no_reference_to_itself(lens):
    for how in ({"measures": ["spearman:random"]}, {"measures": ["consistency"], "second": lens}):
        table = mixlens.evaluate(lens, TEXTS, ["alti"], resamples=10, **how)
        assert abs(table.rows[0].null) < 0.99


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_data(lens, kind, tmp_path):
    path = tmp_path / f"rows.{kind}"
    lines = {"csv": "text,label\na good film .,0\n", "jsonl": '{"text": "a good film .", "label": 0}\n'}
    path.write_bytes(b"\xef\xbb\xbf" + lines[kind].encode())
    table = mixlens.evaluate(lens, path, ["alti"], ["spearman"], resamples=10)
    assert (table.rows[0].n, table.rows[0].n_errors) == (1, 0)


def test_other_encodings_are_refused(lens, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("text,label\ncaf\xe9,0\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"expected UTF-8 in .*rows.csv, got byte 0xe9; save it as UTF-8"):
        mixlens.evaluate(lens, path, ["alti"], ["spearman"])


def test_a_list_of_words_is_no_text(lens):
    table = mixlens.evaluate(lens, [["a", "film"], *TEXTS], ["alti"], ["spearman"], resamples=10)
    assert (table.rows[0].n, table.rows[0].n_errors) == (2, 1)
    assert "expected token ids in a list" in next(e["error"] for e in table.examples() if "error" in e)


def test_a_run_that_found_nothing_yet_may_be_asked_otherwise(lens, tmp_path):
    rows = [{"words": "a good film ."}]
    with pytest.raises(DataError, match="name it"):
        mixlens.evaluate(lens, rows, ["alti"], ["spearman"], tmp_path)
    task = mixlens.task("classification", text="words")
    assert mixlens.evaluate(lens, rows, ["alti"], ["spearman"], tmp_path, task=task, resamples=10).rows[0].n == 1


@pytest.mark.parametrize("target", ["neg", 7, mixlens.Target("positive", foil="neg")])
def test_a_target_that_no_text_has_is_refused_before_the_work(lens, target, monkeypatch):
    monkeypatch.setattr(Subject, "passes", lambda *a, **k: pytest.fail("work began"))
    with pytest.raises(TargetError, match=r"no label 'neg'|expected a label index of 0 to 1, got 7"):
        mixlens.evaluate(lens, TEXTS, ["alti"], ["aopc"], target=target)


@pytest.mark.parametrize(
    ("measure", "task", "says"),
    [
        (
            "cue_dot",
            "classification",
            "needs a cue in every row, and a row of the task classification holds none: take",
        ),
        ("precision_at_k", "pairs", "needs an answer .* take task='question', or pass mixlens.Examples"),
        ("auprc", "classification", "needs a rationale .* take task='rationales'"),
        ("iou", "agreement", "needs a rationale .* a row of the task agreement holds none"),
    ],
)
def test_a_measure_of_what_the_task_never_has_is_refused_before_the_work(lens, measure, task, says, monkeypatch):
    monkeypatch.setattr(Subject, "passes", lambda *a, **k: pytest.fail("work began"))
    row = {"text": "a good film .", "first": "good", "second": "bad", "cue": [[0, 1]], "rationale": [[0, 1]]}
    row |= {"target": "good", "foil": "bad", "target_span": [2, 6]}
    for rows in ([row], iter([row])):
        with pytest.raises(Undefined, match=f"^{measure} {says}"):
            mixlens.evaluate(lens, rows, ["alti"], ["aopc", measure], task=task)


def test_what_a_row_or_an_example_may_have_is_no_mistake(lens):
    marked = mixlens.Example("e", "a good film .", cue=((2, 6),))
    assert mixlens.evaluate(lens, [marked], ["alti"], ["cue_dot"], resamples=10).rows[0].n == 1
    mine = replace(mixlens.task("classification"), function=lambda fields, id, mask: marked)
    assert mixlens.evaluate(lens, TEXTS, ["alti"], ["cue_dot"], task=mine, resamples=10).rows[0].n == 2
    rows = [{"text": "a good film ."}, {"text": "a good film .", "spans": [[2, 6]]}]
    table = mixlens.evaluate(lens, rows, ["alti"], ["auprc"], task="rationales", resamples=10)
    assert (table.rows[0].n, table.rows[0].n_errors) == (1, 1)


def test_null_is_no_missing_column(lens):
    with pytest.raises(DataError, match=r"^expected a value in 'text' for 'text', got null; fill it or leave "):
        mixlens.evaluate(lens, [{"text": None}], ["alti"], ["aopc"])


def test_a_table_of_pandas_is_its_rows(lens):
    pandas = pytest.importorskip("pandas")
    table = mixlens.evaluate(lens, pandas.DataFrame(TEXTS), ["alti"], ["spearman"], resamples=10)
    plain = mixlens.evaluate(lens, TEXTS, ["alti"], ["spearman"], resamples=10)
    assert table.to_csv() == plain.to_csv()


def test_one_name_is_a_name(lens):
    table = mixlens.evaluate(lens, TEXTS, "alti", "spearman", resamples=10)
    assert [(row.method, row.measure) for row in table] == [("alti", "spearman")]
    assert list(lens.compare("a good film .", "alti", faithfulness=False).attributions) == ["alti"]


@pytest.mark.parametrize("harm", ["doubled", "missing", "torn", "other", "reversed", "before", "edited"])
def test_results_that_were_changed_are_refused(lens, tmp_path, harm):
    def run():
        return mixlens.evaluate(lens, TEXTS, ["alti"], ["spearman"], tmp_path, resamples=10)

    run()
    path = tmp_path / "results.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    assert lines[0].startswith('{"i": 0,')
    changed = {
        "doubled": [lines[0], *lines],
        "missing": lines[1:],
        "torn": [lines[0][:40] + "}\n", *lines[1:]],
        "other": ['{"i": 0}\n', *lines[1:]],
        "reversed": lines[::-1],
        "before": ["garbage\n", *lines],
        "edited": [lines[0].replace('"v": [', '"v": [0.5, '), *lines[1:]],
    }
    path.write_text("".join(changed[harm]), "utf-8")
    with pytest.raises(ResultFileError, match="some were changed since; restore the file, or delete the folder"):
        run()
    assert path.read_text("utf-8") == "".join(changed[harm])  # nothing is cut off


def test_labels_of_ones_own_may_hold_a_colon(lens):
    """Two measures that are called the same up to the colon are two."""
    measures = [("r:a", "aopc", {}), ("r:b", "aopc", {"replace": "pad"}), ("s:a", "spearman:grad_l2", {})]
    measures += [("s:b", "spearman:grad_l2", {"special": False}), "pearson:alti", "pearson:grad_l2"]
    table = mixlens.evaluate(lens, TEXTS, ["alti", "attcat"], measures, resamples=10)
    assert table.measures == ("r:a", "r:b", "s:a:grad_l2", "s:b:grad_l2", "pearson:alti", "pearson:grad_l2")
    assert {row.measure for row in table} == {"r:a", "r:b", "s:a", "s:b", "pearson"}
    assert table.row("r:a", "alti").mean != table.row("r:b", "alti").mean
    assert table.row("s:a", "attcat").mean != table.row("s:b", "attcat").mean
    assert table.row("pearson:alti", "alti").mean == pytest.approx(1)
    with pytest.raises(UnknownOption, match="expected every measure once, got 'r:alti' twice"):
        mixlens.evaluate(lens, TEXTS, ["alti"], [("r:alti", "aopc", {}), ("r", "spearman:alti", {})])


@pytest.mark.parametrize(
    ("measure", "says"),
    [
        ("aopc", "aopc needs the probability of an answer, which a regression head has not"),
        ("kendall_confidence", "compares the classes of a sequence classifier, this is a regression head"),
    ],
)
def test_a_regression_head_is_called_one(measure, says):
    scored = mixlens.load(families.make("bert", "sequence", dtype=torch.float32, num_labels=1), tokenizer())
    with pytest.raises(Undefined, match=says):
        mixlens.evaluate(scored, ["w5 w6"], ["attcat"], [measure])


def test_a_model_without_a_head_is_refused_up_front(lens, monkeypatch):
    bare = mixlens.load(lens.model.base_model, lens.tokenizer)
    with monkeypatch.context() as patch:
        patch.setattr(Subject, "passes", lambda *a, **k: pytest.fail("work began"))
        for ask, names in (({}, "saliency explains"), ({"methods": ["attcat"]}, "attcat, saliency explain")):
            with pytest.raises(Undefined, match=f"^{names} an answer, and this model has no head .* take methods and"):
                mixlens.evaluate(bare, TEXTS, **{"methods": ["alti"], "measures": ["spearman"], **ask})
        with pytest.raises(Undefined, match="aopc needs the probability of an answer, which a model without a head"):
            mixlens.evaluate(bare, TEXTS, ["alti"], ["aopc"])
    table = mixlens.evaluate(bare, TEXTS, ["alti", "globenc"], ["spearman"], reference="hta_x_input", resamples=10)
    assert [row.n for row in table] == [2, 2] and not any("error" in line for line in table.examples())


def test_no_direction_no_ranking(lens):
    table = mixlens.evaluate(lens, TEXTS, ["alti", "attention"], ["special_rank"], resamples=10)
    with pytest.raises(Undefined, match="special_rank ranks no methods"):
        table.ranking("special_rank")


def test_columns_are_names():
    with pytest.raises(UnknownOption, match="expected first= a column's name, or several, got 3"):
        unwrap(mixlens.task)("pairs", first=3)


def test_nothing_to_compare(lens):
    with pytest.raises(UnknownOption, match="expected at least one method to compare, got none"):
        lens.compare("a good film .", methods=[])


def test_an_answer_is_not_taken_out_with_its_own_tokens():
    """Without the answer's first or last token there is no answer to read: they stay."""
    torch.manual_seed(1)
    reader = mixlens.load(BertForQuestionAnswering(families.model("bert").config).eval(), tokenizer())
    table = mixlens.evaluate(
        reader, [("w11 w12", "w13 w14 w15 w16 w17")], ["alti"], ["aopc"], task="question", resamples=10
    )
    curve = table.curve("aopc", "alti")
    assert table.rows[0].n_errors == 0 and np.isfinite(curve).all() and len(np.unique(curve.round(9))) > 2
    compared = reader.compare(("w11 w12", "w13 w14 w15 w16 w17"), methods=["alti"])
    assert np.isfinite(compared.faithfulness["alti"].aopc)


def test_a_question_run_of_before_does_not_go_on(tmp_path):
    """It explained other spans: half of its numbers would mean another thing."""
    reader = mixlens.load(BertForQuestionAnswering(families.model("bert").config).eval(), tokenizer())
    asked = {"methods": ["alti"], "measures": ["aopc"], "task": "question", "resamples": 10, "out": tmp_path / "run"}
    mixlens.evaluate(reader, [("w11 w12", "w13 w14 w15 w16 w17")], **asked)
    path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    assert manifest.pop("answers") == "spans of 15"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RunChanged, match=r'answers: was null, now "spans of 15"'):
        mixlens.evaluate(reader, [("w11 w12", "w13 w14 w15 w16 w17")], **asked)


def test_model_inputs_may_have_a_label(lens):
    ids = lens.tokenizer("a good film .")["input_ids"]
    rows = [{"input_ids": ids, "label": "positive", "id": "first"}]
    table = mixlens.evaluate(lens, rows, ["alti"], ["spearman"], target="label", resamples=10)
    (one,) = table.examples()
    assert (one["id"], one["target"], table.rows[0].n) == ("first", "positive", 1)


def test_the_command_line_fails_where_nothing_could_be_evaluated(tiny_bert_folder, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n,0\n", encoding="utf-8")
    asked = [
        "evaluate",
        "--model",
        str(tiny_bert_folder),
        "--data",
        str(path),
        "--methods",
        "alti",
        "--measures",
        "aopc",
    ]
    ran = CliRunner().invoke(app, asked)
    assert ran.exit_code == 1 and "none of 1 examples could be evaluated, the first: " in ran.output


def test_stars_are_no_labels(lens, tmp_path):
    """The row with one star would be evaluated for the class of that number."""
    words = TEXTS[0]["text"]
    rows = [{"text": words, "label": str(1 + i % 5)} for i in range(6)]
    with pytest.raises(TargetError, match=r"\(negative, positive\) or their numbers, got '2' in row 1; are they stars"):
        mixlens.evaluate(lens, rows, ["attention"], ["spearman"], tmp_path / "run", target="label", resamples=10)
    table = mixlens.evaluate(lens, rows, ["attention"], ["spearman"], resamples=10)  # nobody asked for the label
    assert table.row("spearman", "attention").n == 6
    rows = [{"text": words, "label": label} for label in ("1", 0, "1.0", "positive", "Positive")]
    table = mixlens.evaluate(lens, rows, ["attention"], ["spearman"], target="label", resamples=10)
    assert table.row("spearman", "attention").n == 5


@pytest.mark.parametrize(("label", "refused"), [(2, True), ("2.0", True), (" 3 ", True), (1, False), ("-1", False)])
def test_a_number_beyond_the_classes(label, refused):
    refuse_numbers([(7, label)], [])  # of a model without classes
    refuse_numbers([(7, str(label))], ["a", str(label)])  # a class of that name
    if not refused:
        return refuse_numbers([(7, label)], ["a", "b"])
    with pytest.raises(TargetError, match=rf"got {label!r} in row 7"):
        refuse_numbers([(7, label)], ["a", "b"])
