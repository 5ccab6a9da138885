"""A `Similarity`: words, pairs, files, pages, and what is refused."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from torch import nn

import mixlens
from mixlens.errors import (
    EmptyInput,
    InputError,
    ModelError,
    NotFinite,
    ResultFileError,
    Undefined,
    UnknownMethod,
    UnknownOption,
)
from mixlens.results import Similarity
from models import families
from pages import data


@pytest.fixture(scope="module")
def encoder() -> mixlens.Lens:
    return mixlens.load("mixlens:minilm")


@pytest.fixture(scope="module")
def alike(encoder: mixlens.Lens) -> Similarity:
    return encoder.similarity("a fast car by the river", "the <b>quick</b> automobile", "token_products")


def test_words_have_the_sums_of_their_tokens(alike):
    first, second, shares = alike.words()
    assert [u.text for u in first if not u.special] == ["a", "fast", "car", "by", "the", "river"]
    assert tuple(shares.shape) == (len(first), len(second))
    assert float(shares.sum()) == pytest.approx(alike.value, abs=1e-5)
    assert [(p.first.text, p.second.text) for p in alike.top(1)] == [("car", "automobile")]


@pytest.mark.parametrize("k", [0, -1, 1.5, "a", True])
def test_a_number_of_pairs_is_1_or_more(alike, k):
    with pytest.raises(UnknownOption, match="expected k of 1 or more, how many pairs, got "):
        alike.top(k)


def test_a_file_gives_back_every_number(alike, tmp_path):
    again = mixlens.read(alike.save(tmp_path / "alike"))
    assert isinstance(again, Similarity) and again.value == alike.value and again.streams == alike.streams
    for name in ("scores", "first_scores", "second_scores"):
        assert torch.equal(getattr(again, name), getattr(alike, name))
    assert json.dumps(again.to_dict(), sort_keys=True) == json.dumps(alike.to_dict(), sort_keys=True)


def test_numbers_of_other_lengths_are_refused(alike):
    with pytest.raises(InputError, match=r"expected scores \(8, 12\)"):
        Similarity(
            source=alike.source, into=alike.into, scores=alike.scores.T, method="alti",
            first_scores=alike.first_scores, second_scores=alike.second_scores,
        )  # fmt: skip
    with pytest.raises(TypeError, match="two streams"):
        Similarity(source=alike.source, scores=alike.scores, method="alti")


def test_a_damaged_file_is_said_to_be_one(alike, tmp_path):
    path = alike.save(tmp_path / "alike")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ResultFileError, match="damaged"):
        mixlens.read(path)


def test_tables_hold_every_pair(alike):
    frame = alike.to_frame()
    assert list(frame.columns) == ["first", "second", "first_token", "second_token", "score"]
    assert len(frame) == alike.scores.numel() == len(alike.to_csv().splitlines()) - 1
    assert frame.score.sum() == pytest.approx(alike.value, abs=1e-5)


def test_pages_show_both_texts_and_text_stays_text(alike, tmp_path):
    for page in (alike.to_html(), alike._repr_html_()):
        assert "automobile" in page and "river" in page and "<b>quick" not in page
    assert str(alike).splitlines()[0].startswith("token_products · cosine 0.")
    assert "the pairs sum to the cosine" in str(alike)
    figure = alike.plot(tmp_path / "pairs.png")
    assert (tmp_path / "pairs.png").stat().st_size > 1000
    assert figure.get_suptitle().startswith("token_products · cosine 0.") and figure.axes[0].get_title() == ""
    assert figure.get_suptitle().endswith("row: a token of the first, column: a token of the second")  # of no layer


def test_ids_have_no_words_and_are_shown_by_token():
    lens = families.lens("bert")
    alike = lens.similarity(families.text(5), families.text(6), "token_products", pooling="mean")
    with pytest.raises(InputError, match="words need offsets"):
        alike.top()
    assert "share" in str(alike) and alike.to_html().count("<td") > 5


def test_one_text_against_several(encoder):
    texts = ["a quick automobile", "", "the stock market fell"]
    with pytest.warns(UserWarning, match="1 of 3 texts are skipped"):
        results = encoder.similarity("a fast car", texts, "token_products", errors="skip")
    assert results[1] is None and "Empty" in results.skipped[1]
    assert results[0].value > results[2].value
    with pytest.raises(EmptyInput, match="text 1: "):
        encoder.similarity("a fast car", texts, "token_products")


class Part(nn.Module):
    """What a sentence encoder is made of."""


class Transformer(Part):
    def __init__(self, model):
        super().__init__()
        self.auto_model = model


class Pooling(Part):
    def get_pooling_mode_str(self):
        return "mean"


class Dense(Part):
    pass


class SentenceTransformer(nn.Sequential):
    pass


def test_a_sentence_encoder_says_how_it_pools():
    lens = mixlens.load(SentenceTransformer(Transformer(families.make("bert")), Pooling()))
    a, b = families.text(5), families.text(6)
    own = lens.similarity(a, b, "token_products")
    assert own.value == lens.similarity(a, b, "token_products", pooling="mean").value
    assert own.value != lens.similarity(a, b, "token_products", pooling="first").value
    with pytest.raises(Undefined, match="this one has Dense behind"):
        mixlens.load(SentenceTransformer(Transformer(families.make("bert")), Pooling(), Dense())).similarity(a, b)


def test_a_folder_says_how_it_pools(tmp_path, monkeypatch):
    def write(*parts: str, **modes: bool) -> mixlens.Lens:
        kinds = ["Transformer", *parts]
        modules = [{"path": f"{i}_{kind}" if i else "", "type": f"st.models.{kind}"} for i, kind in enumerate(kinds)]
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        (tmp_path / "1_Pooling").mkdir(exist_ok=True)
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(modes))
        return mixlens.load(str(tmp_path))

    families.make("bert").save_pretrained(tmp_path)
    assert write("Pooling", pooling_mode_cls_token=True, pooling_mode_mean_tokens=False).subject.head.pooled == "first"
    assert write("Pooling", "Normalize", pooling_mode_mean_tokens=True).subject.head.pooled == "mean"
    assert write("Pooling", "Dense", pooling_mode_mean_tokens=True).subject.head.behind == ("Dense",)
    assert write("Pooling", pooling_mode_max_tokens=True).subject.head.pooled is None
    write("Pooling", pooling_mode_mean_tokens=True)
    monkeypatch.chdir(tmp_path)  # a model that comes from nowhere is not asked where the process stands
    assert mixlens.load(families.make("bert")).subject.head.pooled is None
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    lens = write("Pooling", pooling_mode_mean_tokens=True)  # all-mpnet-base-v2: the head that it was tuned from is gone
    assert type(lens.model).__name__ == "BertModel" and lens.subject.head.pooled == "mean"
    with pytest.raises(ModelError, match="expected all weights of BertForMaskedLM"):
        write("Dense")  # not pooled: its head is meant
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "modules.json").write_text("[")
    assert mixlens.load(str(tmp_path)).subject.head.pooled is None


@pytest.mark.parametrize(
    ("first", "second", "options", "error", "says"),
    [
        ("a b", "c d", {"method": "tokens"}, UnknownMethod, "no similarity method 'tokens'"),
        ("a b", "c d", {"steps": 3}, UnknownOption, "leave_out"),
        ("a b", "c d", {"pooling": "max"}, UnknownOption, "expected pooling='first', 'last' or 'mean', got 'max'"),
        ("a b", "c d", {"unit": "letter"}, UnknownOption, "expected unit='word' or 'token', got 'letter'"),
        ("a b", "c", {}, InputError, "expected a text of two words or more to take one out of"),
        (["a b", "c d"], "c d", {}, InputError, "expected one text first, got a list of 2"),
        ("a b", ("c d", "e f"), {}, InputError, "expected a text on each side, got a pair"),
        ("", "c d", {}, EmptyInput, "expected a text"),
        (
            "a b",
            "c d",
            {"method": "integrated_jacobian", "steps": 0},
            UnknownOption,
            "expected steps of 1 or more, got 0",
        ),
    ],
)
def test_what_is_refused(encoder, first, second, options, error, says):
    with pytest.raises(error, match=says):
        encoder.similarity(first, second, **options)


def test_who_does_not_pool_is_asked_to_say():
    a, b = families.text(5), families.text(6)
    for lens in (families.lens("bert"), families.lens("bert", "sequence")):
        with pytest.raises(ModelError, match="pass pooling='mean', 'first' or 'last'"):
            lens.similarity(a, b)


def test_weights_that_are_not_finite():
    lens = mixlens.load(copy.deepcopy(families.make("bert")))
    with torch.no_grad():
        lens.model.encoder.layer[1].output.dense.weight[0, 0] = float("nan")
    with pytest.raises(NotFinite):
        lens.similarity(families.text(5), families.text(6), "token_products", pooling="mean")


@pytest.mark.slow
def test_a_word_of_several_tokens_is_left_out_as_one(encoder):
    """The share of a pair of words is the second difference of the cosine without all of their tokens."""
    a, b = "an unbelievable photosynthesizer", "plants and chlorophyllous leaves"
    alike = encoder.similarity(a, b)
    first, second, shares = alike.words()
    assert max(len(u.indices) for u in first) > 1 < max(len(u.indices) for u in second)
    ids = [list(stream.ids) for stream in alike.streams]

    def cosine(*less) -> float:
        kept = [[t for i, t in enumerate(row) if i not in out] for row, out in zip(ids, less, strict=True)]
        return encoder.similarity(*kept, "token_products").value

    for i, u in enumerate(first):
        for j, v in enumerate(second):
            if not (u.special or v.special):
                both = alike.value - cosine(u.indices, ()) - cosine((), v.indices) + cosine(u.indices, v.indices)
                assert float(shares[i, j]) == pytest.approx(both, abs=1e-5)


def test_a_page_begins_at_the_pair_with_the_largest_share(alike):
    head, _ = data(alike.to_html())
    first, second = ([i for i, special in enumerate(side.special) if not special] for side in alike.streams)
    best = max((float(alike.scores[i, j]), i) for i in first for j in second)[1]
    assert head["pairs"] and head["start"] == best
