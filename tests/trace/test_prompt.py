"""What is asked: texts, ids and chats; documents and where their tokens are; prompt and answer as one text."""

from __future__ import annotations

import pytest
import torch

import mixlens
from mixlens.capture.joined import joined
from mixlens.capture.text import encode
from mixlens.errors import EmptyInput, InputError, TooLong
from mixlens.trace.prompt import read_answer, read_prompt
from models import chats, families, words


def load(template=chats.TEMPLATE):
    return mixlens.load(families.model("llama", "causal", max_position_embeddings=128), chats.tokenizer(template))


@pytest.fixture(scope="module")
def lens():
    return load()


USER = [{"role": "user", "content": "w5 w6"}]


def test_a_text_ids_and_tensors_are_one_prompt(lens):
    text = lens.trace("w5 w6 w7", "w8")
    assert text.prompt.ids == (5, 6, 7) and text.prompt.text == ("w5 w6 w7",)
    for ids in ([5, 6, 7], (5, 6, 7), torch.tensor([5, 6, 7]), range(5, 8)):
        other = lens.trace(ids, [8])
        assert other.prompt.ids == (5, 6, 7)
        assert torch.equal(other.scores, text.scores)


def test_a_chat_is_written_by_its_template(lens):
    chat = [{"role": "system", "content": "w10"}, *USER]
    prompt = lens.trace(chat, "w8").prompt
    assert prompt.pieces == ("[CLS]", "w90", "w10", "[SEP]", "[CLS]", "w91", "w5", "w6", "[SEP]", "[CLS]", "w92")
    assert prompt.roles == (None, None, "system", None, None, None, "user", "user", None, None, None)
    assert prompt.special == tuple(role is None for role in prompt.roles)


def test_a_template_sees_all_that_a_message_says():
    lens = load(chats.TEMPLATE.replace("m['content'] +", "m.get('name', '') + ' ' + m['content'] +", 1))
    chat = [{"role": "user", "content": "w5", "name": "w40"}]
    assert "w40" in lens.trace(chat, "w8").prompt.pieces
    assert "w40" in lens.trace(chat, "w8", documents={"w95": "w20"}).prompt.pieces


def test_a_template_s_own_marks_are_not_doubled():
    """A tokenizer that puts marks around every text puts none around a chat that has its own."""
    own = words.tokenizer(special=True)
    assert own("w5")["input_ids"] == [1, 5, 2]
    tokenizer = chats.tokenizer()
    tokenizer = type(tokenizer)(
        tokenizer_object=own.backend_tokenizer, bos_token="[CLS]", eos_token="[SEP]", pad_token="[PAD]"
    )
    tokenizer.chat_template = chats.TEMPLATE
    lens = mixlens.load(families.model("llama", "causal", max_position_embeddings=128), tokenizer)
    assert lens.trace(USER, "w8").prompt.ids.count(1) == 2  # one a turn
    assert lens.trace(USER, "w8").answer.ids == (8,)  # and an answer has none either


# --- documents ---


def spanned(lens, trace, name):
    first, last = trace.meta["documents"][name]
    return " ".join(trace.prompt.pieces[first:last])


DOCUMENTS = {"w95": "w20 w21 w22", "w96": "w23"}


def test_documents_stand_in_front_of_a_text(lens):
    trace = lens.trace("w5", "w8", documents={"[UNK]": "w20 w21"})
    assert trace.prompt.text == ("[UNK]:\nw20 w21\n\nw5",)
    assert spanned(lens, trace, "[UNK]") == "w20 w21"


@pytest.mark.parametrize("prompt", ["w5 w6", USER, [{"role": "system", "content": "w10"}, *USER]])
def test_the_span_of_a_document_is_its_tokens(lens, prompt):
    trace = lens.trace(prompt, "w8", documents=DOCUMENTS)
    assert {name: spanned(lens, trace, name) for name in DOCUMENTS} == DOCUMENTS
    if isinstance(prompt, list):
        first, last = trace.meta["documents"]["w95"]
        assert set(trace.prompt.roles[first:last]) == {"user"}


