"""The numbers of captum and inseq on tiny decoders: where ours are theirs, and where theirs are others."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import mixlens
from golden.peer_models import ANSWER, IDS, model
from mixlens import Target

THEIRS = json.loads((Path(__file__).parent / "captum_inseq.json").read_text("utf-8"))
NAMES = ("llama with biases", "qwen3")
UNKNOWN, N = 4, len(IDS)
ANY = {"tolerance": float("inf")}  # of gradients that 50 steps do not integrate
LOGIT = Target(3, of="logit")
OF_CAPTUM = {
    "Saliency, l2": ("grad_l2", {"normalize": False}),
    "InputXGradient, sum": ("grad_x_input", {}),
    "InputXGradient, l2": ("saliency", {"normalize": False}),
    "IntegratedGradients, sum": ("integrated_gradients", {"steps": 50, "baseline": "zeros", **ANY}),
    "LayerGradientXActivation of layer 0, sum": ("grad_x_input", {"layer": 1}),
    "FeatureAblation": ("blank_out", {"replace": UNKNOWN}),
}
OF_INSEQ = {
    "saliency, l2": ("grad_l2", {"normalize": False}),
    "input_x_gradient, l2": ("saliency", {"normalize": False}),
    "input_x_gradient, sum": ("grad_x_input", {}),
    "integrated_gradients, sum": ("integrated_gradients", {"steps": 50, **ANY}),
    "occlusion": ("blank_out", {"replace": UNKNOWN, "absolute": True}),
}


@cache
def lens(name):
    return mixlens.load(model(name))


def same(ours, theirs, limit=2e-6):
    """To what is left of float32 numbers that are sums of larger ones."""
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=limit * np.abs(theirs).max())


def apart(ours, theirs):
    """The largest difference as a part of the largest of theirs."""
    return float(np.abs(ours - np.array(theirs)).max() / np.abs(theirs).max())


@pytest.mark.parametrize("name", NAMES)
def test_captum_s_scores_of_the_next_token_are_ours(name):
    for label, (method, options) in OF_CAPTUM.items():
        same(lens(name).attribute(IDS, method, LOGIT, **options).scores.numpy(), THEIRS[f"captum, {name}"][label])


@pytest.mark.parametrize("name", NAMES)
def test_captum_s_deeplift_is_gradient_times_input_in_decoders(name):
    """SiLU is none of the modules that it knows, so nothing is rescaled."""
    theirs = THEIRS[f"captum, {name}"]["DeepLift, sum"]
    same(theirs, THEIRS[f"captum, {name}"]["InputXGradient, sum"])
    assert apart(lens(name).attribute(IDS, "deeplift", LOGIT, baseline="zeros").scores.numpy(), theirs) > 0.1


@pytest.mark.parametrize("name", NAMES)
def test_captum_s_language_model_wrapper_reads_the_text_twice_where_it_caches(name):
    """Its first token is right either way; from the second on it puts the whole text behind what is cached of it."""
    ours = lens(name).trace(IDS, ANSWER, "blank_out", replace=UNKNOWN).scores[:, :N].numpy()
    theirs = THEIRS[f"captum, {name}"]
    same(ours, theirs["LLMAttribution, not cached"])
    same(ours[0], theirs["LLMAttribution, cached"][0])
    assert all(
        apart(row, other) > 0.3 for row, other in zip(ours[1:], theirs["LLMAttribution, cached"][1:], strict=True)
    )


@pytest.mark.parametrize("name", NAMES)
def test_inseq_s_scores_of_an_answer_are_ours(name):
    """It explains the probability, and its baseline is the unknown token."""
    theirs = THEIRS[f"inseq, {name}"]
    unknown = lens(name).model.get_input_embeddings().weight[UNKNOWN].detach()
    for label, (method, options) in OF_INSEQ.items():
        more = {"baseline": unknown} if method == "integrated_gradients" else {}
        for t in (0, len(ANSWER) - 1):
            text, target = [*IDS, *ANSWER[:t]], Target(ANSWER[t], of="prob")
            ours = lens(name).attribute(text, method, target, **options, **more).scores.numpy()
            same(ours, np.array(theirs[label])[: len(text), t], 5e-6)


@pytest.mark.parametrize("name", NAMES)
def test_inseq_s_attention_is_that_of_the_rows_that_predict(name):
    maps = lens(name).mixing([*IDS, *ANSWER], "attention").scores.numpy()
    theirs = np.array(THEIRS[f"inseq, {name}"]["attention, mean of heads"])  # (source, answer token, layer)
    same(maps[:, N - 1 : -1].transpose(2, 1, 0), theirs)


def test_inseq_s_value_zeroing_takes_the_last_layer_s_change_behind_the_final_norm():
    maps = lens("llama with biases").mixing([*IDS, *ANSWER], "value_zeroing").scores.numpy()
    ours = maps[:, N - 1 : -1].transpose(2, 1, 0)
    theirs = np.array(THEIRS["inseq, llama with biases"]["value_zeroing"])
    same(ours[..., :-1], theirs[..., :-1], 2e-5)  # distances below 1e-5 are zeros there
    assert apart(ours[..., -1], theirs[..., -1]) > 0.05
