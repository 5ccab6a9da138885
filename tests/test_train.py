"""experiments/train.py end to end: a dozen invented sentences, a tiny random BERT, a few steps."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load

from mixlens import embedded
from mixlens.errors import ModelError

FOLDER = Path(__file__).parents[1] / "experiments"
GOOD = ["a fine film", "fine and warm", "a warm film", "warm", "a fine fine plot", "a film so warm"]
BAD = ["a dull film", "dull and cold", "a cold film", "cold", "a dull dull plot", "a film so cold"]


@pytest.fixture(scope="module")
def train():
    """The script as Python would run it: its folder is where it imports from."""
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module("train")
    sys.path.remove(str(FOLDER))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with a tiny random BERT encoder and a whole-word tokenizer."""
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("base")
    words = sorted({word for text in GOOD + BAD for word in text.split()})
    vocab = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=16,
        initializer_range=0.3,  # so that words reach [CLS] within a few steps
    )
    torch.manual_seed(3)
    BertModel(config).save_pretrained(folder)
    BertTokenizer(vocab=vocab).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rows = [{"text": t, "label": 1} for t in GOOD] + [{"text": t, "label": 0} for t in BAD]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    with gzip.open(folder / "train.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(lines)
    (folder / "dev.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def recipe(train):
    return train.Recipe(
        ("train.jsonl.gz",),
        ("dev.jsonl",),
        lambda row, _: SimpleNamespace(text=row["text"], label=row["label"], words=None, answer=None),
        ("bad", "good"),
        rank=2,
        lr=0.02,
        epochs=12,
        batch=5,
        dropout=0.0,
    )


@pytest.fixture(scope="module")
def trained(train, recipe, data, base, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "tiny.safetensors"
    return out, train.run("tiny", recipe, data, out, base)


def test_learns_and_says_how(trained, recipe, data, base):
    out, facts = trained
    assert facts == embedded.provenance(out.read_bytes())
    assert facts["dev_accuracy"] == 1.0
    assert facts["recipe"]["rank"] == 2 and facts["rows"] == {"train": 12, "dev": 12}
    weights = hashlib.sha256((base / "model.safetensors").read_bytes()).hexdigest()
    assert facts["base"] == {"package": None, "version": None, "sha256": weights}
    dev = hashlib.sha256((data / "dev.jsonl").read_bytes()).hexdigest()
    assert facts["data_sha256"]["dev.jsonl"] == dev


def test_what_is_tuned(trained):
    tensors = load(trained[0].read_bytes())
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    assert not any("word_embeddings" in n or n.endswith("dense.weight.lora_A") for n in tensors)
    factors = [name for name in tensors if name.endswith(".lora_A")]
    assert len(factors) == 2 * 6  # layers x linear maps
    assert tensors["bert.encoder.layer.1.intermediate.dense.lora_A"].shape == (2, 12)
    assert tensors["bert.encoder.layer.1.intermediate.dense.lora_B"].shape == (20, 2)
    rest = {n for n in tensors if "lora" not in n and "encoder" not in n}
    assert rest == {
        "bert.embeddings.LayerNorm.weight",
        "bert.embeddings.LayerNorm.bias",
        "bert.pooler.dense.weight",
        "bert.pooler.dense.bias",
        "classifier.weight",
        "classifier.bias",
    }


def test_loaded_model_is_the_trained_one(train, recipe, data, base):
    """Merged from float16 it answers as the model that was trained, to float16 rounding."""
    torch.manual_seed(recipe.seed)
    model, tokenizer = embedded.build(base, list(recipe.labels))
    examples = train.read_examples(data, recipe, tokenizer, training=False)
    tuned = train.choose_tuned(model, recipe.rank)
    before = {name: p.detach().clone() for name, p in tuned.items()}
    train.fit(model, tuned, recipe, examples, examples)
    stored = train.difference(tuned, before)
    out = data / "again.safetensors"
    facts = {
        "name": "again",
        "labels": list(recipe.labels),
        "base": {"sha256": train.sha256(base / "model.safetensors")},
    }
    train.save_file(stored, out, {"provenance": json.dumps(facts)})
    loaded, _ = embedded.load_tuned(out.read_bytes(), base)
    inputs, _ = train.collate(examples)
    with torch.no_grad():
        expected, got = model(**inputs).logits, loaded(**inputs).logits
    assert expected.abs().max() > 0.5
    torch.testing.assert_close(got, expected, rtol=0, atol=5e-3)


def test_same_seed_same_file(train, recipe, data, base, trained, tmp_path):
    train.run("tiny", recipe, data, tmp_path / "again.safetensors", base)
    first, second = (
        load(trained[0].read_bytes()),
        load((tmp_path / "again.safetensors").read_bytes()),
    )
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_other_base_is_refused(trained, base, tmp_path):
    for file in base.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"other")
    with pytest.raises(ModelError, match=f"got {hashlib.sha256(b'other').hexdigest()}"):
        embedded.load_tuned(trained[0].read_bytes(), tmp_path)


def test_batches_hold_every_text_once_and_little_padding(train):
    import random

    examples = [train.Example([1] * (1 + i % 9), [0] * (1 + i % 9), i) for i in range(100)]
    for rng in (None, random.Random(0)):
        got = list(train.batches(examples, 8, rng))
        assert sorted(example.label for batch in got for example in batch) == list(range(100))
        assert max(len(batch) for batch in got) == 8
        padding = sum(max(len(e.ids) for e in b) * len(b) for b in got) - sum(len(e.ids) for e in examples)
        assert padding <= 9 * 8


def test_padding_is_masked(train):
    inputs, labels = train.collate([train.Example([2, 5, 3], [0, 0, 1], 1), train.Example([2, 3], [0, 0], 0)])
    assert inputs["input_ids"].tolist() == [[2, 5, 3], [2, 3, 0]]
    assert inputs["token_type_ids"].tolist() == [[0, 0, 1], [0, 0, 0]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert labels.tolist() == [1, 0]


def test_strange_label_is_refused(train, recipe, base, tmp_path):
    (tmp_path / "dev.jsonl").write_text('{"text": "warm", "label": 2}\n', encoding="utf-8")
    _, tokenizer = embedded.build(base, ["bad", "good"])
    with pytest.raises(ValueError, match="expected labels 0 to 1, got 2"):
        train.read_examples(tmp_path, recipe, tokenizer, training=False)


@pytest.fixture(scope="module")
def masked(train, data):
    """A recipe in which the words warm and dull compete at [MASK]; every fourth row is kept for measuring."""
    rows = [{"text": f"a {word} film [MASK]", "words": pair} for word, pair in WORDS for _ in range(4)]
    (data / "masked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return train.Recipe(
        ("masked.jsonl",),
        ("masked.jsonl",),
        lambda row, _: SimpleNamespace(text=row["text"], label=None, words=row["words"], answer=None),
        task="masked",
        train_part=lambda _, number: number % 4 != 3,
        layers=1,
        rank=2,
        lr=0.02,
        epochs=20,
        batch=3,
        dropout=0.0,
    )


WORDS = [("fine", ["warm", "dull"]), ("cold", ["dull", "warm"])]


def test_masked_words(train, masked, data, base, tmp_path):
    facts = train.run("masked", masked, data, tmp_path / "masked.safetensors", base)
    assert facts["dev_accuracy"] == 1.0 and facts["rows"] == {"train": 6, "dev": 2}
    assert (facts["task"], facts["layers"], facts["labels"]) == ("masked", 1, [])
    assert "cls.predictions.transform.dense.weight" in load((tmp_path / "masked.safetensors").read_bytes())
    model, tokenizer = embedded.load_tuned((tmp_path / "masked.safetensors").read_bytes(), base)
    assert type(model).__name__ == "BertForMaskedLM" and model.config.num_hidden_layers == 1
    assert model.cls.predictions.decoder.weight is model.bert.embeddings.word_embeddings.weight
    encoded = tokenizer("a cold film [MASK]", return_tensors="pt")
    with torch.no_grad():
        logits = model(**encoded).logits[0, 4]
    right, wrong = tokenizer.convert_tokens_to_ids(["dull", "warm"])
    assert logits[right] > logits[wrong]


def test_words_of_several_pieces_are_left_out_and_said(train, masked, base, tmp_path, capsys):
    row = {"text": "a [MASK] film", "words": ["warm", "very warm"]}
    (tmp_path / "masked.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    _, tokenizer = embedded.build(base, (), task="masked")
    assert train.read_examples(tmp_path, masked, tokenizer, training=True) == []
    assert "1 rows with words of several pieces" in capsys.readouterr().out


@pytest.fixture(scope="module")
def question(train, data):
    """The word before "film" answers; two of six rows are kept for measuring, and one row is too long to read."""
    texts = ["a warm film", "warm film", "a cold film", "a fine warm film", "cold film", "a dull cold film"]
    rows = [{"question": "plot", "context": text, "at": text.index(" film")} for text in texts]
    rows.append({"question": "plot", "context": "a " * 20 + "warm film", "at": 44})
    (data / "question.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return train.Recipe(
        ("question.jsonl",),
        ("question.jsonl",),
        lambda row, _: SimpleNamespace(
            text=(row["question"], row["context"]), label=None, words=None, answer=(row["at"] - 4, row["at"])
        ),
        task="question",
        train_part=lambda _, number: number not in (1, 3),
        rank=2,
        lr=0.02,
        epochs=30,
        batch=2,
        dropout=0.0,
    )


def test_questions(train, question, data, base, tmp_path, capsys):
    """The answer's tokens are found, the head is tuned, and what comes out answers."""
    facts = train.run("question", question, data, tmp_path / "question.safetensors", base)
    assert facts["rows"] == {"train": 4, "dev": 2} and facts["task"] == "question"
    assert facts["dev_accuracy"] == facts["dev_f1"] == 1.0
    assert "1 rows with words of several pieces or too many tokens" in capsys.readouterr().out
    assert "qa_outputs.weight" in load((tmp_path / "question.safetensors").read_bytes())
    model, tokenizer = embedded.load_tuned((tmp_path / "question.safetensors").read_bytes(), base)
    assert type(model).__name__ == "BertForQuestionAnswering"
    examples = train.read_examples(data, question, tokenizer, training=False)
    assert [(e.span, e.context) for e in examples] == [((3, 3), (3, 4)), ((5, 5), (3, 6))]


def test_f1_of_a_span_by_hand(train):
    """Answer tokens 3 to 4, found 4 to 6: one of them common, 2 x 1 / (2 + 3); and no span ends before it starts."""

    class Model:
        device = "cpu"

        def eval(self) -> None:
            pass

        def __call__(self, input_ids, **_):
            start, end = torch.zeros(1, 9), torch.zeros(1, 9)
            start[0, 4], end[0, 6] = 5.0, 4.0
            end[0, 3], end[0, 8] = 4.5, 9.0  # before the start; no token of the context
            return SimpleNamespace(start_logits=start, end_logits=end)

    example = train.Example([1] * 9, [0] * 3 + [1] * 6, 0, span=(3, 4), context=(3, 7))
    assert importlib.import_module("scoring").answered(Model(), [example]) == {"accuracy": 0.0, "f1": 2 * 1 / (2 + 3)}


def test_rank_0_tunes_no_linear_map_of_a_layer(train, base):
    model, _ = embedded.build(base, ("bad", "good"))
    tuned = train.choose_tuned(model, 0)
    assert not any("lora" in name or (name.endswith("dense.weight") and "encoder" in name) for name in tuned)
    assert "bert.encoder.layer.1.output.dense.bias" in tuned


def test_every_recipe_reads_its_rows(train):
    """One row of each kind of file, as the data's README describes it."""
    rows = {
        "sst2": {"text": "a film", "label": 1},
        "agreement": {
            "sentence": "Susan hurt herself.",
            "target": "herself",
            "foil": "themselves",
            "target_span": [11, 18],
            "paper_subset": True,
        },
        "verb_number": {"prefix": "the keys", "number": "plural"},
        "masked_verb": {"sentence": "the key is here", "target": "is", "foil": "are", "target_span": [8, 10]},
        "hate": {"tokens": ["so", "nice"], "label": "normal"},
        "inference": {"premise": "A", "hypothesis": "B", "label": "contradiction"},
        "paraphrase": {"text_a": "A", "text_b": "B", "label": 0},
        "question": {"question": "Who?", "context": "It was Ann.", "answer": "Ann", "answer_start": 7},
    }
    rows["sst2_cut"] = rows["sst2"]
    got = {name: recipe.sample(rows[name], 0) for name, recipe in train.RECIPES.items()}
    assert {name: sample.text for name, sample in got.items() if name in ("agreement", "masked_verb", "hate")} == {
        "agreement": "Susan hurt [MASK].",
        "masked_verb": "the key [MASK] here",
        "hate": "so nice",
    }
    assert got["agreement"].words == ("herself", "themselves")
    assert got["question"].text == ("Who?", "It was Ann.") and got["question"].answer == (7, 10)
    assert train.RECIPES["agreement"].sample({**rows["agreement"], "paper_subset": False}, 0) is None
    labels = {n: s.label for n, s in got.items() if s.words is None and s.answer is None}
    assert labels == {"sst2": 1, "sst2_cut": 1, "verb_number": 1, "hate": 0, "inference": 2, "paraphrase": 0}
