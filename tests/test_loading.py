"""Folders as people have them: damaged, of other classes, with code of their own; each is a typed error or works."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, BertConfig, BertForSequenceClassification

import mixlens
from mixlens.errors import ModelError, UnknownArchitecture, UnknownOption
from models import families

WEIGHTS, CONFIG, WORDS = "model.safetensors", "config.json", "tokenizer.json"
TEXT = "a deep film ."


@pytest.fixture
def folder(tiny_bert_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_bert_folder, tmp_path / "model"))


def config(**changes: Any) -> Callable[[Path], None]:
    """Settings of config.json changed."""

    def change(folder: Path) -> None:
        held = json.loads((folder / CONFIG).read_text())
        (folder / CONFIG).write_text(json.dumps({**held, **changes}))

    return change


def holding(name: str, content: bytes) -> Callable[[Path], None]:
    """A file with another content."""
    return lambda folder: (folder / name).write_bytes(content) and None


def cut(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-100])


def as_pickle(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weights": Runs(), "filler": b"." * 9000}, protocol=2))


class Runs:
    """What a pickle can do."""

    def __reduce__(self) -> Any:
        return print, ("code from a pickle ran",)


DAMAGE = {
    "weights cut": (cut, "its weights cannot be read: SafetensorError: .*ncomplete"),
    "weights empty": (holding(WEIGHTS, b""), "its weights cannot be read: SafetensorError"),
    "weights that are none": (holding(WEIGHTS, b"x" * 9000), "its weights cannot be read: SafetensorError"),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), "its weights cannot be read: Error no file named model.safe"),
    "a pickle": (as_pickle, "a pickle that is damaged or would run code, which is never done; save .* as safetensors"),
    "other shapes": (
        config(intermediate_size=48),
        r"6 have others \(bert.*layer.0.inter.*: \(40,\), not \(48,\)",
    ),
    "config cut": (
        holding(CONFIG, b'{"model_type": "be'),
        "its configuration cannot be read: .* not a valid JSON file",
    ),
    "config of no text": (holding(CONFIG, b"\xff\xfe{"), "its configuration cannot be read"),
    "config of a list": (holding(CONFIG, b"[1]"), "its configuration cannot be read"),
    "a size of no number": (config(hidden_size="x"), "its configuration cannot be read"),
    "no heads": (config(num_attention_heads=0), "its configuration cannot be read: ZeroDivisionError"),
    "labels of no number": (config(id2label={"a": "b"}), "its configuration cannot be read: ValueError: invalid lit"),
    "no class": (config(architectures=["pipeline"]), "expected a class of transformers .* got 'pipeline'"),
    "tokenizer cut": (holding(WORDS, b'{"model'), "its tokenizer cannot be read: JSONDecodeError"),
    "tokenizer of nothing": (holding(WORDS, b"{}"), "its tokenizer cannot be read"),
    "tokenizer's settings": (holding("tokenizer_config.json", b"[]"), "its tokenizer cannot be read"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_damaged_is_named(folder, kind, capfd):
    damage, says = DAMAGE[kind]
    damage(folder)
    with pytest.raises(ModelError, match=says):
        mixlens.load(folder)
    assert "code from a pickle ran" not in capfd.readouterr().out


def test_a_folder_without_a_tokenizer_explains_ids(folder):
    (folder / WORDS).unlink()
    lens = mixlens.load(folder)
    assert lens.tokenizer is None
    assert len(lens.attribute([2, 5, 6, 3]).scores) == 4


@pytest.mark.parametrize(
    "claim",
    [
        {"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 11008, "num_attention_heads": 32},
        {"num_hidden_layers": 200_000},
        {"vocab_size": 10**9},
    ],
    ids=["7 billion", "layers", "vocabulary"],
)
def test_a_claim_that_the_weights_do_not_bear_out_is_refused_before_it_is_built(folder, claim, monkeypatch):
    config(**claim)(folder)
    monkeypatch.setattr(BertForSequenceClassification, "from_pretrained", lambda *args, **kwargs: pytest.fail("built"))
    before = time.perf_counter()
    with pytest.raises(ModelError, match=r"expected weights of the size that config.json .* got [\d,]+ bytes for"):
        mixlens.load(folder)
    assert time.perf_counter() - before < 20


# --- code of their own ---

CODE = """
from pathlib import Path
Path(__file__).with_name("ran").write_text("x")
Path({marker!r}).write_text("x")
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
class Config(BertConfig):
    model_type = "mine"
class Words(PreTrainedTokenizerFast):
    pass
class Model(BertForSequenceClassification):
    pass
