"""Answers of language models in an evaluation: the scores of `trace`, what is left of an answer, wrong ones apart."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Example
from mixlens.errors import InputError, Undefined, UnknownOption
from models import chats, families
from models.words import tokenizer


@pytest.fixture(scope="module")
def lens() -> mixlens.Lens:
    return mixlens.load(families.make("llama", "causal", max_position_embeddings=96), chats.tokenizer())


PROMPT = "w5 w6 w7 w8 w9 w10"
EXAMPLES = (
    Example("a", prompt=PROMPT, answer="w6 w7", gold=((3, 5),)),
    Example("b", prompt="w5 w6 w7", answer="w9", foil="w8", gold=(1,)),
    Example("c", "w5 w6 w7 w8"),  # a text beside them
)


def log_p(lens: mixlens.Lens, ids: list[int], answer: list[int]) -> float:
    """ln p of an answer, token by token, each by a pass of its own."""
    total = 0.0
    for t, token in enumerate(answer):
        with torch.no_grad():
            z = lens.model(input_ids=torch.tensor([[*ids, *answer[:t]]])).logits[0, -1]
        total += float(torch.log_softmax(z.double(), -1)[token])
    return total


def test_scores_are_those_of_the_trace(lens: mixlens.Lens) -> None:
    """A prompt token's score: the sum over the answer's tokens."""
    table = mixlens.evaluate(
        lens, EXAMPLES[:2], ["alti", "head_logit"], ["gold_mass"], options={"gold_mass": {"wrong": True}}
    )
    for i, (example, foil) in enumerate(zip(EXAMPLES[:2], (None, "w8"), strict=True)):
        for method in ("alti", "head_logit"):
            trace = lens.trace(example.prompt, example.answer, method, foil=foil)
            scores = trace.scores[:, : len(trace.prompt)].double().sum(0).clamp_min(0)
            place = trace.prompt.ids.index(6)
            expected = float(scores[place] / scores.sum()) if scores.sum() > 0 else np.nan
            assert table.values("gold_mass", method)[i] == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("replace", ["pad", "delete"])
def test_what_is_left_of_a_whole_answer(lens: mixlens.Lens, replace: str) -> None:
    options = {"log_odds": {"replace": replace, "levels": [0.5]}}
    table = mixlens.evaluate(lens, EXAMPLES, ["saliency"], ["log_odds"], options=options)
    trace = lens.trace(PROMPT, "w6 w7", "saliency")
    ids, answer = list(trace.prompt.ids), list(trace.answer.ids)
    scores = trace.scores[:, : len(ids)].sum(0)
    text = [i for i, special in enumerate(trace.prompt.special) if not special]
    gone = sorted(text, key=lambda i: -float(scores[i]))[: len(text) // 2]
    changed = [0 if i in gone else t for i, t in enumerate(ids) if replace == "pad" or i not in gone]
    found = np.log(table.curve("log_odds", "saliency")[0])
    assert found == pytest.approx([log_p(lens, ids, answer), log_p(lens, changed, answer)], abs=1e-9)
    assert np.isfinite(table.values("log_odds", "saliency")).all()  # the text beside them too


def test_against_a_foil_the_likelier_of_the_two_is_right(lens: mixlens.Lens) -> None:
    pair = [
        Example("forth", prompt=PROMPT, answer="w9", foil="w8"),
        Example("back", prompt=PROMPT, answer="w8", foil="w9"),
    ]
    trace = lens.trace(PROMPT, "w9", foil="w8")
    with torch.no_grad():
        z = lens.model(input_ids=torch.tensor([list(trace.prompt.ids)])).logits[0, -1]
    likelier = "forth" if z[trace.targets[0].index] > z[trace.targets[0].foil_index] else "back"
    table = mixlens.evaluate(lens, pair, ["head_logit"], ["log_odds"])
    assert set(table.wrong) == {"forth", "back"} - {likelier}


def test_a_run_goes_on_and_names_the_wrong_ones(lens: mixlens.Lens, tmp_path) -> None:
    said = lens.trace(PROMPT, max_new_tokens=1).answer
    right = Example("right", prompt=PROMPT, answer=list(said.ids), gold=(2,))
    args = (lens, [*EXAMPLES[:2], right], ["head_logit"], ["mrr", "lds", "rise", "mas", "top_k_drop"], tmp_path)
    table = mixlens.evaluate(*args)
    lines = {line["id"]: line for line in table.examples()}
    assert lines["right"]["right"] is True and lines["a"]["right"] is False and lines["a"]["answer"] == "w6 w7"
    assert "right" not in table.wrong and "a" in table.wrong
    mrr = table.row("mrr", "head_logit")
    assert (mrr.n, mrr.n_undefined, mrr.n_errors) == (3 - len(table.wrong), len(table.wrong), 0)
    assert "not the model's" in str(table)
    results = (tmp_path / "results.jsonl").read_bytes()
    cut = results.splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_bytes(b"".join(cut[:2]))  # killed within the chunk
    again = mixlens.evaluate(*args)
    assert (tmp_path / "results.jsonl").read_bytes() == results
    assert np.array_equal(again.values("lds", "head_logit"), table.values("lds", "head_logit"), equal_nan=True)


def test_an_answer_that_is_not_given_is_the_model_s(lens: mixlens.Lens) -> None:
    table = mixlens.evaluate(lens, [Example("a", prompt=PROMPT, gold=("w6",))], ["head_logit"], ["mrr"])
    assert table.row("mrr", "head_logit").n == 1 and table.wrong == ()


def test_documents_are_units_and_gold(lens: mixlens.Lens, tmp_path) -> None:
    row = {"prompt": "w7 w8", "documents": {"w95": "w20 w21 w22", "w96": "w23 w24"}, "answer": "w21", "gold": ["w96"]}
    measures = [("mrr", "mrr", {"by": "unit", "wrong": True}), ("top", "top_k_drop", {"k": 1})]
    (tmp_path / "own.jsonl").write_text(json.dumps(row) + "\n")
    table = mixlens.evaluate(lens, tmp_path / "own.jsonl", ["saliency"], measures, task="documents")
    trace = lens.trace("w7 w8", "w21", "saliency", documents=row["documents"])
    sums = {name: float(trace.scores[0, slice(*at)].sum()) for name, at in trace.meta["documents"].items()}
    first = max(sums, key=lambda name: sums[name])
    assert table.values("mrr", "saliency")[0] == (1 if first == "w96" else 1 / 2)
    ids = [t for i, t in enumerate(trace.prompt.ids) if i not in range(*trace.meta["documents"][first])]
    drop = log_p(lens, list(trace.prompt.ids), [21]) - log_p(lens, ids, [21])
    assert table.values("top", "saliency")[0] == pytest.approx(drop, abs=1e-9)


def test_methods_of_documents_see_them_for_one_token_too(lens: mixlens.Lens) -> None:
    documents = {"w95": "w20 w21 w22", "w96": "w23 w24"}
    row = Example("a", prompt="w7 w8", documents=documents, answer="w21", gold=("w96",), units="document")
    method = ("out", "leave_one_out", {"units": "document"})
    table = mixlens.evaluate(lens, [row], [method], [("mrr", "mrr", {"by": "unit", "wrong": True})])
    trace = lens.trace("w7 w8", "w21", "leave_one_out", documents=documents, units="document")
    sums = {name: float(trace.scores[0, slice(*at)].sum()) for name, at in trace.meta["documents"].items()}
    assert table.values("mrr", "out")[0] == (1 if max(sums, key=lambda name: sums[name]) == "w96" else 1 / 2)


def test_what_is_refused(lens: mixlens.Lens, tiny_bert_folder) -> None:
    asked = EXAMPLES[0]
    with pytest.raises(InputError, match="expected a causal language model"):
        mixlens.evaluate(mixlens.load(str(tiny_bert_folder)), [asked], ["alti"], ["mrr"])
    with pytest.raises(UnknownOption, match="answer= and foil= are explained"):
        mixlens.evaluate(lens, [asked], ["alti"], ["mrr"], target="w6")
    with pytest.raises(Undefined, match="layers= are of attributions of texts"):
        mixlens.evaluate(lens, [asked], ["alti"], ["mrr"], layers="each")
    with pytest.raises(Undefined, match="mrr needs gold in every row"):
        mixlens.evaluate(lens, [{"text": "w5 w6", "label": 0}], ["alti"], ["mrr"])
    bad = [
        Example("none", prompt=PROMPT, answer="w6"),
        Example("lost", prompt=PROMPT, answer="w6", gold=("w99",)),
        Example("far", prompt=PROMPT, answer="w6", gold=(99,)),
        Example("long", prompt="w5 " * 96, answer="w6", gold=(1,)),
    ]
    table = mixlens.evaluate(lens, bad, ["head_logit"], ["mrr"])
    errors = {line["id"]: json.dumps(line) for line in table.examples()}
    assert table.row("mrr", "head_logit").n_errors == 4
    for name, says in {
        "none": "has none",
        "lost": "once in the prompt",
        "far": "gold tokens of 0",
        "long": "TooLong",
    }.items():
        assert says in errors[name]


SYSTEM = [{"role": "system", "content": "w30 w31"}, {"role": "user", "content": PROMPT}]
CHATS = (
    Example("two", prompt=SYSTEM, answer="w6 w7", gold=(11,)),
    Example("one", prompt=SYSTEM, answer="w6", gold=(11,)),
    Example("user", prompt=SYSTEM[1:], answer="w9", gold=(6,)),
)


@pytest.mark.parametrize("method", ["alti", "grad_x_input"])
def test_sources_left_out_are_those_of_the_trace(lens: mixlens.Lens, method: str) -> None:
    """A chat without the role has nothing of it to leave out."""
    names = ("first", "template", "system")
    asked = (lens, CHATS, [method], [("gold", "gold_mass", {"wrong": True})])
    table, whole = mixlens.evaluate(*asked, exclude=names), mixlens.evaluate(*asked)
    for i, example in enumerate(CHATS):
        kept = names if len(example.prompt) == 2 else names[:2]
        trace = lens.trace(example.prompt, example.answer, method, exclude=kept)
        scores = trace.scores[:, : len(trace.prompt)].double().sum(0).clamp_min(0)
        expected = float(scores[trace.prompt.ids.index(9)] / scores.sum())
        assert table.values("gold", method)[i] == pytest.approx(expected, abs=1e-12)
    assert not np.allclose(table.values("gold", method), whole.values("gold", method))


def test_sources_left_out_of_texts() -> None:
    """0 before the rest is divided by its sum."""
    bert = mixlens.load(families.make("bert", "sequence"), tokenizer())
    rows = [Example("a", "w5 w6 w7", gold=("w6",))]
    table = mixlens.evaluate(bert, rows, ["saliency"], ["gold_mass"], exclude="template")
    scores = bert.attribute("w5 w6 w7", "saliency").scores[1:-1]
    assert table.values("gold_mass", "saliency")[0] == pytest.approx(float(scores[1] / scores.sum()), abs=1e-12)
    with pytest.raises(
        UnknownOption, match=r"expected exclude='first', 'template' \(these texts are no chats\), got 'u'"
    ):
        mixlens.evaluate(bert, rows, ["saliency"], ["gold_mass"], exclude="u")
    with pytest.raises(UnknownOption, match="exclude='first' would be ignored: no measure asked for looks at scores"):
        mixlens.evaluate(bert, rows, (), ["anisotropy"], exclude="first")


def test_a_prompt_of_which_nothing_is_left_fails_alone(lens: mixlens.Lens) -> None:
    rows = [EXAMPLES[0], Example("none", prompt="w5", answer="w6", gold=(0,))]
    lines = {e["id"]: e for e in mixlens.evaluate(lens, rows, ["alti"], ["mrr"], exclude="first").examples()}
    assert "exclude=['first'] leaves no source of this example" in lines["none"]["error"]
    assert "error" not in lines["a"]


def test_a_role_that_no_chat_has(lens: mixlens.Lens) -> None:
    with pytest.raises(UnknownOption, match=r"or a role of the chats \(system, user\), got 'tool'"):
        mixlens.evaluate(lens, CHATS, ["alti"], ["mrr"], exclude=["tool"])


def test_scores_of_a_text_may_have_gold_too() -> None:
    bert = mixlens.load(families.make("bert", "sequence"), tokenizer())
    table = mixlens.evaluate(bert, [Example("a", "w5 w6 w7", gold=("w6",))], ["saliency"], ["mrr"])
    scores = bert.attribute("w5 w6 w7", "saliency").scores
    assert table.values("mrr", "saliency")[0] == 1 / (1 + int((scores > scores[2]).sum()))
