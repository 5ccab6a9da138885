"""Weights that accelerate keeps elsewhere: the same numbers, a layer's weights at a time, the model as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch

import mixlens
from mixlens.architectures import spec_for
from mixlens.attribute.gradient import family as gradient_family
from mixlens.capture.run import LayerPass, run
from mixlens.evaluation.fingerprint import model_facts
from mixlens.subject import descent
from models import families

IDS = families.text()
FEW = ("alti", "attcat", "deeplift")
MORE = ("value_zeroing", "partial_lrp", "integrated_gradients", "hta", "blank_out")


def kept_elsewhere(where: str, folder: Path, name: str = "bert") -> Any:
    model = families.make(name, "sequence")
    if where == "cpu":
        return accelerate.cpu_offload(model, execution_device="cpu")
    return accelerate.disk_offload(model, folder, execution_device="cpu")


@pytest.mark.parametrize(
    ("where", "name", "methods"),
    [
        ("cpu", "bert", FEW),
        pytest.param("cpu", "bert", MORE, marks=pytest.mark.slow),
        pytest.param("cpu", "llama", FEW, marks=pytest.mark.slow),
        pytest.param("disk", "bert", FEW, marks=pytest.mark.slow),
    ],
)
def test_the_numbers_are_the_same(where, name, methods, tmp_path):
    model = kept_elsewhere(where, tmp_path, name)
    lens, plain = mixlens.load(model), families.lens(name, "sequence")
    for method in methods:
        how = {"replace": families.UNK} if method == "blank_out" else {}
        expected = plain.attribute([IDS, IDS[:4]], method, **how)
        for one, other in zip(lens.attribute([IDS, IDS[:4]], method, **how), expected, strict=True):
            assert torch.equal(one.scores, other.scores), method
    assert all(p.is_meta for p in model.parameters())
    with torch.no_grad():
        out, ref = (m(torch.tensor([IDS])).logits for m in (model, plain.model))
    torch.testing.assert_close(out, ref)


@pytest.mark.parametrize("tied", [False, True])
def test_the_numbers_of_a_language_model_s_logits_are_the_same(tied):
    model = families.make("llama", "causal", tie_word_embeddings=tied)
    plain = mixlens.load(model)
    expected = {
        method: plain.trace(IDS, [5, 6], method).scores for method in ("head_logit", "alti_logit", "path_logit")
    }
    lens = mixlens.load(accelerate.cpu_offload(model, execution_device="cpu"))
    for method, scores in expected.items():
        assert torch.equal(lens.trace(IDS, [5, 6], method).scores, scores), method
    assert all(p.is_meta for p in model.parameters())


def test_layers_that_run_again_bring_their_weights_again(monkeypatch):
    model = families.make("llama", "causal")
    methods = ("alti", "alti_logit", "saliency", "cp_lrp")
    plain = mixlens.load(model)
    expected = {method: plain.attribute(IDS, method).scores for method in methods}
    lens = mixlens.load(accelerate.cpu_offload(model, execution_device="cpu"))
    monkeypatch.setattr(descent, "KEPT_BYTES", 0)
    monkeypatch.setattr(gradient_family, "GRAPH_BYTES", 0)
    for method, scores in expected.items():
        torch.testing.assert_close(lens.attribute(IDS, method).scores, scores, rtol=1e-12, atol=1e-15)
    assert all(p.is_meta for p in model.parameters())


def test_one_layer_is_there_at_a_time(tmp_path):
    model, before = kept_elsewhere("cpu", tmp_path), []

    def look(seen: LayerPass) -> None:
        assert not any(p.is_meta for p in seen.module.parameters())
        assert all(p.is_meta for layer in before for p in layer.parameters())
        before.append(seen.module)

    ids = torch.tensor([IDS])
    run(model, spec_for(model.config), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, look)
    assert len(before) == 3


def test_the_weights_of_a_run_are_those_that_are_kept(tmp_path):
    facts = model_facts(mixlens.load(kept_elsewhere("cpu", tmp_path)))
    assert facts == model_facts(mixlens.load(families.make("bert", "sequence")))


def test_weights_that_are_no_numbers_are_found_where_they_are(tmp_path):
    model = families.make("bert", "sequence")
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.weight[3, 4] = float("nan")
    with pytest.raises(mixlens.errors.NotFinite, match=r"bert.encoder.layer.1.output.dense.weight holds NaN"):
        mixlens.load(accelerate.cpu_offload(model, execution_device="cpu"))


@pytest.mark.slow
def test_a_folder_with_a_map_of_devices(tiny_bert_folder, tmp_path):
    places = {"bert.embeddings": "cpu", "bert.encoder": "disk", "bert.pooler": "cpu", "classifier": "cpu"}
    lens = mixlens.load(tiny_bert_folder, device_map=places, offload_folder=tmp_path)
    assert any(p.is_meta for p in lens.model.parameters())
    expected = mixlens.load(tiny_bert_folder).attribute("a deep film .")
    assert torch.equal(lens.attribute("a deep film .").scores, expected.scores)
