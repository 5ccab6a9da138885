"""What may come in as a text, and what is refused with a reason."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BatchEncoding, PreTrainedTokenizerFast

from mixlens.capture.given import Words, as_list
from mixlens.capture.text import encode
from mixlens.errors import EmptyInput, InputError, TooLong

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "deep", "film", "mean", "##ing", "##ful", ".", "waste"]


def build() -> PreTrainedTokenizerFast:
    t = Tokenizer(models.WordPiece({w: i for i, w in enumerate(VOCAB)}, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=t, mask_token="[MASK]", **names)


TOKENIZER = build()
IDS = [2, 6, 7, 3]


@pytest.mark.parametrize(
    ("data", "items", "single"),
    [
        ("a film", ["a film"], True),
        (("a film", "waste"), [("a film", "waste")], True),
        (Words(["a", "film"]), [Words(["a", "film"])], True),
        (IDS, [IDS], True),
        (tuple(IDS), [IDS], True),
        ([np.int64(2), np.int32(6)], [[2, 6]], True),
        (torch.tensor(IDS), [IDS], True),
        (np.array(IDS), [IDS], True),
        (["a film"], ["a film"], False),
        (["a film", "waste"], ["a film", "waste"], False),
        ([("a film", "waste"), "a film"], [("a film", "waste"), "a film"], False),
        ([Words(["a"]), [2, 6]], [Words(["a"]), [2, 6]], False),
        (("a", "film", "waste"), ["a", "film", "waste"], False),
        ([IDS, [2, 3]], [IDS, [2, 3]], False),
        (torch.tensor([IDS, IDS]), [IDS, IDS], False),
        ({"input_ids": IDS}, [{"input_ids": IDS}], True),
        ({"input_ids": torch.tensor([IDS])}, [{"input_ids": IDS}], True),
        ([{"input_ids": IDS}, "a film"], [{"input_ids": IDS}, "a film"], False),
    ],
)
def test_what_counts_as_one_text_and_what_as_many(data, items, single):
    assert as_list(data) == (items, single)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "got an empty list"),
        (5, "got int"),
        (None, "got NoneType"),
        (b"film", "got bytes"),
        ([True, False], "got bool"),
        (["a", ["deep", "film"]], "got a list in it"),
        ([[["a"]]], "got a list in it"),
        ([("a", "deep", "film")], "a pair is a tuple of two str"),
        ({"attention_mask": [1]}, "a mapping with 'input_ids'"),
        ({"input_ids": None}, "a mapping with 'input_ids'"),
        ({"input_ids": IDS, "inputs_embeds": 1}, r"got also \['inputs_embeds'\]"),
        ({"input_ids": IDS, "attention_mask": [1]}, r"'attention_mask' as long as 'input_ids' \(\[4\]\), got \[1\]"),
        ({"input_ids": [IDS, IDS], "token_type_ids": [[0] * 4]}, "'token_type_ids' as long as"),
        ({"input_ids": IDS, "attention_mask": [1, 0, 1, 1]}, "padding at one side only"),
        ({"input_ids": [[IDS]]}, "got more"),
        ({"input_ids": 3}, "got int"),
    ],
)
def test_what_is_no_text_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        for text in as_list(data)[0]:
            if isinstance(text, InputError):
                raise text


PADDED = {
    "right": {"input_ids": [[2, 6, 3, 0, 0], [2, 6, 7, 11, 3]], "attention_mask": [[1, 1, 1, 0, 0], [1] * 5]},
    "left": {"input_ids": [[0, 0, 2, 6, 3], [2, 6, 7, 11, 3]], "attention_mask": [[0, 0, 1, 1, 1], [1] * 5]},
}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("wrap", [dict, lambda d: {k: torch.tensor(v) for k, v in d.items()}, BatchEncoding])
def test_padding_is_taken_off(side, wrap):
    data = {**PADDED[side], "token_type_ids": [[5, 5, 0, 1, 1], [0] * 5], "special_tokens_mask": [[0] * 5] * 2}
    if side == "right":
        data["token_type_ids"][0] = [0, 1, 1, 5, 5]
    rows, single = as_list(wrap(data))
    assert not single
    found = [encode(row, TOKENIZER) for row in rows]
    assert [t.ids for t in found] == [(2, 6, 3), (2, 6, 7, 11, 3)]
    assert found[0].inputs == {"token_type_ids": (0, 1, 1)}
    assert found[0].special == (True, False, True)
    assert found[0].pieces == ("[CLS]", "deep", "[SEP]")
    assert (found[0].text, found[0].spans) == ((), None)


def test_only_padding_is_refused():
    for data in ({"input_ids": [0, 0], "attention_mask": [0, 0]}, {"input_ids": [0, 0]}, {"input_ids": []}):
        with pytest.raises(EmptyInput):
            encode(as_list(data)[0][0], TOKENIZER)


def test_ids_without_a_tokenizer():
    tokens = encode(IDS, None)
    assert tokens.pieces == ("2", "6", "7", "3")
    assert not any(tokens.special)


@pytest.mark.parametrize(
    ("ids", "message"), [([-1, 2], "of 0 or more, got -1"), ([1.5], "whole numbers"), (["a"], "whole numbers")]
)
def test_bad_ids_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        encode({"input_ids": ids}, TOKENIZER)


def test_a_mask_and_an_unknown_token_are_part_of_the_text():
    assert encode([2, 4, 1, 3], TOKENIZER).special == (True, False, False, True)


def test_offsets_slice_to_the_right_characters():
    text = "  A deep,  meaningful film. "
    tokens = encode(text, TOKENIZER)
    seen = [None if s is None else text[s[1] : s[2]] for s in tokens.spans]
    assert seen == [None, "A", "deep", ",", "mean", "ing", "ful", "film", ".", None]
    assert tokens.special == (True, *[False] * 8, True)
    assert tokens.text == (text,)


def test_a_pair_has_offsets_in_each_text():
    tokens = encode(("a film", "waste. film"), TOKENIZER)
    texts = [None if s is None else tokens.text[s[0]][s[1] : s[2]] for s in tokens.spans]
    assert texts == [None, "a", "film", None, "waste", ".", "film", None]


def test_words_have_offsets_in_the_joined_text():
    tokens = encode(Words(["deep", "meaningful", "film."]), TOKENIZER)
    assert tokens.text == ("deep meaningful film.",)
    seen = [None if s is None else tokens.text[0][s[1] : s[2]] for s in tokens.spans]
    assert seen == [None, "deep", "mean", "ing", "ful", "film", ".", None]
    assert tokens.groups == (None, 0, 1, 1, 1, 2, 2, None)


@pytest.mark.parametrize("data", ["", "  \n ", ("a", ""), ("", "a"), Words([]), Words(["a", " "]), "\x00"])
def test_nothing_to_explain_is_refused(data):
    with pytest.raises(EmptyInput):
        encode(data, TOKENIZER)


@pytest.mark.parametrize(
    ("data", "which"),
    [(("a", ""), "as the second"), ((" ", "a"), "as the first"), (("a", "\x00"), "in the second")],
)
def test_the_empty_text_of_a_pair_is_named(data, which):
    with pytest.raises(EmptyInput, match=f"{which} of the pair"):
        encode(data, TOKENIZER)
    with pytest.raises(EmptyInput) as caught:
        encode("\x00", TOKENIZER)
    assert "pair" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "kind"), [("good", "str"), ("", "str"), (b"good", "bytes"), (5, "int"), (None, "None")]
)
def test_words_are_no_letters(data, kind):
    with pytest.raises(InputError, match=f"expected a list of words, got {kind}.*; split it"):
        Words(data)
    assert Words(w for w in ("good", "film")) == copy.copy(Words(["good", "film"])) == ("good", "film")


def test_a_text_of_unknown_tokens_only_is_refused():
    with pytest.raises(InputError, match=r"all 2 tokens are \[UNK\]; is it the tokenizer of this model"):
        encode("zebra xylophone", TOKENIZER)


def test_half_a_surrogate_pair_is_refused():
    with pytest.raises(InputError, match="half of a surrogate pair"):
        encode("film \ud83d", TOKENIZER)


def test_a_text_needs_a_tokenizer():
    with pytest.raises(InputError, match="a text needs a tokenizer"):
        encode("film", None)


def test_a_long_text_is_refused_and_cut_only_when_asked():
    text = "deep " * 9
    with pytest.raises(TooLong, match=r"at most 6 tokens .* got 11; .*truncate=True"):
        encode(text, TOKENIZER, limit=6)
    cut = encode(text, TOKENIZER, limit=6, truncate=True)
    assert cut.ids == (2, 6, 6, 6, 6, 3)
    assert cut.dropped == 5
    assert encode("deep", TOKENIZER, limit=6, truncate=True).dropped == 0


def test_ids_are_never_cut():
    with pytest.raises(InputError, match="token ids are never cut"):
        encode([2, *[6] * 9, 3], TOKENIZER, limit=6, truncate=True)
    with pytest.raises(TooLong):
        encode([2, *[6] * 9, 3], TOKENIZER, limit=6)


def test_a_blank_that_the_tokenizer_adds_stands_for_no_character():
    t = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁", -1.0), ("f", -1.0), ("▁f", -1.5), ("x", -1.0)], unk_id=0))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    tokens = encode("x f", PreTrainedTokenizerFast(tokenizer_object=t, unk_token="<unk>"))
    assert tokens.pieces == ("▁", "x", "▁f")
    assert tokens.spans == ((0, 0, 0), (0, 0, 1), (0, 2, 3))


# --- what is no text yet ---


MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "w11 w12"}]


@pytest.mark.parametrize(
    "chat",
    [MESSAGES, MESSAGES[0], [MESSAGES, MESSAGES], {"messages": MESSAGES}, [{"messages": MESSAGES}]],
    ids=["messages", "one message", "chats", "mapping", "mappings"],
)
def test_chat_messages_need_their_template(chat):
    says = r"got chat messages .*tokenizer.apply_chat_template\(messages, tokenize=True, add_generation_prompt=True\)"
    with pytest.raises(InputError, match=says):
        as_list(chat)
