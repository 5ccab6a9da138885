"""The numbers that the authors' own code computes, on the same models and texts (see README.md)."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
import torch

import mixlens
from models import stored
from oracles import layers, methods
from oracles.alti_published import alti as alti_published

MODELS = ("tiny", "tinyeps", "minilm")
NAMES = {
    "W": "attention",
    "W_FIXEDRES": "attention_fixed_res",
    "W_RES": "attention_res",
    "N_FIXEDRES": "norm_fixed_res",
    "N": "norm",
    "N_RES": "norm_res",
    "N_RESLN": "norm_resln",
    "N_ENC": "globenc",
}
TEXTS = {name: json.loads((stored.GOLDEN / f"{name}.json").read_text()) for name in MODELS}


def cases(*names: str) -> pytest.MarkDecorator:
    """All texts of some models; three of `tiny` and one of the others unless asked for slow tests."""
    some = [
        pytest.param(name, index, marks=pytest.mark.slow if index > 3 or (index and name != "tiny") else ())
        for name in names or MODELS
        for index in range(len(TEXTS[name]))
    ]
    return pytest.mark.parametrize(("name", "index"), some)


each_text = cases()


@cache
def table(name: str) -> dict[str, np.ndarray]:
    with np.load(stored.GOLDEN / f"{name}.npz") as file:
        return dict(file)


def golden(name: str, part: str, index: int | str, array: str) -> torch.Tensor:
    return torch.from_numpy(table(name)[f"{part}/{index}/{array}"])


@cache
def maps(name: str, index: int, method: str, **options: object) -> mixlens.LayerMaps:
    return stored.lens(name).mixing(TEXTS[name][index], method=method, **options)


def close(got: torch.Tensor, expected: torch.Tensor, tolerance: float, relative: bool = True) -> None:
    assert got.shape == expected.shape
    scale = float(expected.abs().max()) if relative else 1.0
    assert (got - expected).abs().max() <= tolerance * scale


def scaled(maps: torch.Tensor) -> torch.Tensor:
    """By one number a layer."""
    return maps / maps.amax((1, 2), keepdim=True)


def test_every_stored_array_is_used():
    named = {f"rollout/{k}" for k in NAMES} | {f"ratio_{k}" for k in ("N", "N_RES", "N_RESLN", "N_ENC")} | set(NAMES)
    named |= {"logits", "alti", "alti_l2", "alti_ln2", "alti_rollout", "alti_l2_rollout", "alti_ln2_rollout"}
    named |= {"vz_raw", "vz", "vz_rollout", "rollout", "rollout_nores", "norm_rollout", "input_ids", "attention_mask"}
    assert {key.split("/", 2)[2] for name in MODELS for key in table(name)} == named


@each_text
def test_the_model_is_theirs(name, index):
    with torch.no_grad():
        inputs = {k: torch.tensor([v]) for k, v in TEXTS[name][index].items()}
        logits = stored.model(name)(**inputs).logits
    close(logits, golden(name, "globenc", index, "logits"), 1e-12)


@each_text
@pytest.mark.parametrize("symbol", NAMES)
def test_norm_family(name, index, symbol):
    got = maps(name, index, NAMES[symbol])
    close(got.scores, golden(name, "globenc", index, symbol), 1e-8)
    rolled = got.rollout(residual=None).scores
    close(scaled(rolled), scaled(golden(name, "globenc", index, f"rollout/{symbol}")), 1e-8)


@each_text
@pytest.mark.parametrize("symbol", ["N", "N_RES", "N_RESLN", "N_ENC"])
def test_mixing_ratios(name, index, symbol):
    got = stored.lens(name).mixing_ratio(TEXTS[name][index], method=NAMES[symbol])
    close(got, golden(name, "globenc", index, f"ratio_{symbol}"), 1e-8)


def test_padded_batch():
    texts = TEXTS["tiny"]
    ids, mask = (golden("tiny", "globenc", "batch", k) for k in ("input_ids", "attention_mask"))
    types = torch.zeros_like(ids)
    for row, one in zip(types, texts, strict=True):
        row[: len(one["token_type_ids"])] = torch.tensor(one["token_type_ids"])
    batch = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    got = stored.lens("tiny").mixing(batch, method="globenc")
    ratios = stored.lens("tiny").mixing_ratio(batch, method="globenc")
    assert [len(one.tokens) for one in got] == [len(t["input_ids"]) for t in texts]
    expected, expected_ratios = (golden("tiny", "globenc", "batch", k) for k in ("N_ENC", "ratio_N_ENC"))
    for b, one in enumerate(got):
        n = len(one.tokens)
        close(one.scores, expected[:, b, :n, :n], 1e-8)
        close(ratios[b], expected_ratios[:, b, :n], 1e-8)


@each_text
def test_value_zeroing(name, index):
    raw = maps(name, index, "value_zeroing", normalize=False)
    close(raw.scores, golden(name, "vz", index, "vz_raw"), 1e-6)
    got = maps(name, index, "value_zeroing")
    close(got.scores, golden(name, "vz", index, "vz"), 1e-6)
    close(got.rollout().scores, golden(name, "vz", index, "vz_rollout"), 1e-6)


def test_value_zeroing_beside_padding():
    ids = TEXTS["tiny"][1]["input_ids"]
    batch = {"input_ids": torch.tensor([ids + [0] * 3]), "attention_mask": torch.tensor([[1] * len(ids) + [0] * 3])}
    got = stored.lens("tiny").mixing(batch, method="value_zeroing", normalize=False)
    close(got.scores, golden("tiny", "vz", "padded1", "vz_raw")[:, : len(ids), : len(ids)], 1e-6)


ALTI = {"alti": {}, "alti_l2": {"p": 2}, "alti_ln2": {"upto": "ln2"}}


@cases("tiny")
@pytest.mark.parametrize("variant", ALTI)
def test_alti(name, index, variant):
    got = maps(name, index, "alti", **ALTI[variant])
    close(got.scores, golden(name, "alti", index, variant), 1e-5, relative=False)
    close(got.rollout().scores, golden(name, "alti", index, f"{variant}_rollout"), 1e-5, relative=False)


@cases("tiny", "minilm")
def test_alti_s_baseline(name, index):
    got = maps(name, index, "norm_resln").rollout(normalize=True)
    close(got.scores, golden(name, "alti", index, "norm_rollout"), 1e-5, relative=False)


@each_text
@pytest.mark.parametrize("variant", ALTI)
def test_alti_where_their_code_departs_from_their_paper(name, index, variant):
    """An oracle with the two departures meets their numbers to rounding, so that these are all there is between us."""
    model, inputs = stored.model(name), {k: torch.tensor([v]) for k, v in TEXTS[name][index].items()}
    with torch.no_grad():
        first = model.bert.embeddings(**inputs)[0].numpy()
    expected = golden(name, "alti", index, variant)
    hand = list(layers.bert(model.bert, first))
    theirs = torch.from_numpy(np.stack([alti_published(layer, **ALTI[variant]) for layer in hand]))
    close(theirs, expected, 1e-9, relative=False)
    ours = maps(name, index, "alti", **ALTI[variant]).scores
    paper = torch.from_numpy(np.stack([methods.alti(layer, **ALTI[variant]) for layer in hand]))
    close(ours, paper, 1e-10, relative=False)
    close(ours, expected, 5e-3 if name == "tinyeps" else 5e-4, relative=False)  # 384 times 1e-6 in MiniLM's distances


@each_text
def test_attention_rollout(name, index):
    got = maps(name, index, "attention")
    close(got.rollout().scores, golden(name, "flow", index, "rollout"), 1e-8)
    close(got.rollout(residual=None).scores, golden(name, "flow", index, "rollout_nores"), 1e-8)