def test_documents_stand_where_the_prompt_says(lens):
    trace = lens.trace("w5 {documents} w6 {documents}", "w8", documents=DOCUMENTS)
    assert trace.prompt.text == ("w5 w95:\nw20 w21 w22\n\nw96:\nw23 w6 {documents}",)  # the first place alone
    assert {name: spanned(lens, trace, name) for name in DOCUMENTS} == DOCUMENTS
    chat = [{"role": "user", "content": "w5 {documents} w6"}]
    trace = lens.trace(chat, "w8", documents=DOCUMENTS)
    assert {name: spanned(lens, trace, name) for name in DOCUMENTS} == DOCUMENTS


def test_documents_stand_in_the_last_of_a_user_s_messages(lens):
    chat = [*USER, {"role": "assistant", "content": "w11"}, {"role": "user", "content": "w12"}]
    trace = lens.trace(chat, "w8", documents={"w95": "w20"})
    at = trace.meta["documents"]["w95"][0]
    assert trace.prompt.pieces.index("w11") < at < trace.prompt.pieces.index("w12")
    assert chat[2] == {"role": "user", "content": "w12"}  # the caller's own stay as they are


def test_two_documents_with_one_text_and_one_that_quotes_another(lens):
    same = {"w95": "w20 w21", "w96": "w20 w21"}
    spans = lens.trace("w5", "w8", documents=same).meta["documents"]
    assert spans["w95"][1] <= spans["w96"][0] and spans["w95"] != spans["w96"]
    quoted = {"a": "w20 b:\nw21", "b": "w21"}
    trace = lens.trace("w5", "w8", documents=quoted)
    assert trace.meta["documents"]["a"][1] <= trace.meta["documents"]["b"][0]


def test_a_prompt_that_quotes_a_document_before_its_place(lens):
    trace = lens.trace("a:\nw20 w21 w22 {documents} w5", "w8", documents={"a": "w20"})
    first, last = trace.meta["documents"]["a"]
    assert trace.prompt.pieces[first:last] == ("w20",) and first > 4


def test_a_chat_whose_history_quotes_a_document(lens):
    chat = [
        {"role": "user", "content": "a:\nw20 w30"},
        {"role": "assistant", "content": "w11"},
        {"role": "user", "content": "w12"},
    ]
    trace = lens.trace(chat, "w8", documents={"a": "w20"})
    assert trace.meta["documents"]["a"][0] > trace.prompt.pieces.index("w11")


def test_a_chat_that_holds_its_answer_is_refused(lens):
    chat = [{"role": "user", "content": "w12"}, {"role": "assistant", "content": "w11"}]
    with pytest.raises(InputError, match=r"ends before the answer, .* pass that message's text as answer= to trace it"):
        lens.trace(chat)


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        ({}, "at least one"),
        (["w20"], "expected documents={name: text}"),
        ({"a": ""}, "names and texts that are not empty"),
        ({" ": "w20"}, "names and texts that are not empty"),
        ({"a": None}, "names and texts that are not empty"),
        ({3: "w20"}, "names and texts that are not empty"),
    ],
)
def test_what_is_no_document(lens, documents, says):
    with pytest.raises(InputError, match=says):
        lens.trace("w5", "w8", documents=documents)


def test_documents_go_into_no_ids(lens):
    with pytest.raises(InputError, match="this one is token ids"):
        lens.trace([5, 6], "w8", documents=DOCUMENTS)


def test_documents_need_a_user(lens):
    with pytest.raises(InputError, match="a user's message to put the documents in"):
        lens.trace([{"role": "system", "content": "w5"}], "w8", documents=DOCUMENTS)


def test_a_template_that_changes_a_document_is_refused():
    lens = load(chats.TEMPLATE.replace("m['content'] + ' [SEP]", "m['content'] | replace('w21', 'w30') + ' [SEP]"))
    with pytest.raises(InputError, match="the chat template changed the text of document 'w95'"):
        lens.trace(USER, "w8", documents=DOCUMENTS)


def test_a_template_that_trims_the_end_leaves_documents_alone():
    lens = load(chats.TEMPLATE.replace("m['content'] + ' [SEP]", "m['content'] | trim + ' [SEP]"))
    trace = lens.trace([{"role": "user", "content": "w5 {documents}  "}], "w8", documents={"w95": "  w20 w21\n"})
    assert spanned(lens, trace, "w95") == "w20 w21"


# --- prompt and answer as one ---


