"""Models and tokenizers in whatever people have them in: taken out, or the message says what to pass."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import mixlens
from mixlens.errors import InputError, ModelError, UnsupportedConfig
from models import families
from models.families import CLS, SEP
from models.words import tokenizer

IDS = [CLS, 11, 12, 13, SEP]


def bert() -> Any:
    return families.make("bert", "sequence")


def trainer(model: Any, words: Any) -> Any:
    args = transformers.TrainingArguments(output_dir="unused", use_cpu=True, report_to=[])
    return transformers.Trainer(model, processing_class=words, args=args)


def low_rank(model: Any) -> Any:
    import peft

    return peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS"))


class CrossEncoder(nn.Sequential):
    """What the class of that name offers."""

    def __init__(self, model: Any, words: Any) -> None:
        super().__init__(nn.Identity())
        self.inner, self.tokenizer = model, words

    @property
    def model(self) -> Any:
        return self.inner


WRAPPED = {
    "pipeline": (
        lambda m: transformers.pipeline("text-classification", model=m, tokenizer=tokenizer(), device="cpu"),
        True,
    ),
    "trainer": (lambda m: trainer(m, tokenizer()), True),
    "data parallel": (nn.DataParallel, False),
    "low rank": (low_rank, False),
    "low rank, data parallel": (lambda m: nn.DataParallel(low_rank(m)), False),
    "low rank in a trainer": (lambda m: trainer(low_rank(m), tokenizer()), True),
    "cross encoder": (lambda m: CrossEncoder(m, tokenizer()), True),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # in Trainer and PEFT
@pytest.mark.parametrize("kind", WRAPPED)
def test_the_model_in_it_is_explained(kind):
    wrap, brings_words = WRAPPED[kind]
    lens = mixlens.load(wrap(bert()))
    assert (lens.tokenizer is not None) == brings_words
    expected = families.lens("bert", "sequence").attribute(IDS, "alti").scores
    torch.testing.assert_close(lens.attribute(IDS, "alti").scores, expected)
    if brings_words:
        assert lens.attribute("w11 w12", "alti").tokens == ("[CLS]", "w11", "w12", "[SEP]")
        other = tokenizer(special=False)
        assert mixlens.load(wrap(bert()), other).tokenizer is other


class Transformer(nn.Module):
    """The first part of a sentence encoder."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.auto_model = model


class Pooling(nn.Module):
    def __init__(self, pooling_mode: Any) -> None:
        super().__init__()
        self.pooling_mode = pooling_mode


class SentenceTransformer(nn.Sequential):
    tokenizer = property(lambda self: tokenizer())


@pytest.mark.parametrize(
    ("mode", "row"), [("cls", 0), ("mean", "mean"), (("mean",), "mean"), ("lasttoken", 4), (("cls", "mean"), 0)]
)
def test_a_sentence_encoder_is_read_where_it_pools(mode, row):
    lens = mixlens.load(SentenceTransformer(Transformer(families.make("bert")), Pooling(mode)))
    got = lens.attribute("w11 w12 w13", "alti")
    assert got.meta["readout"] == row
    maps = lens.mixing("w11 w12 w13", "alti").rollout().scores[-1]
    expected = maps.mean(0) if row == "mean" else maps[row]
    torch.testing.assert_close(got.scores, expected / expected.sum())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of what that package imports
def test_the_package_s_own_encoders(tmp_path):
    import sentence_transformers as encoders
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    families.make("bert", dtype=torch.float32).save_pretrained(tmp_path / "base")
    families.make("bert", "sequence", dtype=torch.float32).save_pretrained(tmp_path / "cross")
    for name in ("base", "cross"):
        tokenizer().save_pretrained(tmp_path / name)
    part = Transformer(str(tmp_path / "base"))
    whole = encoders.SentenceTransformer(modules=[part, Pooling(32, "mean")], device="cpu")
    got = mixlens.load(whole).attribute("w11 w12", "alti")
    assert (got.meta["readout"], got.tokens) == ("mean", ("[CLS]", "w11", "w12", "[SEP]"))
    cross = mixlens.load(encoders.CrossEncoder(str(tmp_path / "cross"), device="cpu"))
    assert cross.attribute(("w11", "w12"), "alti").target is not None


class Net(nn.Module):
    """A module of the user's own around an encoder."""

    def __init__(self, **encoders: Any) -> None:
        super().__init__()
        self.config = {"mine": 1}
        for name, one in encoders.items():
            setattr(self, name, one)


def integers(model: Any) -> Any:
    return torch.ao.quantization.quantize_dynamic(model.float(), {nn.Linear}, dtype=torch.qint8)


