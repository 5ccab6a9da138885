"""Tokens to words, for every kind of tokenizer, trained here on a few sentences."""

from __future__ import annotations

import unicodedata
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from mixlens.capture.given import Words
from mixlens.capture.text import Tokens, encode
from mixlens.capture.words import units
from mixlens.errors import EmptyInput, InputError

# Signs apart, so that none is unknown and none becomes one token with its neighbour.
SIGNS = " ".join("abcdefghijklmnopqrstuvwxyzBDNY0123456789'-_,.!éïcafe\u0301你好コーヒ😀👩💻\u200d")
CORPUS = ["a deep and meaningful film.", "the café was naïve cafe", "big fat waste of time", "New York", SIGNS] * 3
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def wrapped(tokenizer: Tokenizer, sep: bool = True) -> PreTrainedTokenizerFast:
    if sep:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


@cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    more = {"special_tokens": SPECIAL, "show_progress": False}
    if kind == "wordpiece":
        t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer()
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=400, **more))
        return wrapped(t)
    if kind == "unigram":
        t = Tokenizer(models.Unigram())
        t.pre_tokenizer = pre_tokenizers.Metaspace()
        t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=150, unk_token="[UNK]", **more))
        return wrapped(t)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=kind == "bpe with prefix")
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, **more))
    t.post_processor = processors.ByteLevel(trim_offsets=kind == "bpe with prefix")
    return wrapped(t, sep=False)


KINDS = ("wordpiece", "bpe", "bpe with prefix", "unigram")


def words(data, kind: str) -> list[str]:
    return [u.text for u in units(encode(data, tokenizer(kind))) if not u.special]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a meaningful film.", "a|meaningful|film|."),
        ("a  film \n\n film ", "a|film|film"),
        ("café, naïve", "café|,|naïve"),
        ("cafe\u0301 deep", "cafe\u0301|deep"),
        ("a 😀 film", "a|😀|film"),
        ("a 👩\u200d💻 film", "a|👩\u200d💻|film"),
        ("你好, film你", "你|好|,|film|你"),
        ("don't well-known", "don't|well|-|known"),
        ("3rd 1,000 3.14 B2B a_b", "3rd|1,000|3.14|B2B|a_b"),
    ],
)
def test_words_are_those_of_the_text(kind, text, expected):
    assert words(text, kind) == expected.split("|")


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_stand_alone(kind):
    tokens = encode("deep film", tokenizer(kind))
    alone = [u for u in units(tokens) if u.special]
    assert [u.indices for u in alone] == [(i,) for i, s in enumerate(tokens.special) if s]
    assert all((u.start, u.end, u.segment) == (None, None, None) for u in alone)


@pytest.mark.parametrize("kind", KINDS)
def test_the_texts_of_a_pair_stay_apart(kind):
    found = [u for u in units(encode(("a film", "film of time"), tokenizer(kind))) if not u.special]
    assert [(u.text, u.segment) for u in found] == [("a", 0), ("film", 0), ("film", 1), ("of", 1), ("time", 1)]


@pytest.mark.parametrize("kind", ["wordpiece", "bpe with prefix", "unigram"])
def test_given_words_are_kept(kind):
    assert words(Words(["deep", "New York", "don't", "你好"]), kind) == ["deep", "New York", "don't", "你好"]


def test_signs_that_are_written_without_blanks_are_words_each():
    assert words("iPhoneコーヒー中文x", "bpe") == ["iPhone", "コー", "ヒー", "中", "文", "x"]


@pytest.mark.parametrize("text", ["한국어 영화", "이 영화가 좋다", "x각 한글"])
def test_a_syllable_that_the_tokenizer_puts_together_is_whole(text):
    """Decomposed Hangul and a tokenizer that composes it: the syllable's later jamo are letters, no marks."""
    apart = unicodedata.normalize("NFD", text)
    composing = Tokenizer(models.BPE(unk_token="[UNK]"))
    composing.normalizer = normalizers.NFKC()
    composing.pre_tokenizer = pre_tokenizers.Whitespace()
    composing.train_from_iterator([text], trainers.BpeTrainer(special_tokens=SPECIAL, show_progress=False))
    found = [u for u in units(encode(apart, wrapped(composing))) if not u.special]
    assert [u.text for u in found] == apart.split()


def test_an_emoji_split_over_byte_tokens_is_one_word():
    tokens = encode("a 🦊!", tokenizer("bpe"))
    emoji = next(u for u in units(tokens) if u.text == "🦊")
    assert len(emoji.indices) > 1
    assert (emoji.start, emoji.end) == (2, 3)


def test_a_token_of_two_words_makes_them_one():
    spans = (None, (0, 0, 4), (0, 4, 10), (0, 11, 15), None)  # an unknown run over "-" and "known"
    tokens = Tokens(
        (2, 5, 1, 6, 3),
        ("[CLS]", "well", "[UNK]", "film", "[SEP]"),
        (True, False, False, False, True),
        ("well-known film",),
        spans,
    )
    assert [u.text for u in units(tokens)] == ["[CLS]", "well", "-known", "film", "[SEP]"]


def test_ids_have_no_words():
    with pytest.raises(InputError, match="words need offsets into a text"):
        units(Tokens((5,), ("a",), (False,)))


TEXT = st.text(
    st.sampled_from("aé 你😀\u200d👩'\u2019.,3_-\n\tĠ▁ß\u0301รก") | st.characters(exclude_categories=["Cs"]),
    max_size=24,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(text=TEXT)
@example(text="\x08\U00011435")  # a mark behind a control character is a word of its own, not its accent
def test_words_are_ordered_apart_and_rejoin_to_the_text(kind, text):
    try:
        tokens = encode(text, tokenizer(kind))
    except (EmptyInput, InputError):
        return
    found = units(tokens)
    assert [i for u in found for i in u.indices] == list(range(len(tokens)))
    at, rejoined = 0, ""
    for unit in found:
        if unit.special:
            continue
        assert unit.text, "a word without a character"
        assert at <= unit.start <= unit.end
        assert unit.text == text[unit.start : unit.end]
        rejoined += text[at : unit.start] + unit.text
        at = unit.end
    assert rejoined + text[at:] == text
    for span in filter(None, tokens.spans):
        assert text[span[1] : span[2]] == text[span[1] : span[2]].strip()
