"""A head is what comes out of a pass, whatever the model's class is called and however it hands its output back."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import mixlens
from mixlens import Target
from mixlens.errors import ModelError, TargetError
from models import families
from models.families import CLS, SEP
from models.words import tokenizer

IDS = [CLS, 11, 12, 13, 12, 60, SEP]
CLASSES = 3
Both = namedtuple("Both", "scores vector")


class SentimentClassifier(transformers.BertPreTrainedModel):
    """A head of one's own on [CLS]; `given` says how it hands its logits back."""

    given: Any = staticmethod(lambda logits, hidden: logits)
    classes = CLASSES

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.bert = transformers.BertModel(config)
        self.score = nn.Linear(config.hidden_size, self.classes)
        self.post_init()

    def read(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return hidden[:, 0]

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        hidden = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        return self.given(self.score(self.read(hidden, attention_mask)), hidden)


class BertForMultiLabelSequenceClassification(SentimentClassifier):
    def read(self, hidden, mask):
        return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class Span(SentimentClassifier):
    """Start and end as two tensors."""

    classes = 2
    given = staticmethod(lambda logits, hidden: logits.unbind(-1))

    def read(self, hidden, mask):
        return hidden


def made(cls: Any, given: Any = None, **settings: Any) -> Any:
    if given is not None:
        cls = type(cls.__name__, (cls,), {"given": staticmethod(given)})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = cls._from_config(
            families.config_of("bert", **settings), attn_implementation="sdpa", dtype=torch.float64
        )
        families.randomize(model)
    return model.eval()


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        hidden = model.bert(torch.tensor([IDS])).last_hidden_state
        return model.score(model.read(hidden, torch.ones(1, len(IDS), dtype=torch.long)))[0]


@pytest.mark.parametrize(
    "given",
    [
        lambda logits, hidden: logits,
        lambda logits, hidden: {"logits": logits, "embedding": hidden[:, 0]},
        lambda logits, hidden: {"scores": logits, "hidden": hidden},
        lambda logits, hidden: (logits, hidden),
        lambda logits, hidden: (logits.sum(), logits),
        lambda logits, hidden: (None, logits, (hidden, hidden)),
        lambda logits, hidden: Both(logits, hidden[:, 0]),
        lambda logits, hidden: transformers.modeling_outputs.SequenceClassifierOutput(logits=logits),
    ],
    ids=["tensor", "dict by name", "dict", "tuple", "loss first", "None first", "namedtuple", "model output"],
)
def test_logits_are_found_however_they_are_handed_back(given):
    model = made(SentimentClassifier, given)
    lens = mixlens.load(model, tokenizer())
    p = logits_of(model).softmax(-1)
    for method in ("alti", "grad_x_input"):
        got = lens.attribute([IDS, IDS[:5]], method)[0]
        assert got.meta["probability"] == pytest.approx(float(p.max()), rel=1e-9)
        assert (got.target.index, got.meta["readout"]) == (int(p.argmax()), 0)
    assert lens.attribute(IDS, "alti", target="LABEL_2").target.index == 2


def test_every_runner_finds_logits_in_a_tuple():
    model = made(SentimentClassifier, lambda logits, hidden: (None, logits, hidden))
    p = logits_of(model).softmax(-1)
    lens = mixlens.load(model)
    for method in ("deeplift", "hta", "blank_out", "random", "partial_lrp"):
        how = {"replace": families.UNK} if method == "blank_out" else {}
        got = lens.attribute(IDS, method, **how)
        assert got.meta["probability"] == pytest.approx(float(p.max()), rel=1e-9), method


@pytest.mark.parametrize(("cls", "row"), [(SentimentClassifier, 0), (BertForMultiLabelSequenceClassification, "mean")])
def test_the_row_that_is_read_is_seen(cls, row):
    model = made(cls)
    got = mixlens.load(model).attribute(IDS, "grad_x_input", target=1)
    assert got.meta["readout"] == row
    assert got.meta["target_probability"] == pytest.approx(float(logits_of(model).softmax(-1)[1]), rel=1e-9)


def test_labels_count_only_where_they_name_as_many_classes():
    names = {0: "sad", 1: "merry", 2: "odd"}
    assert made(SentimentClassifier).config.num_labels == 2
    assert dict(mixlens.load(made(SentimentClassifier)).head.labels) == {i: f"LABEL_{i}" for i in range(3)}
    named = mixlens.load(made(SentimentClassifier, id2label=names, label2id={v: k for k, v in names.items()}))
    assert named.attribute(IDS, target="odd").target.index == 2


def test_several_labels_at_once_are_said_by_the_configuration():
    model = made(BertForMultiLabelSequenceClassification, problem_type="multi_label_classification")
    got = mixlens.load(model).attribute(IDS, "grad_x_input", target=1)
    assert got.meta["target_probability"] == pytest.approx(float(logits_of(model).sigmoid()[1]), rel=1e-9)


def test_one_number_a_text_is_a_regression():
    class Rating(SentimentClassifier):
        classes = 1
        given = staticmethod(lambda logits, hidden: logits.squeeze(-1))

    model = made(Rating)
    got = mixlens.load(model).attribute([IDS, IDS[:4]], "grad_x_input")[0]
    assert got.meta["output"] == pytest.approx(float(logits_of(model)), rel=1e-9)


def test_two_numbers_a_token_are_a_start_and_an_end():
    model = made(Span)
    got = mixlens.load(model).attribute(IDS, "grad_x_input", target=Target(position=(1, 4)))
    starts, ends = logits_of(model).unbind(-1)
    assert got.meta["probability"] == pytest.approx(float(starts.softmax(0)[1] * ends.softmax(0)[4]), rel=1e-9)


def test_a_vector_is_no_answer():
    """A sentence embedding is as wide as a hidden vector: nothing among it is a class."""
    lens = mixlens.load(made(SentimentClassifier, lambda logits, hidden: hidden[:, 0]), tokenizer())
    says = r"expected no target for a head whose output is not understood \(output \(1, 32\)\), got 1"
    with pytest.raises(TargetError, match=says):
        lens.attribute(IDS, "alti", target=1)
    assert lens.attribute(IDS, "alti").meta["readout"] == 0
    assert "not understood" in " ".join(lens.attribute(IDS, "alti").meta["warnings"])


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("BertForPreTraining", r"prediction_logits \(1, 24, 97\), seq_relationship_logits \(1, 2\)"),
        ("ElectraForPreTraining", r"logits \(1, 24\)"),
    ],
)
def test_heads_that_answer_something_else(kind, seen):
    cls = getattr(transformers, kind)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = cls(families.config_of(cls.config_class.model_type)).eval()
    lens = mixlens.load(model, tokenizer())
    with pytest.raises(TargetError, match=f"a head whose output is not understood .{seen}"):
        lens.attribute(IDS, target=1)
    assert len(lens.mixing(IDS, "norm")) == 3


