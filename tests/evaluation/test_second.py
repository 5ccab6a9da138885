"""Measures that compare with a second model: which are alike, and which texts."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import mixlens
from evaluation.alone import TEXTS
from mixlens.errors import Undefined, UnknownOption
from models.families import make
from models.words import tokenizer


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder), dtype=torch.float64)  # no limit below hangs on how a machine rounds


def test_a_second_model(lens: mixlens.Lens, tiny_bert_folder: Path) -> None:
    same = mixlens.load(str(tiny_bert_folder), dtype=torch.float64)
    table = mixlens.evaluate(lens, TEXTS, ["alti"], ["consistency"], second=same)
    assert table.values("consistency", "alti") == pytest.approx(np.ones(4))
    with torch.no_grad():
        same.model.classifier.weight.neg_()
        same.model.classifier.bias.neg_()
    table = mixlens.evaluate(lens, TEXTS, ["alti"], ["consistency"], second=same)
    row = table.row("consistency", "alti")
    assert (row.n, row.n_undefined, row.n_errors, row.mean) == (0, 4, 0, None)  # the labels differ
    with pytest.raises(UnknownOption, match="second="):
        mixlens.evaluate(lens, TEXTS, ["alti"], ["consistency"])
    with pytest.raises(UnknownOption, match="second= would be ignored"):
        mixlens.evaluate(lens, TEXTS, ["alti"], ["aopc"], second=same)


def test_second_models_that_are_not_alike() -> None:
    lens, short, other = (
        mixlens.load(make("bert", "sequence", **more), tokenizer())
        for more in ({}, {"num_hidden_layers": 2}, {"id2label": {0: "no", 1: "yes", 2: "maybe"}})
    )
    texts = ["w5 w6 w7", "w9 w30"]
    run = partial(mixlens.evaluate, lens, texts, ["alti", "attcat", "grad_x_input"], ["consistency"])
    for layers in ("each", "upto"):
        with pytest.raises(Undefined, match="layers one to one, and the two models have 3 and 2: leave layers= out"):
            run(second=short, layers=layers)
    assert run(second=short).row("consistency", "alti").n_errors == 0
    with pytest.raises(Undefined, match=r"their labels differ: LABEL_0, .*; name them alike in .*id2label"):
        run(second=other)
    masked = mixlens.load(make("bert", "masked"), tokenizer())
    with pytest.raises(Undefined, match="two models of one task, got a sequence head and a masked head"):
        run(second=masked)


def test_a_second_model_with_its_labels_in_another_order(lens: mixlens.Lens, tiny_bert_folder: Path) -> None:
    turned = mixlens.load(str(tiny_bert_folder), dtype=torch.float64)
    names = list(lens.head.labels.values())[::-1]
    with torch.no_grad():
        turned.model.classifier.weight.copy_(turned.model.classifier.weight.flip(0))
        turned.model.classifier.bias.copy_(turned.model.classifier.bias.flip(0))
    turned.model.config.id2label = dict(enumerate(names))
    turned = mixlens.load(turned.model, turned.tokenizer)
    table = mixlens.evaluate(lens, TEXTS, ["attcat"], ["consistency"], second=turned)
    assert table.values("consistency", "attcat") == pytest.approx(np.ones(len(TEXTS)))
