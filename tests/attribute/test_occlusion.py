"""Blank-out: every text made and passed once more by hand, deletion, words, and what cannot be replaced."""

from __future__ import annotations

import pytest
import torch

import mixlens
from mixlens import Target
from mixlens.attribute import occlusion
from mixlens.errors import InputError, TargetError, Undefined, UnknownOption
from models import families

N = 7
UNK = families.UNK


def probabilities(model, ids, **inputs):
    with torch.no_grad():
        rows = {k: torch.tensor([v]) for k, v in inputs.items()}
        return model(input_ids=torch.tensor([ids]), **rows).logits[0].softmax(-1)


def close(got, expected, tolerance=1e-10):
    torch.testing.assert_close(got, torch.tensor(expected, dtype=got.dtype), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["bert", "distilbert", "albert-inner", "gpt2", "llama", "modernbert"])
def test_every_token_in_turn(name):
    model, ids = families.model(name, "sequence"), families.text(N)
    p = probabilities(model, ids)
    c = int(p.argmax())
    replaced = [float(p[c] - probabilities(model, [*ids[:i], UNK, *ids[i + 1 :]])[c]) for i in range(N)]
    deleted = [float(p[c] - probabilities(model, [*ids[:i], *ids[i + 1 :]])[c]) for i in range(N)]
    lens = families.lens(name, "sequence")
    got = lens.attribute(ids, "blank_out", replace=UNK)
    close(got.scores, replaced)
    assert got.meta["of"] == "prob" and got.meta["value"] == pytest.approx(float(p[c]))
    close(lens.attribute(ids, "blank_out", replace="delete").scores, deleted)
    close(lens.attribute(ids, "blank_out", replace="delete", absolute=True).scores, [abs(s) for s in deleted])
    assert min(replaced) < 0 < max(replaced)


@pytest.mark.parametrize("of", ["logit", "prob", "log_odds"])
def test_quantities_and_foils(of):
    model, ids = families.model("bert", "masked"), [families.CLS, 9, families.MASK, 30, 31, families.SEP]
    target = Target(40, foil=50, of=of, position=2)

    def value(ids):
        with torch.no_grad():
            z = model(input_ids=torch.tensor([ids])).logits[0, 2]
        return float(torch.sigmoid(z[40] - z[50]) if of == "prob" else z[40] - z[50])

    expected = [value(ids) - value([*ids[:i], UNK, *ids[i + 1 :]]) for i in range(len(ids))]
    close(families.lens("bert", "masked").attribute(ids, "blank_out", target=target, replace=UNK).scores, expected)


def test_by_default_a_foil_is_compared_by_the_softmax_over_the_two():
    lens, ids = families.lens("bert", "masked"), [9, families.MASK, 30]
    of = [Target(40, foil=50, of=q, position=1) for q in (None, "prob")]
    one, other = (lens.attribute(ids, "blank_out", target=t, replace=UNK).scores for t in of)
    assert torch.equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3, 64])
def test_batch_size_changes_nothing(rows, monkeypatch):
    lens, texts = families.lens("bert", "sequence"), families.texts()
    how = {"method": "blank_out", "replace": UNK}
    expected = [lens.attribute(ids, **how).scores for ids in texts]
    monkeypatch.setattr(occlusion, "TOKENS", 20)
    for got, scores in zip(lens.attribute(texts, batch_size=rows, **how), expected, strict=True):
        torch.testing.assert_close(got.scores, scores, rtol=0, atol=1e-12)


def test_progress_counts_positions():
    seen = []
    lens = families.lens("bert", "sequence")
    lens.attribute(families.text(N), "blank_out", replace=UNK, batch_size=3, progress=lambda *a: seen.append(a))
    assert seen == [(3, 7), (6, 7), (7, 7)]


# --- a token that nothing attends to ---


