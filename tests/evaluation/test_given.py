"""Functions of one's own as methods of an evaluation: what they are asked, what they may say, what is kept of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Example, Target
from mixlens.errors import RunChanged, UnknownMethod, UnknownOption
from models import chats, families

TEXTS = ["a deep film .", "not bad", "a very slow and bad film ."]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


@pytest.fixture(scope="module")
def speaker() -> mixlens.Lens:
    return mixlens.load(families.make("llama", "causal", max_position_embeddings=96), chats.tokenizer())


def ours(question: mixlens.Question, method: str = "saliency") -> Any:
    """What mixlens says of a text itself."""
    attribution = question.lens.attribute(question.example.text, method, question.target)
    return attribution.scores


def falling(question: mixlens.Question) -> list[int]:
    """The first token highest."""
    return [-i for i in range(len(question))]


def test_scores_from_outside_are_measured_as_a_method_s_are(lens: mixlens.Lens) -> None:
    measures: list[Any] = ["aopc", ("to alti", "spearman", {})]
    how: dict[str, Any] = {"measures": measures, "reference": "alti", "target": "positive"}
    table = mixlens.evaluate(
        lens, TEXTS, ["saliency", "attcat", ("same", ours, {}), ("cat", ours, {"method": "attcat"})], **how
    )
    for measure in ("aopc", "to alti"):
        assert np.isfinite(table.values(measure, "same")).all()
        np.testing.assert_array_equal(table.values(measure, "same"), table.values(measure, "saliency"))
        np.testing.assert_array_equal(table.values(measure, "cat"), table.values(measure, "attcat"))


def test_what_is_asked_of_a_text_and_of_an_answer(lens: mixlens.Lens, speaker: mixlens.Lens) -> None:
    seen: list[mixlens.Question] = []

    def spy(question: mixlens.Question) -> Any:
        seen.append(question)
        return torch.ones(len(question), dtype=torch.bfloat16)

    mixlens.evaluate(lens, TEXTS[:1], [("spy", spy, {})], ["aopc"], target="positive")
    (text,) = seen
    assert text.lens is lens and text.example.text == text.text == TEXTS[0] and text.answer is None
    assert text.names == ("[CLS]", "a", "deep", "film", ".", "[SEP]") and len(text.ids) == len(text) == 6
    assert isinstance(text.target, Target) and text.answer is text.foil is None
    seen.clear()
    prompts = [
        Example("one", prompt="w5 w6 w7", answer="w9", foil="w8", gold=(1,)),
        Example("two", prompt="w5 w6 w7 w5", answer="w9 w8", foil="w9 w7", gold=(1,)),
        Example("said", prompt="w5 w6", gold=(1,)),
        Example("ids", prompt=[5, 6, 7], answer=[9], gold=(1,)),
    ]
    mixlens.evaluate(speaker, prompts, [("spy", spy, {})], [("mrr", "mrr", {"wrong": True})])
    by_id = {question.example.id: question for question in seen}
    w = speaker.tokenizer.convert_tokens_to_ids
    assert by_id["one"].ids == tuple(w(["w5", "w6", "w7"])) and by_id["one"].text == "w5 w6 w7"
    assert by_id["one"].answer == (w("w9"),) and by_id["one"].foil == (w("w8"),)
    assert by_id["two"].answer == tuple(w(["w9", "w8"])) and by_id["two"].foil == tuple(w(["w9", "w7"]))
    assert len(by_id["said"].answer or ()) >= 1 and by_id["said"].foil is None  # the model's own
    assert by_id["ids"].text is None and by_id["ids"].ids == (5, 6, 7)


def test_the_rank_of_the_source_by_hand(speaker: mixlens.Lens) -> None:
    """Falling scores: the token at place k has rank k + 1; left out, the first token counts no more."""
    prompts = [Example(str(k), prompt="w5 w6 w7 w8", answer="w9", gold=(k,)) for k in (1, 3)]
    measures = [("mrr", "mrr", {"wrong": True}), ("rest", "mrr", {"wrong": True, "first": False})]
    table = mixlens.evaluate(speaker, prompts, [("falling", falling, {})], measures)
    assert table.values("mrr", "falling").tolist() == [1 / 2, 1 / 4]
    assert table.values("rest", "falling").tolist() == [1, 1 / 3]


def test_sources_that_are_left_out_are_0_and_nothing_is_divided(speaker: mixlens.Lens) -> None:
    prompts = [Example("a", prompt="w5 w6 w7", answer="w9", gold=(2,))]
    scores = ("given", lambda question: [8.0, 3.0, 1.0], {})
    mass = ("mass", "gold_mass", {"wrong": True})
    assert mixlens.evaluate(speaker, prompts, [scores], [mass]).values("mass", "given") == [1 / 12]
    table = mixlens.evaluate(speaker, prompts, [scores], [mass], exclude="first")
    assert table.values("mass", "given") == [1 / 4]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (
            lambda question: [1.0],
            r"expected 4 scores from 'bad', a number a token of example '1', got an array of float64, shape \(1,\)",
        ),
        (lambda question: np.ones((1, 4)), r"got an array of float64, shape \(1, 4\); question.names are the tokens"),
        (lambda question: None, "got NoneType"),
        (lambda question: [[1.0], [1.0, 2.0]], "got list"),
        (lambda question: ["a"] * 4, "got an array of <U1"),
        (lambda question: [True] * 4, "got an array of bool"),
        (
            lambda question: [0.0, float("nan"), 1.0, 1.0],
            "NotFinite: expected finite 4 scores .*, got nan at 'not'; give 0",
        ),
        (lambda question: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_cannot_be_scores_is_an_error_of_that_example_alone(bad: Any, says: str, lens: mixlens.Lens) -> None:
    def one_bad(question: mixlens.Question) -> Any:
        return bad(question) if question.example.text == "not bad" else falling(question)

    table = mixlens.evaluate(lens, TEXTS, ["alti", ("bad", one_bad, {})], ["aopc"])
    assert np.isfinite(table.values("aopc", "bad")).tolist() == [True, False, True]
    assert np.isfinite(table.values("aopc", "alti")).all() and table.row("aopc", "bad").n_errors == 1
    (error,) = [line["errors"]["aopc bad"] for line in table.examples() if "errors" in line]
    assert re.search(says, error), error


def test_a_call_s_own_fault_ends_it(lens: mixlens.Lens) -> None:
    with pytest.raises(UnknownMethod, match="no attribution method 'sliency'; did you mean 'saliency'"):
        mixlens.evaluate(lens, TEXTS, [("x", ours, {"method": "sliency"})], ["aopc"])
    with pytest.raises(UnknownOption, match="expected every method once, got 'alti' twice"):
        mixlens.evaluate(lens, TEXTS, ["alti", ("alti", falling, {})], ["aopc"])
    with pytest.raises(UnknownOption, match="the label 'random' is the null's"):
        mixlens.evaluate(lens, TEXTS, [("random", falling, {})], ["aopc"])
    with pytest.raises(UnknownOption, match="expected the name of a measure for 'mine', got a function"):
        mixlens.evaluate(lens, TEXTS, ["alti"], [("mine", falling, {})])
    with pytest.raises(UnknownOption, match=r"expected a name or \(label, name or function, options\), got"):
        mixlens.evaluate(lens, TEXTS, [falling], ["aopc"])


def test_options_go_to_the_function_and_its_label_has_them(lens: mixlens.Lens) -> None:
    def shifted(question: mixlens.Question, by: int = 0) -> Any:
        return np.roll(np.arange(len(question)), by)

    how: dict[str, Any] = {"measures": ["spearman"], "reference": "alti"}
    table = mixlens.evaluate(
        lens, TEXTS, [("a", shifted, {"by": 1}), ("b", shifted, {})], **how, options={"b": {"by": 1}}
    )
    np.testing.assert_array_equal(table.values("spearman", "a"), table.values("spearman", "b"))
    assert table.manifest["methods"]["b"]["options"] == {"by": 1}


def test_a_run_goes_on_with_the_same_function_alone(lens: mixlens.Lens, tmp_path: Path) -> None:
    asked_again: list[str] = []

    class Versioned:
        def __init__(self, version: str) -> None:
            self.version = version

        def __call__(self, question: mixlens.Question) -> Any:
            asked_again.append(question.example.id)
            return falling(question)

    def run(function: Any, folder: str) -> mixlens.Table:
        return mixlens.evaluate(lens, TEXTS, [("mine", function, {})], ["aopc"], tmp_path / folder, resamples=20)

    before = run(Versioned("peer 1.0"), "versions")
    made = json.loads((tmp_path / "versions" / "manifest.json").read_text())["methods"]["mine"]
    assert made["version"] == "peer 1.0" and made["function"].endswith("Versioned") and made["name"] == "mine"
    assert len(asked_again) == len(TEXTS)
    again = run(Versioned("peer 1.0"), "versions")  # all of it is there already
    assert len(asked_again) == len(TEXTS)
    np.testing.assert_array_equal(again.values("aopc", "mine"), before.values("aopc", "mine"))
    with pytest.raises(RunChanged, match=r'methods.mine.version: was "peer 1.0", now "peer 1.1"'):
        run(Versioned("peer 1.1"), "versions")
    run(falling, "sources")
    with pytest.raises(RunChanged, match=r"methods.mine.function: was .*falling.*\n  methods.mine.source: was digest"):
        run(ours, "sources")


def test_what_a_measure_compares_is_asked_of_the_function_too(lens: mixlens.Lens) -> None:
    """Of every class, and of a second model."""
    seen: list[tuple[Any, Any]] = []

    def spy(question: mixlens.Question) -> Any:
        seen.append((question.lens, None if question.target is None else question.target.what))
        return ours(question)

    other = mixlens.load(lens.model, lens.tokenizer)
    measures = ["kendall_confidence", "consistency"]
    table = mixlens.evaluate(lens, TEXTS, ["saliency", ("spy", spy, {})], measures, second=other)
    for measure in measures:
        np.testing.assert_array_equal(table.values(measure, "spy"), table.values(measure, "saliency"))
    assert {model for model, _ in seen} == {lens, other} and {what for _, what in seen} == {0, 1}
