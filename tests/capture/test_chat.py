"""Chats taken apart by their tokenizer's own template, whichever it is."""

from __future__ import annotations

from functools import cache

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import mixlens
from mixlens.capture.chat import roles
from mixlens.capture.text import Tokens, encode
from mixlens.capture.words import units
from mixlens.errors import EmptyInput
from models import families

CHATML = (
    "{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '<|im_start|>system\nYou are an assistant."
    "<|im_end|>\n' }}{% endif %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + "
    "m['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' + m['content'] + "
    "'<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% elif m['role'] == 'system' %}{{ raise_exception('roles must alternate') }}{% else %}{{ ' ' + m['content'] + "
    "eos_token }}{% endif %}{% endfor %}"
)
TEMPLATES = {"chatml": CHATML, "llama": LLAMA, "gemma": GEMMA, "mistral": MISTRAL}
MARKS = (
    "<s> </s> <|im_start|> <|im_end|> <|start_header_id|> <|end_header_id|> <|eot_id|> <start_of_turn> <end_of_turn>"
).split()


@cache
def tokenizer(name: str | None) -> PreTrainedTokenizerFast:
    """Bytes one by one; the marks are tokens of their own."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE({sign: i for i, sign in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    out = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", additional_special_tokens=MARKS[2:]
    )
    out.chat_template = None if name is None else TEMPLATES[name]
    return out


CHATS = [
    [("user", "What is it?")],
    [("user", "Hi"), ("assistant", "Hello, you."), ("user", "Sum up:\n\nit rained")],
    [("user", "Hi"), ("assistant", "<b>Hello</b>")],
    [("system", "Be brief."), ("user", "Hi")],
    [("system", "Be brief."), ("user", "user"), ("assistant", "assistant"), ("user", "system")],
]


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_contents_are_whose_they_are_and_the_rest_is_the_template_s(name, chat, prompt):
    if chat[0][0] == "system" and name in ("gemma", "mistral"):
        pytest.skip("this template takes no system message")
    given = [{"role": role, "content": content} for role, content in chat]
    text = tokenizer(name).apply_chat_template(given, tokenize=False, add_generation_prompt=prompt)
    found = roles(text, tokenizer(name))
    assert found is not None and len(found) == len(text)
    turns, last = [], None
    for sign, role in zip(text, found, strict=True):
        if role is not None:
            turns.append((role, sign)) if last is None else turns.append((role, turns.pop()[1] + sign))
        last = role
    assert turns == chat


@pytest.mark.parametrize("text", ["", "plain words", "What of <|im_start|> in a text?", "[INST]x"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_text_that_is_no_chat_has_no_roles(name, text):
    assert roles(text, tokenizer(name)) is None


def test_a_tokenizer_without_a_template_has_no_roles():
    text = tokenizer("chatml").apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert roles(text, tokenizer(None)) is None
    assert roles(text, None) is None


def test_a_chat_that_is_cut_keeps_what_is_there():
    text = tokenizer("chatml").apply_chat_template([{"role": "user", "content": "Hi there"}], tokenize=False)
    cut = text[: text.index("there")]
    assert roles(cut, tokenizer("chatml"))[-3:] == ["user"] * 3


@pytest.mark.parametrize("form", ["{{ 1 / 0 }}", "{{ messages[0]['content'] }}", "always the same", "{% if %}"])
def test_templates_that_tell_nothing(form):
    broken = tokenizer(None)
    made = PreTrainedTokenizerFast(tokenizer_object=broken.backend_tokenizer)
    made.chat_template = form
    assert roles("always the same", made) is None


def content(tokens: Tokens, role: str) -> str:
    """What the tokens of a role spell: one byte a token."""
    signs = "".join(p for p, r in zip(tokens.pieces, tokens.roles, strict=True) if r == role)
    return signs.replace("\u0120", " ").replace("\u010a", "\n")


@pytest.mark.parametrize("name", TEMPLATES)
def test_tokens_of_a_chat_know_their_turn_as_text_and_as_ids(name):
    given = [{"role": "user", "content": "Hi you"}, {"role": "assistant", "content": "Hello\n\nyou"}]
    how = {"add_generation_prompt": False}
    text = tokenizer(name).apply_chat_template(given, tokenize=False, **how)
    ids = tokenizer(name).apply_chat_template(given, tokenize=True, return_dict=False, **how)
    for tokens in (encode(text, tokenizer(name)), encode(list(ids), tokenizer(name))):
        assert tokens.ids == tuple(ids)
        assert (content(tokens, "user"), content(tokens, "assistant")) == ("Hi you", "Hello\n\nyou")
        assert tokens.special == tuple(role is None for role in tokens.roles)
    words = [u.text for u in units(encode(text, tokenizer(name))) if not u.special]
    assert words == ["Hi", "you", "Hello", "you"]


def test_special_tokens_in_a_text_are_no_words():
    found = units(encode("one<|im_end|>two", tokenizer(None)))
    assert [(u.text, u.special) for u in found] == [("one", False), ("<|im_end|>", True), ("two", False)]
    assert encode("one<|im_end|>two", tokenizer(None)).roles is None


def test_a_chat_without_content_is_empty():
    text = tokenizer("chatml").apply_chat_template([{"role": "user", "content": ""}], tokenize=False)
    with pytest.raises(EmptyInput):
        encode(text, tokenizer("chatml"))


def test_results_keep_the_roles(tmp_path):
    text = tokenizer("chatml").apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    sizes = {"vocab_size": len(tokenizer("chatml")), "max_position_embeddings": 64}
    lens = mixlens.load(families.make("llama", "causal", **sizes), tokenizer("chatml"))
    attr = lens.attribute(text, "attention_rollout")
    attr.save(tmp_path / "chat")
    assert mixlens.read(tmp_path / "chat").source == attr.source
    assert [w.text for w in attr.words() if not w.special] == ["Hi"]
    assert set(attr.source.roles) == {None, "user"}