def unseen_bert():
    """One layer; a token of type 1 has a key that no query comes near, whatever its word."""
    model = families.make("bert", "sequence", num_hidden_layers=1)
    attention, embeddings = model.bert.encoder.layer[0].attention.self, model.bert.embeddings
    with torch.no_grad():
        embeddings.token_type_embeddings.weight[1, 0] = 1000.0  # the first dimension of its hidden state is sqrt(32)
        embeddings.LayerNorm.weight[0], embeddings.LayerNorm.bias[0] = 1.0, 0.0
        for j in range(0, 32, 8):  # the first of each head's dimensions
            attention.query.weight[j], attention.query.bias[j] = 0.0, 1.0
            attention.key.weight[j], attention.key.bias[j] = 0.0, 0.0
            attention.key.weight[j, 0] = -1000.0
    return model


def test_blank_out_of_a_token_that_nothing_attends_to_is_zero():
    ids, types = families.text(N), [0, 0, 0, 1, 0, 0, 0]
    lens = mixlens.load(unseen_bert())
    given = {"input_ids": ids, "token_type_ids": types}
    weights = lens.mixing(given, "attention").scores[0]
    others = [i for i in range(N) if i != 3]
    assert (weights[others, 3] == 0).all() and weights[3, 3] < 1e-300
    scores = lens.attribute(given, "blank_out", replace=UNK).scores
    assert abs(scores[3]) < 1e-14 < 1e-4 < scores[others].abs().max()


def test_blank_out_behind_the_read_out_token_of_a_causal_model_is_zero():
    ids = families.text(N)
    scores = families.lens("gpt2", "causal").attribute(ids, "blank_out", target=Target(position=3), replace=UNK).scores
    assert scores[4:].abs().max() < 1e-14 and scores[:4].abs().min() > 1e-9


# --- deletion ---


def test_the_read_out_token_is_followed():
    model, ids = families.model("bert", "masked"), [9, 20, families.MASK, 30, 31]
    p = probabilities(model, ids)[2]
    c = int(p.argmax())
    expected = [
        float(p[c] - probabilities(model, [*ids[:i], *ids[i + 1 :]])[2 - (i < 2)][c]) if i != 2 else 0.0
        for i in range(5)
    ]
    got = families.lens("bert", "masked").attribute(ids, "blank_out", target=Target(position=2), replace="delete")
    close(got.scores, expected)
    assert got.meta["undefined"] == (2,)  # no answer is left without it


def test_a_causal_model_without_its_last_token_is_read_at_the_one_before():
    model, ids = families.model("gpt2", "causal"), families.text(4)
    p = probabilities(model, ids)[-1]
    c = int(p.argmax())
    expected = [float(p[c] - probabilities(model, [*ids[:i], *ids[i + 1 :]])[-1][c]) for i in range(4)]
    got = families.lens("gpt2", "causal").attribute(ids, "blank_out", replace="delete")
    close(got.scores, expected)
    assert "undefined" not in got.meta


def test_a_text_of_one_token_cannot_lose_it():
    got = families.lens("bert", "sequence").attribute([9], "blank_out", replace="delete")
    assert got.scores.tolist() == [0.0] and got.meta["undefined"] == (0,)


def test_token_types_go_and_positions_close_up():
    model, ids = families.model("bert", "sequence"), families.text(5)
    types, places = [0, 0, 1, 1, 0], [3, 4, 5, 6, 7]

    def value(ids, types):
        return probabilities(model, ids, token_type_ids=types, position_ids=places[: len(ids)])

    p = value(ids, types)
    c = int(p.argmax())
    expected = [float(p[c] - value(ids[:i] + ids[i + 1 :], types[:i] + types[i + 1 :])[c]) for i in range(5)]
    given = {"input_ids": ids, "token_type_ids": types, "position_ids": places}
    close(families.lens("bert", "sequence").attribute(given, "blank_out", replace="delete").scores, expected)


# --- words, and what stands in a token's place ---