NO_MODEL = [
    (
        lambda: Net(enc=families.make("bert")),
        r"got Net, a module around one: pass mixlens.load\(model.enc, token",
    ),
    (lambda: Net(a=Net(b=bert())), r"pass mixlens.load\(model.a.b, .* make it a class of BertPreTrainedModel whose"),
    (lambda: Net(a=bert(), b=bert()), r"holds several: pass one of model.a \(BertFor.*model.b \(BertFor"),
    (lambda: nn.Linear(2, 2), "got Linear, which holds none"),
    (object, "got object"),
    (lambda: 3, "got int"),
    (lambda: bert().state_dict(), "got OrderedDict of weights; load them into a model"),
    (lambda: transformers.BertModel, "got the class BertModel; pass a model of it, as BertModel.from_pretrained"),
    (lambda: bert().config, "got BertConfig, a configuration; pass a model with weights"),
    (tokenizer, r"a tokenizer; the model comes first: mixlens.load\(model, tokenizer\)"),
    (lambda: SimpleNamespace(config=bert().config), "got SimpleNamespace, which is no torch module"),
    (lambda: bert().to("meta"), "on the meta device, which holds no numbers .57 such .*load them with from_pretrained"),
    (lambda: SentenceTransformer(nn.Linear(2, 2)), "whose first part holds a transformers model, got Linear"),
]


@pytest.mark.parametrize(("make", "says"), NO_MODEL, ids=[says[:30] for _, says in NO_MODEL])
def test_what_is_no_model_is_told_what_to_pass(make, says):
    with pytest.raises(ModelError, match=says):
        mixlens.load(make())


@pytest.mark.filterwarnings("ignore")  # torch's, of its own quantisation
def test_whole_numbers_are_refused():
    with pytest.raises(UnsupportedConfig, match=r"attention.self.query is quantised \(40 such parts\).*in float32"):
        mixlens.load(integers(bert()))
    model = bert()
    model.bert.pooler.dense.weight = nn.Parameter(torch.ones(32, 32, dtype=torch.int8), requires_grad=False)
    with pytest.raises(UnsupportedConfig, match=r"bert.pooler.dense.weight is quantised \(1 such"):
        mixlens.load(model)
    model.hf_quantizer = object()  # what transformers keeps beside the weights that it quantised, and can undo
    with pytest.raises(UnsupportedConfig, match=r"model.dequantize\(\) makes floats of these very weights"):
        mixlens.load(model)


def test_a_quantised_configuration_is_told_how_to_be_undone():
    model = families.make("llama")
    model.config.quantization_config = {"quant_method": "awq", "bits": 4}  # its whole numbers are buffers
    with pytest.raises(UnsupportedConfig, match=r"make floats of these very weights, from_pretrained.*dequantize\(\)"):
        mixlens.load(model)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # bitsandbytes's, of kernels that are not there
@pytest.mark.parametrize("bits", [4, 8])
def test_what_was_quantised_and_made_floats_again_is_explained(tmp_path, bits):
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes, which is no extra of ours")
    whole, name = families.make("llama").float(), "layers.0.mlp.up_proj.weight"
    whole.save_pretrained(tmp_path)
    chosen = transformers.BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, quantization_config=chosen, device_map="cpu")
    with pytest.raises(UnsupportedConfig, match=r"is quantised.*model.dequantize\(\) makes floats"):
        mixlens.load(model)
    lens = mixlens.load(model.dequantize())
    assert lens.check().passed
    floats, before = (m.get_parameter(name) for m in (lens.model.base_model, whole.base_model))
    assert 0 < float((floats - before).abs().max()) < float(before.abs().max())  # rounded, not another's


# --- tokenizers ---


def test_a_tokenizer_by_its_name(tmp_path):
    tokenizer().save_pretrained(tmp_path)
    for name in (str(tmp_path), tmp_path, str(tmp_path / "tokenizer.json")):
        assert mixlens.load(bert(), name).attribute("w11 w12", "alti").tokens == ("[CLS]", "w11", "w12", "[SEP]")


@pytest.mark.parametrize("name", ["no-one/nothing", "EMPTY"])
def test_a_name_of_no_tokenizer(name, tmp_path):
    with pytest.raises(ModelError, match=r"expected a folder with a tokenizer or a reachable hub id, got .*none"):
        mixlens.load(bert(), str(tmp_path) if name == "EMPTY" else name)


def test_a_raw_tokenizer():
    raw = copy.deepcopy(tokenizer().backend_tokenizer)
    raw.enable_truncation(3)
    raw.enable_padding(length=9)
    lens = mixlens.load(families.make("bert", "masked"), raw)
    got = lens.attribute("w11 [MASK] w13", "alti")
    assert got.tokens == ("[CLS]", "w11", "[MASK]", "w13", "[SEP]")
    assert got.special == (True, False, False, False, True)
    assert got.meta["readout"] == 2
    assert (raw.truncation["max_length"], raw.padding["length"]) == (3, 9)
    with pytest.raises(InputError, match=r"all 1 tokens are \[UNK\]"):
        lens.attribute("unheard")


def test_a_processor_s_tokenizer():
    words = tokenizer()
    assert mixlens.load(bert(), SimpleNamespace(tokenizer=words)).tokenizer is words


@pytest.mark.parametrize("words", [3, object(), print, transformers.PreTrainedTokenizerFast, {"w": 1}])
def test_what_is_no_tokenizer_is_refused_at_load(words):
    with pytest.raises(InputError, match=r"expected a tokenizer of transformers, its name, or a tokenizers.Tok"):
        mixlens.load(bert(), words)
