"""Numbers of AttCAT's authors and of plain re-implementations, to 1e-9; of relevance to 1e-6 (see README.md)."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
import torch

from mixlens import Target
from models import stored

TOLERANCE = 1e-9  # of the largest score
UNK = {"tiny": 1, "tinyeps": 1, "minilm": 100}
CLS, SEP, MASK = ({"tiny": t, "tinyeps": t, "minilm": m} for t, m in ((2, 101), (3, 102), (4, 103)))


@cache
def table() -> dict[str, np.ndarray]:
    with np.load(stored.GOLDEN / "attribution.npz") as file:
        return dict(file)


CASES = sorted({tuple(key.split("/")[:2]) for key in table()})
each_text = pytest.mark.parametrize(("name", "index"), CASES)
CLASSES = [0, 1]


@cache
def given(name: str, index: str) -> dict[str, list[int]]:
    return json.loads((stored.GOLDEN / f"{name}.json").read_text())[int(index)]


def golden(name: str, index: str, array: str) -> np.ndarray:
    return np.squeeze(table()[f"{name}/{index}/{array}"])


def close(got: torch.Tensor, expected: np.ndarray, tolerance: float = TOLERANCE, what: str = "") -> None:
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max(), err_msg=what)


FULL = {
    "AttCAT": ("attcat", {"indexing": "input"}),
    "RawAtt": ("attention", {"zero_cls": True}),
    "Rollout": ("attention_rollout", {"zero_cls": True}),
    "TransAtt": ("trans_att", {"zero_cls": True}),
    "PartialLRP": ("partial_lrp", {"zero_cls": True}),
    "reimpl/AttCAT_paper_output_h": ("attcat", {}),
    "reimpl/AttGrads_clsrow": ("att_grads", {}),
    "reimpl/CAT_code_indexing": ("cat", {"indexing": "input"}),
    "reimpl/CAT_paper_indexing": ("cat", {}),
    "reimpl/GradSAM_rowmean_relu": ("grad_sam", {}),
    "reimpl/Grads_clsrow": ("grads", {}),
}
LRP = ("TransAtt", "PartialLRP")
SALIENCY = {
    "gradxinput_l2": ("saliency", {}),
    "gradxinput_sum": ("grad_x_input", {}),
    "grad_l2": ("grad_l2", {}),
    "grad_abs_sum": ("grad_sum", {"absolute": True}),
}
MISC = {"pred", "blankout_unk", "blankout_mask", "ig_prob_sum", "hta_global_cls_norm"}


def test_every_stored_array_is_used():
    known = {f"full/c{c}/{k}" for c in CLASSES for k in (*FULL, "reimpl/AttCAT_layers_code")} | MISC
    known |= {f"saliency/c{c}/{k}" for c in (0, 1, 2) for k in SALIENCY} | {f"specmask/c{c}/AttCAT" for c in CLASSES}
    assert {key.split("/", 2)[2] for key in table()} == known


@each_text
@pytest.mark.parametrize("c", CLASSES)
def test_attcat_and_its_comparisons(name, index, c):
    ids = given(name, index)["input_ids"]  # their code passes no token types
    for array, (method, options) in FULL.items():
        got = stored.lens(name).attribute(ids, method, target=c, normalize=False, **options)
        # (relevance: the guards of their divisions stand at other places of the same sums)
        close(got.scores, golden(name, index, f"full/c{c}/{array}"), 1e-6 if array in LRP else TOLERANCE, array)
        if array == "AttCAT":
            close(got.layers, golden(name, index, f"full/c{c}/reimpl/AttCAT_layers_code"))


class Special:
    """What a lens asks of a tokenizer where token ids come in."""

    def __init__(self, name: str) -> None:
        self.all_special_ids = [CLS[name], SEP[name]]

    def __call__(self, text: str) -> None:
        raise AssertionError("no text comes in")

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(i) for i in ids]


@each_text
@pytest.mark.parametrize("c", CLASSES)
def test_attcat_with_hidden_special_tokens(name, index, c):
    import mixlens

    lens = mixlens.load(stored.lens(name).model, Special(name))
    got = lens.attribute(given(name, index)["input_ids"], "attcat", target=c, indexing="input", mask_special=True)
    close(got.scores, golden(name, index, f"specmask/c{c}/AttCAT"))


@each_text
@pytest.mark.parametrize("array", SALIENCY)
def test_gradients(name, index, array):
    method, options = SALIENCY[array]
    for c in range(3 if name == "tinyeps" else 2):
        got = stored.lens(name).attribute(given(name, index), method, target=c, normalize=False, **options)
        close(got.scores, golden(name, index, f"saliency/c{c}/{array}"))


@each_text
@pytest.mark.parametrize("kind", ["unk", "mask"])
def test_blank_out(name, index, kind):
    c = int(golden(name, index, "pred"))
    filler = (UNK if kind == "unk" else MASK)[name]
    got = stored.lens(name).attribute(given(name, index), "blank_out", target=c, replace=filler)
    assert got.target.index == c
    close(got.scores, golden(name, index, f"blankout_{kind}"))


@each_text
def test_integrated_gradients(name, index):
    """Right Riemann sums of 100 steps need not converge on random models: the error is switched off."""
    lens, inputs = stored.lens(name), given(name, index)
    ids = inputs["input_ids"]
    masks = torch.tensor([[CLS[name], *[MASK[name]] * (len(ids) - 2), SEP[name]]])
    with torch.no_grad():
        types = torch.tensor([inputs["token_type_ids"]])
        baseline = lens.model.bert.embeddings(input_ids=masks, token_type_ids=types)[0]
    got = lens.attribute(
        inputs,
        "integrated_gradients",
        target=Target(int(golden(name, index, "pred")), of="prob"),
        rule="riemann_right",
        baseline=baseline,
        tolerance=float("inf"),
    )
    close(got.scores, golden(name, index, "ig_prob_sum"), 1e-6)  # captum's step sizes are float32


@each_text
def test_hta_by_the_input_embeddings(name, index):
    got = stored.lens(name).attribute(given(name, index), "hta_x_input", normalize=False)
    close(got.scores, golden(name, index, "hta_global_cls_norm"))