"""


def with_code(folder: Path, auto_map: dict[str, Any], where: str = CONFIG, **changes: Any) -> Path:
    marker = folder / "ran"
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    held = json.loads((folder / where).read_text())
    (folder / where).write_text(json.dumps({**held, **changes, "auto_map": auto_map}))
    return marker


def test_code_of_a_folder_never_runs_unasked(folder, monkeypatch, capsys):
    marker = with_code(folder, {"AutoConfig": "own.Config"}, model_type="mine")
    answers = io.StringIO("y\n" * 9)
    monkeypatch.setattr(sys, "stdin", answers)
    says = "its configuration cannot be read: it brings code .* pass trust_remote_code=True if you trust it"
    with pytest.raises(ModelError, match=says):
        mixlens.load(folder)
    assert not marker.exists()
    assert answers.tell() == 0
    assert capsys.readouterr().out == ""


def test_code_of_a_tokenizer_never_runs_unasked(folder, monkeypatch, capsys):
    marker = with_code(
        folder, {"AutoTokenizer": ["own.Words", "own.Words"]}, "tokenizer_config.json", tokenizer_class="Words"
    )
    answers = io.StringIO("y\n" * 9)
    monkeypatch.setattr(sys, "stdin", answers)
    assert mixlens.load(folder).tokenizer.is_fast  # tokenizer.json says all
    assert not marker.exists()
    assert answers.tell() == 0
    assert capsys.readouterr().out == ""


def test_a_known_model_with_code_of_its_own_runs_transformers_class(folder, monkeypatch):
    marker = with_code(folder, {"AutoModel": "own.Model", "AutoModelForSequenceClassification": "own.Model"})
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert type(mixlens.load(folder).model) is BertForSequenceClassification
    assert not marker.exists()


def test_code_runs_where_it_is_asked_for(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    names = {"AutoModelForSequenceClassification": "own.Model"}
    marker = with_code(folder, names, architectures=["Model"])
    lens = mixlens.load(folder, trust_remote_code=True)
    assert (type(lens.model).__name__, marker.exists(), lens.head.task) == ("Model", True, "sequence")
    with_code(folder, {"AutoConfig": "own.Config"}, model_type="mine")
    with pytest.raises(UnknownArchitecture, match="got 'mine'"):
        mixlens.load(folder, trust_remote_code=True)


# --- options ---


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"device": "cuda"}, "from_pretrained has no option 'device'; say device_map="),
        ({"nonsense": 3}, "from_pretrained has no option 'nonsense'; see from_pretrained"),
    ],
)
def test_options_that_there_are_not(folder, options, says):
    with pytest.raises(UnknownOption, match=says):
        mixlens.load(folder, **options)


def test_options_reach_the_weights_and_the_configuration(folder):
    lens = mixlens.load(folder, dtype=torch.float64, problem_type="multi_label_classification")
    assert lens.model.dtype == torch.float64
    assert lens.head.multilabel


def test_options_that_say_where_the_files_are_reach_all_of_them(folder, tmp_path):
    inner = tmp_path / "outer" / "inner"
    shutil.copytree(folder, inner)
    lens = mixlens.load(tmp_path / "outer", subfolder="inner")
    assert lens.tokenizer is not None
    assert lens.attribute(TEXT).target.label in ("negative", "positive")


# --- classes and formats ---


@pytest.mark.parametrize("name", ["x" * 300, f"/{'x' * 300}", "half of a pair \ud800", "/\ud800", "a\0b"])
def test_a_name_that_no_folder_can_have(name):
    with pytest.raises(ModelError, match="expected a"):
        mixlens.load(name)
    with pytest.raises(ModelError, match="expected a"):
        mixlens.load(families.make("bert"), name)


def test_a_class_that_transformers_does_not_have(folder):
    config(architectures=["SentimentClassifier"])(folder)
    with pytest.raises(ModelError, match=r"got 'SentimentClassifier', .*its weights classifier.bias .* load that"):
        mixlens.load(folder)
    assert mixlens.load(AutoModel.from_pretrained(folder)).head.task == "none"


def test_floats_that_a_gguf_file_was_made_into(folder):
    plain = mixlens.load(folder).attribute(TEXT)
    config(quantization_config={"quant_method": "gguf", "dequantize": True})(folder)
    assert torch.equal(mixlens.load(folder).attribute(TEXT).scores, plain.scores)
    model = BertForSequenceClassification.from_pretrained(folder, config=BertConfig(**plain_config(folder)))
    model.config.quantization_config = {"quant_method": "gguf"}
    ids = [2, 5, 6, 3]
    assert torch.equal(mixlens.load(model).attribute(ids).scores, mixlens.load(folder).attribute(ids).scores)


def plain_config(folder: Path) -> dict[str, Any]:
    held = json.loads((folder / CONFIG).read_text())
    del held["quantization_config"]
    return held


def test_a_folder_of_a_gguf_file_is_told_how(tmp_path):
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"it holds small.gguf: pass gguf_file='small.gguf'"):
        mixlens.load(tmp_path)
    with pytest.raises(ModelError, match=r"expected the file 'other.gguf' in .*, there is none"):
        mixlens.load(tmp_path, gguf_file="other.gguf")
