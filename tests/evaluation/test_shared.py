"""Methods that read the same pass share it, and have the very numbers that each has alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import mixlens
from mixlens import budget
from mixlens.attribute import ATTRIBUTIONS, Gradient, Preset, method
from mixlens.attribute.calls import request, together
from mixlens.attribute.gradient import family
from mixlens.subject import Subject
from mixlens.target import Target
from models import families

TEXTS = ["a deep film .", "not bad", "a very slow and bad film ."]
GRADIENTS = [name for name, facts in ATTRIBUTIONS.items() if isinstance(facts, Gradient)]
MAPS = [name for name, facts in ATTRIBUTIONS.items() if isinstance(facts, Preset)]
MAPS += ["norm_res+mean", "norm_resln+rollout", "effective_attention+layer:0", "hta+sum", "alti+flow"]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


def grouped(asked: list[tuple[str, dict[str, Any]]]) -> list[list[str]]:
    found = together([(method(name), options) for name, options in asked])
    return [[asked[i][0] for i in group] for group in found]


def test_what_shares_a_pass() -> None:
    assert grouped([("cat", {}), ("alti", {}), ("saliency", {})]) == [["cat", "saliency"], ["alti"]]
    assert grouped([("attcat", {}), ("attcat", {"indexing": "input"}), ("grads", {}), ("cat", {})]) == [
        ["attcat", "attcat", "cat"],
        ["grads"],  # attention that is a variable is computed another way, to the last bit
    ]
    assert grouped([("attcat", {"weights": "readout"}), ("grads", {}), ("attcat", {})]) == [
        ["attcat", "grads"],
        ["attcat"],
    ]
    for other in ({"layer": 1}, {"readout": 2}):
        assert len(grouped([("saliency", {}), ("grad_l2", other)])) == 2
    assert len(grouped([("attcat", {}), ("att_grads", {"mask_special": True})])) == 2
    assert grouped([("alti", {"zero_cls": True}), ("globenc", {}), ("alti+flow", {}), ("alti", {"readout": 2})]) == [
        ["alti", "globenc", "alti+flow", "alti"]
    ]
    assert grouped([("blank_out", {}), ("blank_out", {}), ("trans_att", {}), ("trans_att", {})]) == [
        ["blank_out"],
        ["blank_out"],
        ["trans_att"],
        ["trans_att"],
    ]


@pytest.mark.parametrize("family", ["bert", *(pytest.param(f, marks=pytest.mark.slow) for f in ("gpt2", "mistral"))])
def test_compared_methods_have_the_results_of_each_alone(family: str) -> None:
    other, text = families.lens(family, "sequence"), families.text()
    methods = [name for name in (*GRADIENTS, *MAPS) if method(name).defined(other.spec)]
    found = other.compare(text, methods, faithfulness=False)
    assert list(found.attributions) == methods
    for name in methods:
        alone = other.attribute(text, name)
        assert torch.equal(found[name].scores, alone.scores), name
        assert (found[name].layers is None) == (alone.layers is None)
        assert (found[name].meta, found[name].options, found[name].target) == (alone.meta, alone.options, alone.target)


@pytest.mark.parametrize(
    ("methods", "measures", "layers"),
    [
        (["saliency", "grad_x_input", "attcat"], ("pearson:random", "kendall_confidence"), None),
        (["alti", "globenc", "norm_res+mean"], ("pearson:random",), None),
        # each layer's numbers are read beside the whole model's, which stand in the same table
        pytest.param(GRADIENTS, ("pearson:random", "kendall_confidence"), "each", marks=pytest.mark.slow),
        pytest.param(MAPS, ("pearson:random",), "each", marks=pytest.mark.slow),
        pytest.param(["alti", "norm_res+mean"], ("pearson:random",), "upto", marks=pytest.mark.slow),
    ],
)
def test_evaluated_methods_have_the_numbers_of_each_alone(
    methods: list[str], measures: tuple[str, ...], layers: str | None, lens: mixlens.Lens
) -> None:
    table = mixlens.evaluate(lens, TEXTS, methods, measures, layers=layers, resamples=2)
    assert [line for line in table.examples() if line.get("errors")] == []
    for name in methods:
        alone = mixlens.evaluate(lens, TEXTS, [name], measures, layers=layers, resamples=2)
        for row in alone:
            if row.method == name:
                got, expected = (t.values(row.measure, name, row.layer) for t in (table, alone))
                assert np.array_equal(got, expected, equal_nan=True), (name, row.measure, row.layer)


def test_a_method_that_fails_changes_no_number_of_the_others(lens: mixlens.Lens) -> None:
    failing = ("failing", "norm_res+rollout", {"receptive_field": True})  # undefined for an encoder
    measures = ["pearson:random"]
    alone = mixlens.evaluate(lens, TEXTS, ["alti", "globenc"], measures)
    table = mixlens.evaluate(lens, TEXTS, ["alti", failing, "globenc"], measures)
    for name in ("alti", "globenc"):
        assert np.array_equal(table.values("pearson", name), alone.values("pearson", name))
    assert [set(line["errors"]) for line in table.examples()] == [{"pearson:random failing"}] * 3


def test_maps_that_do_not_fit_together_are_made_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    other, text = families.lens("bert", "sequence"), families.text()
    monkeypatch.setattr(budget, "BASE_BYTES", 0)
    methods = ("globenc", "alti", "attention_rollout", "norm_rollout")
    most = max(other.plan(text, name).peak_bytes for name in methods)
    monkeypatch.setattr(budget, "_free", lambda device: most)
    seen: list[int] = []
    stream = Subject.passes

    def streamed(self: Subject, texts: Any, make: Any, **how: Any) -> Any:
        if make[0][0] is not None:
            seen.append(len(make))
        return stream(self, texts, make, **how)

    monkeypatch.setattr(Subject, "passes", streamed)
    found = other.compare(text, methods, faithfulness=False)
    assert (list(found.attributions), seen) == (list(methods), [1, 1, 1, 1])
    monkeypatch.setattr(budget, "_free", lambda device: 2 * most)
    other.compare(text, methods, faithfulness=False)
    assert seen[4:] == [4]


def test_progress_of_a_flow_counts_its_rows() -> None:
    other, calls = families.lens("bert", "sequence"), []
    texts = [families.text(n) for n in (5, 4, 3, 6)]
    other.attribute(texts, "attention_flow", batch_size=2, progress=lambda done, total: calls.append((done, total)))
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert all(done <= total for done, total in calls)
    assert calls[-1][0] == calls[-1][1] > 0


def test_passes_are_counted(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    backward, stream = family.differentiate, Subject.passes

    def differentiate(*args: Any, **how: Any) -> Any:
        seen.append(how["weights"])
        return backward(*args, **how)

    def streamed(self: Subject, texts: Any, make: Any, **how: Any) -> Any:
        if make[0][0] is not None:
            seen.append(len(make))
        return stream(self, texts, make, **how)

    monkeypatch.setattr(family, "differentiate", differentiate)
    monkeypatch.setattr(Subject, "passes", streamed)
    lens.compare(TEXTS[0], [*GRADIENTS, *MAPS], faithfulness=False)
    assert seen == [False, True, len(MAPS)]
    seen.clear()
    mixlens.evaluate(lens, TEXTS, [*MAPS, *GRADIENTS], ["spearman:saliency"], resamples=2)
    assert seen == [len(MAPS), False, True]
    seen.clear()
    mixlens.evaluate(lens, TEXTS, ["saliency", "grad_l2", "alti"], ["spearman:grad_l2"], layers="each", resamples=2)
    assert seen == [*[False] * lens.model.config.num_hidden_layers, 1]  # the whole model's are the first layer's


def test_maps_of_several_methods_are_kept_of_few_texts_at_a_time() -> None:
    config = transformers.BertConfig(num_hidden_layers=12, hidden_size=24, intermediate_size=24, vocab_size=50)
    lens = mixlens.load(transformers.BertForSequenceClassification(config).eval())
    texts = [[7] * 512] * 40
    tokens, goals = lens.subject.read(texts).require(), [Target()] * 40
    ask = {n: request(lens.subject, "globenc", {}, goals, tokens, 32, None, memory="9GB", together=n) for n in (1, 8)}
    assert ask[1].size_of(512) == 32
    kept = 12 * 512 * 512 * 4
    assert ask[8].size_of(512) == (512 << 20) // (8 * kept) < 32 == ask[8].size_of(64)
    more = lens.plan(texts, "globenc", maps=True).peak_bytes - lens.plan(texts[:32], "globenc", maps=True).peak_bytes
    assert more == 8 * kept
    assert lens.plan(texts, "globenc").peak_bytes == lens.plan(texts[:32], "globenc").peak_bytes  # no more than a batch
