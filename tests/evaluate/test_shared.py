"""Methods that read the same pass share it, and have the very numbers that each has alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens.attribute import ATTRIBUTIONS, Gradient
from mixlens.runners import graph, together
from models import families

TEXTS = ["a deep film .", "not bad", "a very slow and bad film ."]
GRADIENTS = [name for name, facts in ATTRIBUTIONS.items() if isinstance(facts, Gradient)]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


def grouped(asked: list[tuple[str, dict[str, Any]]]) -> list[list[str]]:
    found = together([(ATTRIBUTIONS[name], options) for name, options in asked])
    return [[asked[i][0] for i in group] for group in found]


def test_what_shares_a_pass() -> None:
    assert grouped([("cat", {}), ("alti", {}), ("saliency", {})]) == [["cat", "saliency"], ["alti"]]
    assert grouped([("attcat", {}), ("attcat", {"indexing": "input"}), ("grads", {}), ("cat", {})]) == [
        ["attcat", "attcat", "grads"],
        ["cat"],  # attention that is a variable is computed another way, to the last bit
    ]
    for other in ({"layer": 1}, {"readout": 2}):
        assert len(grouped([("saliency", {}), ("grad_l2", other)])) == 2
    assert len(grouped([("attcat", {}), ("att_grads", {"mask_special": True})])) == 2
    assert grouped([("alti", {}), ("alti", {}), ("trans_att", {}), ("trans_att", {})]) == [
        ["alti"],
        ["alti"],
        ["trans_att"],
        ["trans_att"],
    ]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_compared_methods_have_the_results_of_each_alone(family: str) -> None:
    other, text = families.lens(family, "sequence"), families.text()
    methods = [name for name in GRADIENTS if ATTRIBUTIONS[name].defined(other.spec)]
    found = other.compare(text, methods, faithfulness=False)
    assert list(found.attributions) == methods
    for name in methods:
        alone = other.attribute(text, name)
        assert torch.equal(found[name].scores, alone.scores), name
        assert (found[name].layers is None) == (alone.layers is None)
        assert (found[name].meta, found[name].options, found[name].target) == (alone.meta, alone.options, alone.target)


@pytest.mark.parametrize("layers", [None, "each"])
def test_evaluated_methods_have_the_numbers_of_each_alone(layers: str | None, lens: mixlens.Lens) -> None:
    measures = ["spearman:random", "pearson:random", "kendall_confidence"]
    table = mixlens.evaluate(lens, TEXTS, GRADIENTS, measures, layers=layers)
    for name in GRADIENTS:
        alone = mixlens.evaluate(lens, TEXTS, [name], measures, layers=layers)
        for row in alone:
            if row.method == name:
                got, expected = (t.values(row.measure, name, row.layer) for t in (table, alone))
                assert np.array_equal(got, expected, equal_nan=True), (name, row.measure, row.layer)


def test_passes_are_counted(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, whole = [], graph.differentiate

    def counted(*args: Any, **how: Any) -> Any:
        seen.append(how["weights"])
        return whole(*args, **how)

    monkeypatch.setattr(graph, "differentiate", counted)
    lens.compare(TEXTS[0], GRADIENTS, faithfulness=False)
    assert sorted(seen) == [False, True]
    seen.clear()
    mixlens.evaluate(lens, TEXTS, GRADIENTS, ["spearman:saliency"])
    assert sorted(seen) == [False, True]
    seen.clear()
    mixlens.evaluate(lens, TEXTS, ["saliency", "grad_l2", "alti"], ["spearman:grad_l2"], layers="each")
    assert len(seen) == 1 + lens.model.config.num_hidden_layers
