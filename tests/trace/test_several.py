"""Several prompts in one call: the numbers of each alone, and which of them is wrong."""

from __future__ import annotations

import pytest
import torch

import mixlens
from mixlens.errors import EmptyInput, InputError, TooLong, Undefined, UnknownMethod, UnknownOption
from mixlens.results import Results
from models import chats, families

PROMPTS = ["w5 w6 w7", "w8 w9", "w10 w11 w12 w13"]
ANSWERS = ["w9 w10", [7], None]
USER = [{"role": "user", "content": "w5 w6"}]


@pytest.fixture(scope="module")
def lens():
    return mixlens.load(families.make("llama", "causal", max_position_embeddings=64), chats.tokenizer())


def same(one, other):
    assert one.prompt.ids == other.prompt.ids and one.answer.ids == other.answer.ids
    assert torch.equal(one.scores, other.scores) and one.said == other.said


@pytest.mark.parametrize("method", ["head_logit", "saliency", "alti"])
def test_each_has_the_numbers_that_it_has_alone(lens, method):
    found = lens.trace(PROMPTS, ANSWERS, method, max_new_tokens=3)
    assert isinstance(found, Results) and len(found) == 3
    for trace, prompt, answer in zip(found, PROMPTS, ANSWERS, strict=True):
        same(trace, lens.trace(prompt, answer, method, max_new_tokens=3))


def test_ids_chats_tensors_and_a_tokenizer_s_output_are_prompts(lens):
    ids = [[5, 6, 7], [8, 9]]
    expected = [lens.trace(one, "w9") for one in ids]
    padded = {"input_ids": torch.tensor([[5, 6, 7], [0, 8, 9]]), "attention_mask": torch.tensor([[1, 1, 1], [0, 1, 1]])}
    for prompts in (ids, tuple(ids), [torch.tensor(one) for one in ids], padded):
        for trace, one in zip(lens.trace(prompts, "w9"), expected, strict=True):
            same(trace, one)
    chat, text = lens.trace([USER, "w5 w6"], "w9")
    same(chat, lens.trace(USER, "w9"))
    same(text, lens.trace("w5 w6", "w9"))


@pytest.mark.parametrize("rows", [torch.tensor([[5, 6, 7]]), {"input_ids": torch.tensor([[5, 6, 7]])}])
def test_one_row_is_one_prompt_and_one_answer(lens, rows):
    same(lens.trace(rows, "w9"), lens.trace([5, 6, 7], "w9"))
    same(lens.trace("w9", rows), lens.trace("w9", [5, 6, 7]))
    same(lens.trace("w9", "w5 w6 w8", foil=rows), lens.trace("w9", "w5 w6 w8", foil=[5, 6, 7]))


def test_one_foil_and_documents_for_all_or_one_each(lens):
    documents = {"a": "w5 w6.", "b": "w7."}
    all_, each = (
        lens.trace(PROMPTS, "w9 w10", foil=foil, documents=given)
        for foil, given in (("w12", documents), (["w12", [12], "w12"], [documents] * 3))
    )
    for one, other in zip(all_, each, strict=True):
        same(one, other)
        assert one.meta["documents"] and one.foil == "w12"
    assert "documents" not in lens.trace(PROMPTS, "w9", documents=[documents, None, None])[1].meta


def test_progress_is_told_of_prompts(lens):
    heard = []
    lens.trace(PROMPTS, "w9", progress=lambda done, count: heard.append((done, count)))
    assert heard == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("prompts", "how", "error", "says"),
    [
        (["w5", ""], {}, EmptyInput, "text 1: expected a prompt with at least one token"),
        ([[5], [5] * 70], {"answer": "w9"}, TooLong, "text 1: expected at most 64 tokens"),
        (PROMPTS, {"answer": ["w9", "", "w9"]}, EmptyInput, "text 1: expected an answer of at least one token"),
        (PROMPTS, {"answer": ["w9", "w9"]}, InputError, "expected one answer, or one for each of 3 prompts, got 2"),
        (PROMPTS, {"answer": []}, EmptyInput, "expected one answer, or one for each of 3 prompts, got none"),
        (PROMPTS, {"answer": "w9", "foil": ["w8", "w9", "w7"]}, InputError, "text 1: expected a foil other than the"),
        (PROMPTS, {"answer": "w9", "documents": [{}]}, InputError, "expected one documents, or one for each of 3"),
        ([["w5", "w6"], "w7"], {"answer": "w9"}, InputError, "text 0: expected prompts in a list, each a str"),
        ([[5, 6], [1.5]], {"answer": "w9"}, InputError, "text 1: expected a prompt as a str, token ids"),
        ({"input_ids": [[5, 6]], "position_ids": [[3, 4]]}, {"answer": "w9"}, InputError, "got also position_ids"),
        (PROMPTS, {"method": "altj"}, UnknownMethod, "^no method 'altj'|no attribution method 'altj'"),
        (PROMPTS, {"beans": 1}, UnknownOption, "^path_logit would ignore the option 'beans'"),
        (PROMPTS, {"answer": "w9", "method": "context_cite"}, Undefined, "text 0: expected more than one sentence"),
        (PROMPTS, {"errors": "ignore"}, UnknownOption, "expected errors= 'raise' or 'skip'"),
    ],
)
def test_the_one_that_is_wrong_has_its_number(lens, prompts, how, error, says):
    with pytest.raises(error, match=says):
        lens.trace(prompts, **how)


def test_the_one_that_is_wrong_may_be_skipped(lens):
    with pytest.warns(UserWarning, match=r"1 of 3 texts are skipped, .* \(1\)"):
        found = lens.trace(["w5", "", "w6"], "w9", errors="skip")
    assert found[1] is None and "EmptyInput" in found.skipped[1]
    same(found[2], lens.trace("w6", "w9"))