def test_the_next_sentence_is_a_class():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.BertForNextSentencePrediction(families.config_of("bert")).eval()
    got = mixlens.load(model, tokenizer()).attribute(("w11 w12", "w13"), "grad_x_input", target=1)
    assert got.target.label == "LABEL_1"


def test_a_multiple_choice_head_is_told_what_to_load():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.BertForMultipleChoice(families.config_of("bert")).eval()
    with pytest.raises(ModelError, match="load the weights as BertForSequenceClassification with num_labels=1"):
        mixlens.load(model)


def test_a_forward_without_the_usual_names():
    class Odd(SentimentClassifier):
        def forward(self, ids, mask=None):
            return super().forward(ids, mask)

    with pytest.raises(ModelError, match=r"expected Odd.forward to take input_ids and attention_mask, it takes ids"):
        mixlens.load(made(Odd))


def test_an_encoder_in_a_class_without_its_prefix():
    class Plain(transformers.PreTrainedModel):
        config_class = transformers.BertConfig
        _supports_sdpa = True

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.encoder = transformers.BertModel(config)
            self.score = nn.Linear(config.hidden_size, CLASSES)
            self.post_init()

        def forward(self, input_ids, attention_mask=None):
            return self.score(self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state[:, 0])

    model = made(Plain)
    got = mixlens.load(model).attribute(IDS, "grad_x_input")
    with torch.no_grad():
        p = model(torch.tensor([IDS])).softmax(-1)[0]
    assert got.meta["probability"] == pytest.approx(float(p.max()), rel=1e-9)