def test_a_word_is_replaced_as_a_whole_and_its_pieces_share_the_score(tiny_bert_folder):
    lens = mixlens.load(tiny_bert_folder, dtype=torch.float64)
    text = "a very deeply slow film"  # deep ##ly
    ids = lens.tokenizer(text)["input_ids"]
    p = probabilities(lens.model, ids)
    c = int(p.argmax())
    out = list(ids)
    out[3] = out[4] = lens.tokenizer.unk_token_id
    drop = float(p[c] - probabilities(lens.model, out)[c])
    got = lens.attribute(text, "blank_out", words=True)
    assert got.tokens[3:5] == ("deep", "##ly") and got.meta["replaced_by"] == "[UNK]"
    close(got.scores[3:5], [drop / 2, drop / 2], 1e-6)
    assert got.words()[3].text == "deeply" and got.words()[3].score == pytest.approx(drop, abs=1e-6)
    alone = lens.attribute(text, "blank_out")
    torch.testing.assert_close(got.scores[[0, 1, 2, 5]], alone.scores[[0, 1, 2, 5]], rtol=0, atol=1e-6)
    gone = float(p[c] - probabilities(lens.model, [*ids[:3], *ids[5:]])[c])
    shorter = lens.attribute(text, "blank_out", words=True, replace="delete")
    assert shorter.words()[3].score == pytest.approx(gone, abs=1e-6)


def test_words_need_a_text():
    with pytest.raises(InputError, match="words need offsets"):
        families.lens("bert", "sequence").attribute(families.text(N), "blank_out", words=True, replace=UNK)


class Tokenizer:
    """As much of one as a lens asks for token ids."""

    all_special_ids = ()
    is_fast = False

    def __init__(self, **ids):
        self.__dict__.update({f"{k}_token_id": v for k, v in ids.items()})

    def convert_ids_to_tokens(self, ids):
        return [f"<{i}>" for i in ids]

    def __call__(self, text):
        raise AssertionError("no text was passed")


@pytest.mark.parametrize(
    ("ids", "asked", "expected"),
    [
        ({"unk": 3, "mask": 4}, "unk", "<3>"),
        ({"unk": 3, "mask": 4}, "mask", "<4>"),
        ({"mask": 4}, "unk", "<4>"),
        ({"unk": 2, "eos": 2, "mask": 4}, "unk", "<4>"),
        ({"unk": 2, "eos": 2, "bos": 2}, "unk", None),  # GPT-2
        ({"unk": 2, "bos": 2}, "unk", None),
        ({"unk": 3}, "mask", None),
        ({}, "unk", None),
    ],
    ids=str,
)
def test_what_stands_in_a_tokens_place(ids, asked, expected):
    lens = mixlens.load(families.model("bert", "sequence"), Tokenizer(**ids))
    if expected is None:
        with pytest.raises(Undefined, match=r"tokenizer has none.*use replace='delete', or replace= a token id"):
            lens.attribute(families.text(N), "blank_out", replace=asked)
    else:
        assert lens.attribute(families.text(N), "blank_out", replace=asked).meta["replaced_by"] == expected


@pytest.mark.parametrize("asked", ["pad", families.VOCABULARY, -1, True, None])
def test_replacements_there_are_not(asked):
    with pytest.raises(UnknownOption, match="expected replace="):
        families.lens("bert", "sequence").attribute(families.text(N), "blank_out", replace=asked)


def test_a_regression_head_has_its_output_for_a_quantity():
    lens = mixlens.load(families.make("bert", "sequence", num_labels=1))
    ids = families.text(N)
    with torch.no_grad():
        z = [lens.model(input_ids=torch.tensor([t])).logits[0, 0] for t in (ids, [UNK, *ids[1:]])]
    got = lens.attribute(ids, "blank_out", replace=UNK)
    assert float(got.scores[0]) == pytest.approx(float(z[0] - z[1])) and got.meta["of"] == "logit"
    with pytest.raises(TargetError, match="no probability here"):
        lens.attribute(ids, "blank_out", replace=UNK, target=Target(of="prob"))
