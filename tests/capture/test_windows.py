"""Texts cut into windows: what each holds, that together they hold everything, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mixlens
from mixlens.capture.text import encode
from mixlens.capture.windows import windows_of
from mixlens.errors import InputError, UnknownOption
from models import families
from models.words import tokenizer


def text(n, special=True):
    return encode(" ".join(f"w{5 + i % 80}" for i in range(n)), tokenizer(special))


@given(n=st.integers(1, 40), window=st.integers(3, 20), stride=st.none() | st.integers(1, 20))
def test_every_token_is_in_a_window_as_long_as_the_others(n, window, stride):
    whole, room = text(n), window - 2
    if stride is not None and stride > room:
        with pytest.raises(UnknownOption, match=f"expected stride= of 1 to {room}, so that none is left out"):
            windows_of(whole, window, stride, None)
        return
    parts = windows_of(whole, window, stride, None)
    assert {place for part in parts for place in part.places} == set(range(len(whole)))
    assert {len(part.tokens) for part in parts} == {min(window, len(whole))}
    for part in parts:
        assert part.tokens.ids == tuple(whole.ids[i] for i in part.places)
        assert part.tokens.spans == tuple(whole.spans[i] for i in part.places)
        assert part.tokens.special == (True, *[False] * min(room, n), True)
        assert part.places[1:-1] == tuple(range(part.first, part.last + 1))
        part.tokens.validate()
    begins = [part.first for part in parts]
    steps = [b - a for a, b in pairwise(begins)]
    step = stride or max(1, room // 2)
    assert all(s == step for s in steps[:-1]) and all(0 < s <= step for s in steps[-1:])
    assert (len(parts) == 1) == (n <= room)


def test_a_text_that_fits_is_itself():
    whole = text(5)
    (part,) = windows_of(whole, 7, None, 7)
    assert part.tokens is whole and part.places == tuple(range(7))


def test_of_a_pair_the_second_is_cut_and_the_first_stands_in_every_window():
    whole = encode(("w5 w6", " ".join(f"w{i}" for i in range(10, 20))), tokenizer())
    parts = windows_of(whole, 9, 3, None)
    for part in parts:
        assert part.tokens.pieces[:4] == ("[CLS]", "w5", "w6", "[SEP]") and part.tokens.pieces[-1] == "[SEP]"
        assert part.tokens.inputs["token_type_ids"] == (0,) * 4 + (1,) * 5
        assert part.tokens.text == whole.text
    assert [part.tokens.pieces[4:-1] for part in parts] == [
        tuple(f"w{i}" for i in range(start, start + 4)) for start in (10, 13, 16)
    ]


def test_without_special_tokens_windows_are_the_text_alone():
    parts = windows_of(text(7, special=False), 4, 2, None)
    assert [part.tokens.pieces for part in parts] == [
        tuple(f"w{i}" for i in range(start, start + 4)) for start in (5, 7, 8)
    ]


def test_words_of_the_caller_stay():
    whole = encode(mixlens.Words(["w5", "w6", "w7", "w8"]), tokenizer())
    assert [part.tokens.groups for part in windows_of(whole, 4, 2, None)] == [(None, 0, 1, None), (None, 2, 3, None)]


@pytest.mark.parametrize(
    ("window", "stride", "said"),
    [
        (2, None, r"expected window= of more than 2 tokens, which stand in every window \(the special tokens\), got 2"),
        (41, None, r"expected window= of at most 40 tokens \(the model's positions\), got 41"),
        (
            10,
            9,
            "stride= of 1 to 8, so that none is left out of windows with 8 tokens .* between 2 others, got 9",
        ),
        (10, 0, "expected stride= of 1 to 8, .*, got 0"),
    ],
)
def test_bounds(window, stride, said):
    with pytest.raises(UnknownOption, match=said):
        windows_of(text(30), window, stride, 40)


def test_a_pair_that_leaves_no_room():
    whole = encode(("w5 w6 w7", "w8 w9"), tokenizer())
    with pytest.raises(InputError, match=r"more than 6 tokens, .* \(the special tokens and the first text\), got 6"):
        windows_of(whole, 6, None, None)
    with pytest.raises(InputError, match=r"expected stride= of 1 to 2, .* got 3"):
        windows_of(whole, 8, 3, None)  # of another pair it might be one
    for window, stride in ((3, None), (8, 6)):
        with pytest.raises(UnknownOption):
            windows_of(whole, window, stride, None)  # of none


def test_what_is_no_text():
    with pytest.raises(InputError, match="got token ids, of which nobody knows what frames them; pass the text"):
        windows_of(encode([2, 5, 6, 7, 3], tokenizer()), 4, None, None)
    from dataclasses import replace

    slow = replace(encode(("w5", "w6 w7 w8"), tokenizer()), spans=None)
    with pytest.raises(InputError, match="a fast tokenizer to cut the second text of a pair"):
        windows_of(slow, 5, None, None)
    alone = replace(text(6), spans=None)
    assert [part.tokens.ids for part in windows_of(alone, 5, 3, None)] == [
        (families.CLS, *range(start, start + 3), families.SEP) for start in (5, 8)
    ]
