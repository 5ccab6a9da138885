"""experiments/train.py end to end: a dozen invented sentences, a tiny random BERT, a few steps."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from mixlens import embedded
from mixlens.errors import ModelError

SCRIPT = Path(__file__).parents[1] / "experiments" / "train.py"
GOOD = ["a fine film", "fine and warm", "a warm film", "warm", "a fine fine plot", "a film so warm"]
BAD = ["a dull film", "dull and cold", "a cold film", "cold", "a dull dull plot", "a film so cold"]


@pytest.fixture(scope="module")
def train():
    spec = importlib.util.spec_from_file_location("mixlens_train", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["mixlens_train"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mixlens_train"]


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
        "train.jsonl.gz",
        "dev.jsonl",
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
    examples = train.read_examples(data / recipe.dev, recipe, tokenizer)
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

    examples = [([1] * (1 + i % 9), [0] * (1 + i % 9), i) for i in range(100)]
    for rng in (None, random.Random(0)):
        got = list(train.batches(examples, 8, rng))
        assert sorted(example[2] for batch in got for example in batch) == list(range(100))
        assert max(len(batch) for batch in got) == 8
        padding = sum(max(len(e[0]) for e in b) * len(b) for b in got) - sum(len(e[0]) for e in examples)
        assert padding <= 9 * 8


def test_padding_is_masked(train):
    inputs, labels = train.collate([([2, 5, 3], [0, 0, 1], 1), ([2, 3], [0, 0], 0)])
    assert inputs["input_ids"].tolist() == [[2, 5, 3], [2, 3, 0]]
    assert inputs["token_type_ids"].tolist() == [[0, 0, 1], [0, 0, 0]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert labels.tolist() == [1, 0]


def test_strange_label_is_refused(train, recipe, base, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "warm", "label": 2}\n', encoding="utf-8")
    _, tokenizer = embedded.build(base, ["bad", "good"])
    with pytest.raises(ValueError, match="expected labels 0 to 1"):
        train.read_examples(path, recipe, tokenizer)
    path.write_text('{"text": "warm", "label": "good"}\n', encoding="utf-8")
    assert train.read_examples(path, recipe, tokenizer)[0][2] == 1