def test_joined_spans_say_the_text(lens):
    prompt = read_prompt(lens.subject, "w5 w6 ").tokens
    answer = read_answer(lens.subject, "w7  w8")
    whole = joined(prompt, answer)
    assert whole.ids == (5, 6, 7, 8) and whole.text == ("w5 w6 w7  w8",)
    assert [whole.text[0][start:end] for _, start, end in whole.spans] == ["w5", "w6", "w7", "w8"]


def test_joined_roles_are_the_assistant_s(lens):
    prompt = read_prompt(lens.subject, USER).tokens
    whole = joined(prompt, read_answer(lens.subject, "w7 w8"))
    assert whole.roles == (*prompt.roles, "assistant", "assistant")
    assert len(whole) == len(prompt) + 2 == len(whole.spans)


def test_joined_ids_have_no_text(lens):
    whole = joined(read_prompt(lens.subject, [5, 6]).tokens, read_answer(lens.subject, "w7"))
    assert (whole.ids, whole.text, whole.spans) == ((5, 6, 7), (), None)


def test_an_answer_given_as_text_or_ids_is_one(lens):
    text = lens.trace(USER, "w8 w9")
    for ids in ([8, 9], torch.tensor([8, 9])):
        assert torch.equal(lens.trace(USER, ids).scores, text.scores)


# --- refused ---


@pytest.mark.parametrize("answer", ["", [], (), torch.tensor([], dtype=torch.int64), "   "])
def test_an_empty_answer(lens, answer):
    with pytest.raises(EmptyInput, match="at least one token"):
        lens.trace("w5", answer)


@pytest.mark.parametrize("answer", [3, {"a": 1}, ["w5"], [5.0], [True]])
def test_what_is_no_answer(lens, answer):
    with pytest.raises(InputError, match="expected an answer as a str or token ids"):
        lens.trace("w5", answer)


@pytest.mark.parametrize("prompt", ["", " \n", []])
def test_an_empty_prompt(lens, prompt):
    with pytest.raises(EmptyInput):
        lens.trace(prompt, "w8")


@pytest.mark.parametrize("prompt", [3, None, {"role": "user"}, ["w5", 6]])
def test_what_is_no_prompt(lens, prompt):
    with pytest.raises(InputError, match="expected a prompt as a str, token ids, or chat messages"):
        lens.trace(prompt, "w8")


@pytest.mark.parametrize(
    "message",
    [{"role": "user"}, {"content": "w5"}, {"role": "user", "content": [{"type": "text", "text": "w5"}]}, "w5", None],
)
def test_what_is_no_message(lens, message):
    with pytest.raises(InputError, match="expected chat messages as"):
        lens.trace([*USER, message], "w8")


def test_an_unknown_role_is_what_the_template_says(lens):
    with pytest.raises(InputError, match=r"refuses these messages: TemplateError: no role tool; check the roles"):
        lens.trace([{"role": "tool", "content": "w5"}], "w8")


@pytest.mark.parametrize("tokenizer", [chats.tokenizer(None), None])
def test_messages_need_a_chat_template(tokenizer):
    lens = mixlens.load(families.model("llama", "causal"), tokenizer)
    with pytest.raises(InputError, match="a tokenizer with a chat template"):
        lens.trace(USER, [8])


@pytest.mark.parametrize(
    ("name", "head"), [("bert", "masked"), ("bert", "sequence"), ("llama", "sequence"), ("llama", "base")]
)
def test_models_without_answers(name, head):
    with pytest.raises(InputError, match=r"expected a causal language model .* lens\.attribute"):
        families.lens(name, head).trace([5, 6], [7])


def test_too_long(lens):
    assert len(lens.trace([5] * 100, [6] * 28)) == 28
    with pytest.raises(TooLong, match=r"at most 128 tokens .* got 100 and 29; shorten the prompt"):
        lens.trace([5] * 100, [6] * 29)
    with pytest.raises(TooLong):
        lens.trace([5] * 130, [6])


def test_ids_out_of_the_vocabulary(lens):
    for prompt, answer in (([5, 97], [6]), ([5], [97]), ([5], [-1])):
        with pytest.raises(InputError):
            lens.trace(prompt, answer)
    with pytest.raises(InputError):
        lens.trace([5], [6], foil=[97])


def test_unknown_words_are_encoded_as_the_tokenizer_does(lens):
    assert lens.trace("w5 nothing", "w8").prompt.ids == encode("w5 nothing", lens.tokenizer, None, pad=0).ids
