"""Results: frozen, shown as a reader knows the tokens, rows and layers by number."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch

from mixlens.capture.text import Tokens
from mixlens.errors import InputError, UnknownOption
from mixlens.results import Attribution, LayerMaps
from mixlens.target import Target

GPT2 = Tokens(
    ids=(5, 6, 7, 8, 9, 10, 11),
    pieces=("a", "Ġdeep", "Ġ", "Ċ", "ð", "Ł", "<|end|>"),
    special=(False,) * 6 + (True,),
    text=("a deep \n😀",),
    spans=((0, 0, 1), (0, 2, 6), (0, 7, 7), (0, 8, 8), (0, 8, 9), (0, 8, 9), None),
)
IDS = Tokens(ids=(5, 6), pieces=("Ġdeep", "▁film"), special=(False, False))
SLOW = Tokens(ids=(5, 6, 7), pieces=("<s>", "▁deep", "▁"), special=(True, False, False), text=("deep",))
PAIR = Tokens(
    ids=(2, 5, 3, 6, 3),
    pieces=("[CLS]", "no", "[SEP]", "yes", "[SEP]"),
    special=(True, False, True, False, True),
    text=("no", "yes"),
    spans=(None, (0, 0, 2), None, (1, 0, 3), None),
)


def maps(*shape: int) -> LayerMaps:
    return LayerMaps(GPT2, torch.arange(torch.tensor(shape).prod()).reshape(shape).float(), "attention")


@pytest.mark.parametrize("result", [Attribution(IDS, torch.rand(2), "x"), maps(3, 7, 7)])
def test_results_are_frozen(result):
    for name in ("scores", "method", "source", "new"):
        with pytest.raises(FrozenInstanceError):
            setattr(result, name, 1)


def test_tokens_show_as_the_text_has_them():
    assert Attribution(GPT2, torch.rand(7), "x").display == ("a", "deep", "␣", "↵", "😀", "😀", "<|end|>")
    assert Attribution(IDS, torch.rand(2), "x").display == ("Ġdeep", "▁film")
    assert Attribution(SLOW, torch.rand(3), "x").display == ("<s>", "deep", "␣")


def test_text_tokens_offsets_and_special():
    attr = Attribution(PAIR, torch.rand(5), "x")
    assert attr.text == ("no", "yes")
    assert attr.tokens == PAIR.pieces
    assert attr.offsets == (None, (0, 2), None, (0, 3), None)
    assert attr.special == PAIR.special
    assert Attribution(GPT2, torch.rand(7), "x").text == "a deep \n😀"
    assert Attribution(IDS, torch.rand(2), "x").text is None
    assert Attribution(IDS, torch.rand(2), "x").offsets is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_words_sum_their_pieces(dtype):
    scores = torch.tensor([1, 2, 4, 8, 16, 32, 64], dtype=dtype)
    words = Attribution(GPT2, scores, "x").words()
    assert [(w.text, w.score, w.indices) for w in words] == [
        ("a", 1.0, (0,)),
        ("deep", 2.0, (1,)),
        ("😀", 60.0, (2, 3, 4, 5)),
        ("<|end|>", 64.0, (6,)),
    ]
    assert [w.special for w in words] == [False, False, False, True]
    assert sum(w.score for w in words) == scores.double().sum()


def test_words_of_a_pair_know_their_text():
    words = Attribution(PAIR, torch.rand(5), "x").words()
    assert [(w.text, w.segment, w.start, w.end) for w in words if not w.special] == [("no", 0, 0, 2), ("yes", 1, 0, 3)]


def test_words_need_offsets():
    with pytest.raises(InputError, match="words need offsets into a text"):
        Attribution(IDS, torch.rand(2), "x").words()


def test_rows():
    m = maps(2, 7, 7)
    assert torch.equal(m.row(3), m.scores[:, 3])
    assert torch.equal(m.row(-1), m.scores[:, 6])
    assert torch.equal(m.row("max"), m.scores[:, 6])
    assert maps(2, 3, 7, 7).row(3).shape == (2, 3, 7)


@pytest.mark.parametrize("row", [7, -8, "min", None])
def test_a_row_that_does_not_exist_is_refused(row):
    with pytest.raises((UnknownOption, TypeError)) as caught:
        maps(2, 7, 7).row(row)
    if row is not None:  # None is no int | str, which the shape check says first
        assert "expected a row of -7 to 6 or" in str(caught.value)


def test_heads():
    m = maps(2, 3, 7, 7)
    assert m.heads == 3
    assert torch.equal(m.per_head(1).scores, m.scores[:, 1])
    assert m.per_head(1).options == {"head": 1}
    assert m.per_head(1).heads is None
    with pytest.raises(UnknownOption, match="expected a head of -3 to 2, got 3"):
        m.per_head(3)
    with pytest.raises(UnknownOption, match="per_head=True"):
        maps(2, 7, 7).per_head(0)


def test_layers():
    m = maps(4, 7, 7)
    assert len(m) == 4
    last = m.layer(-1)
    assert isinstance(last, LayerMaps)
    assert torch.equal(last.scores, m.scores[-1:])
    assert torch.equal(m.mean().scores[2], m.scores[:3].mean(0))


def test_representations_are_short():
    attr = Attribution(PAIR, torch.rand(5), "alti", target=Target(label="yes"))
    assert repr(attr) == "Attribution(alti, 5 tokens, target=yes)"
    assert repr(maps(2, 7, 7)) == "LayerMaps(attention, scores (2, 7, 7))"
