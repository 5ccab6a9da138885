"""What a row means: texts, labels and spans of every task, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens.capture.given import Words
from mixlens.capture.text import encode
from mixlens.errors import DataError, UnknownOption
from mixlens.tasks import TASKS, token_mask
from models.words import tokenizer


def read(name: str, row: dict[str, Any], mask: str | None = "[MASK]", **columns: str) -> mixlens.Example:
    return mixlens.task(name, **columns).read(row, 7, mask)


def test_classification_and_pairs() -> None:
    assert read("classification", {"sentence": "a film", "label": 1, "id": "x"}) == mixlens.Example("x", "a film", 1)
    assert read("classification", {"text": "a film", "label": np.int64(1)}).label == 1
    assert read("classification", {"text": "a film"}) == mixlens.Example("7", "a film")
    own = read("classification", {"words": "a film", "gold": "positive"}, text="words", label="gold")
    assert own == mixlens.Example("7", "a film", "positive")
    for columns in (("premise", "hypothesis"), ("text_a", "text_b"), ("question1", "question2")):
        row = {columns[0]: "one", columns[1]: "two", "label": "neutral"}
        assert read("pairs", row) == mixlens.Example("7", ("one", "two"), "neutral")


SENTENCE = {
    "sentence": "Susan revealed herself today.",
    "target": "herself",
    "foil": "themselves",
    "target_span": [15, 22],
    "cue_spans": [[0, 5]],
    "phrase_spans": [[0, 5], [23, 28]],
}


def test_agreement_puts_the_mask_and_moves_what_stands_behind_it() -> None:
    one = read("agreement", SENTENCE)
    assert one.text == "Susan revealed [MASK] today."
    assert (one.target, one.foil, one.cue) == ("herself", "themselves", ((0, 5),))
    assert [one.text[a:b] for a, b in one.phrase] == ["Susan", "today"]
    assert read("agreement", {**SENTENCE, "target_span": "[15, 22]", "cue_spans": "[[0, 5]]"}) == one  # as CSV has it


def test_agreement_without_a_mask_reads_on() -> None:
    one = read("agreement", SENTENCE, mask=None)
    assert (one.text, one.target, one.foil) == ("Susan revealed", " herself", " themselves")
    assert (one.cue, one.phrase) == (((0, 5),), ((0, 5),))


def test_question_and_rationales() -> None:
    row = {"question": "who?", "context": "it was she", "answer": "she", "answer_start": 7}
    assert read("question", row) == mixlens.Example("7", ("who?", "it was she"), answer=(7, 10))
    marked = read("rationales", {"tokens": ["a", "bad", "film"], "rationales": [[0, 1, 1], [0, 1, 0], [0, 0, 0]]})
    assert (marked.text, marked.rationale) == (Words(["a", "bad", "film"]), ((2, 5),))
    assert read("rationales", {"tokens": ["a"], "rationales": []}).rationale == ()
    assert read("rationales", {"tokens": ["a"]}).rationale is None
    assert read("rationales", {"text": "a bad film", "spans": [[2, 5]], "label": 1}).rationale == ((2, 5),)


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["she", "was"], "answer_start": [7, 3]},
        {"text": np.array(["she"], dtype=object), "answer_start": np.array([7])},
        '{"text": ["she"], "answer_start": [7]}',
        [{"text": "she", "answer_start": 7}],
    ],
)
def test_answers_as_squad_has_them(answers: Any) -> None:
    row = {"question": "who?", "context": "it was she", "answers": answers}
    assert read("question", row) == mixlens.Example("7", ("who?", "it was she"), answer=(7, 10))
    own = {"question": "who?", "context": "it was she", "found": answers}
    if not isinstance(answers, str):
        assert read("question", own, answer="found").answer == (7, 10)


@pytest.mark.parametrize("answers", [{"text": [], "answer_start": []}, [], None, '{"text": [], "answer_start": []}'])
def test_a_question_without_an_answer(answers: Any) -> None:
    row = {"question": "who?", "context": "it was she", "answers": answers}
    assert read("question", row) == mixlens.Example("7", ("who?", "it was she"))


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("classification", {"words": "a"}, "expected a column 'text' or 'sentence'.*--field text=COLUMN"),
    ("classification", {"Txet": "a"}, "name it: .*text='Txet'.*, or --field text=Txet"),
    ("classification", {"my text": "a"}, "--field 'text=my text'"),
    ("classification", {"text": None}, "expected a value in 'text' for 'text', got null"),
    ("classification", {"text": 3}, "expected text in 'text', got int"),
    ("classification", {"text": "a", "label": [1]}, "expected a label's name or number"),
    ("pairs", {"premise": "a"}, "for 'second'"),
    ("agreement", {**SENTENCE, "target_span": [0, 5]}, "expected 'herself' at characters 0 to 5, got 'Susan'"),
    ("agreement", {**SENTENCE, "target_span": [[15, 22], [0, 5]]}, "expected one"),
    ("agreement", {**SENTENCE, "cue_spans": [[10, 17]]}, "expected a cue beside the target"),
    ("agreement", {**SENTENCE, "cue_spans": [[5, 5]]}, "0 <= start < end"),
    ("agreement", {**SENTENCE, "cue_spans": "x"}, r"expected \[start, end\) characters"),
    ("question", {"question": "q", "context": "c", "answer": "x", "answer_start": 0}, "expected the answer 'x'"),
    ("question", {"question": "q", "context": "c", "answer": "c", "answer_start": "?"}, "first character"),
    ("question", {"question": "q", "context": "c"}, "expected a column 'answer'"),
    ("question", {"question": "q", "context": "c", "answers": {"text": ["c"]}}, "expected answers as {'text'"),
    ("question", {"question": "q", "context": "c", "answers": "c"}, "expected answers as {'text'"),
    ("question", {"question": "q", "context": "c", "answers": {"text": ["x"], "answer_start": [0]}}, "the answer 'x'"),
    ("rationales", {"tokens": ["a", "b"], "rationales": [[1]]}, "a mark for each of 2 words"),
]


@pytest.mark.parametrize(("name", "row", "says"), REFUSED)
def test_what_cannot_be_read_is_named(name: str, row: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says):
        read(name, row)


def test_unknown_tasks_and_fields() -> None:
    with pytest.raises(UnknownOption, match="did you mean 'pairs'"):
        mixlens.task("pair")
    with pytest.raises(UnknownOption, match="has no field 'txt'; did you mean 'text'"):
        mixlens.task("classification", txt="sentence")


def test_measures_of_tasks_exist() -> None:
    from mixlens.measure import MEASURES

    assert {name for task in TASKS.values() for name in task.measures} <= set(MEASURES)
    spans = {m.name for m in MEASURES.values() if m.needs in ("cue", "rationale", "answer", "gold")}
    assert spans == {name for task in TASKS.values() for name in task.measures}
    assert all(name == task.name and task.summary for name, task in TASKS.items())


def test_the_page_has_a_row_a_task() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")
    table = page[page.index("| task | a row |") :].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(TASKS)


def test_spans_to_tokens(tiny_bert_folder: Any) -> None:
    from transformers import AutoTokenizer

    pieces = AutoTokenizer.from_pretrained(tiny_bert_folder)
    tokens = encode("a goodly film.", pieces)  # [CLS] a good ##ly film . [SEP]
    assert token_mask(tokens, [(2, 8)]).tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert token_mask(tokens, [(2, 8)], pieces="first").tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert token_mask(tokens, [(2, 3), (9, 14)]).tolist() == [0, 0, 1, 0, 1, 1, 0]
    assert token_mask(tokens, []).sum() == 0
    pair = encode(("a film", "not bad"), pieces)
    assert token_mask(pair, [(4, 7)], segment=1).tolist() == [0, 0, 0, 0, 0, 1, 0]
    with pytest.raises(DataError, match="within characters 20 to 30, got none; the text has 14"):
        token_mask(tokens, [(20, 30)])
    with pytest.raises(DataError, match="need offsets"):
        token_mask(encode([5, 6], tokenizer()), [(0, 1)])
    with pytest.raises(DataError, match="pieces='all' or 'first'"):
        token_mask(tokens, [(0, 1)], pieces="last")
