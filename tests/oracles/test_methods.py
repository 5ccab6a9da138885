"""Every mixing method against its literal oracle, in float64."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

import mixlens
from mixlens.architectures import spec_for
from mixlens.mixing import MIXING, RATIOS
from models import exact, families
from oracles import layers, methods
from oracles.layers import NAMES, by_hand

N = 13  # more tokens than a head has dimensions, or effective attention is attention
ORDERS = {"bert": "post", "gpt_neox": "parallel"}


def order(name: str) -> str:
    return ORDERS.get(name, "pre")


def close(got: torch.Tensor, expected: np.ndarray, tolerance: float = 1e-11) -> None:
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=tolerance * scale)


def test_every_method_has_an_oracle():
    elsewhere = {"value_zeroing", "hta", "hta_x_input"}  # below, and in test_hta.py
    assert {*methods.METHODS, *elsewhere} == set(MIXING)


CASES = [
    (name, method)
    for name in NAMES
    for method in methods.METHODS
    if method in MIXING and order(name) in MIXING[method].orders
]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_maps(name, method):
    expected = np.stack([methods.METHODS[method](layer) for layer in by_hand(name, N)])
    close(families.lens(name).mixing(families.text(N), method=method).scores, expected)


@pytest.mark.parametrize("name", NAMES)
def test_attention_of_each_head(name):
    maps = families.lens(name).mixing(families.text(N), method="attention", per_head=True)
    close(maps.scores, np.stack([layer.alpha for layer in by_hand(name, N)]))


def test_effective_attention_is_not_attention_here():
    lens = families.lens("bert")
    effective, plain = (lens.mixing(families.text(N), method=m).scores for m in ("effective_attention", "attention"))
    assert (effective - plain).abs().max() > 0.01


def test_effective_attention_of_values_in_few_dimensions():
    """Five tokens, eight dimensions a head, but values in three of them: there is something that no output can see."""
    model = families.make("bert", attention=exact.ATTENTION)
    with torch.no_grad():
        for layer in model.encoder.layer:
            for parameter in layer.attention.self.value.parameters():
                parameter.view(4, 8, -1)[:, 3:] = 0
    text = families.text(5)
    first = exact.forward(model, text, output_hidden_states=True).hidden_states[0]
    hand = list(layers.bert(model, first[0].numpy()))
    got = mixlens.load(model).mixing(text, method="effective_attention").scores
    close(got, np.stack([methods.effective_attention(layer) for layer in hand]))
    assert np.abs(got.numpy() - np.stack([methods.attention(layer) for layer in hand])).max() > 0.01


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {"p": 2}) for name in NAMES), ("bert", {"upto": "ln2"}), ("bert", {"p": 2, "upto": "ln2"})],
)
def test_alti_options(name, options):
    expected = np.stack([methods.alti(layer, **options) for layer in by_hand(name, N)])
    close(families.lens(name).mixing(families.text(N), method="alti", **options).scores, expected)


@pytest.mark.parametrize(("name", "method"), [(n, m) for n in NAMES for m in RATIOS if order(n) in MIXING[m].orders])
def test_mixing_ratio(name, method):
    expected = np.stack([methods.mixing_ratio(layer, method) for layer in by_hand(name, N)])
    close(families.lens(name).mixing_ratio(families.text(N), method=method), expected)


@cache
def really_zeroed(name: str) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    layers = 4 if name.startswith(("albert", "modernbert")) else 3
    return tuple(methods.zeroed_outputs(name, families.text(), layer) for layer in range(layers))


# All distances on two, and one on each other family: a distance is of the two outputs, whichever layer they are of.
WHOLE = ("bert", "gemma2")
QUICK = (*NAMES, "albert-inner", "distilbert", "opt")
ZEROED = [
    pytest.param(name, distance, marks=() if name in QUICK else pytest.mark.slow)
    for name in families.FAMILIES
    if spec_for(families.config_of(name)).seam == "interface"  # the others: tests/capture/test_softmax.py
    for distance in (methods.DISTANCES if name in WHOLE else ["cosine"])
]


@pytest.mark.parametrize(("name", "distance"), ZEROED)
def test_value_zeroing_is_zeroing_the_value_in_the_model(name, distance):
    raw = np.stack([methods.distances(y, moved, distance) for y, moved in really_zeroed(name)])
    if families.FAMILIES[name].causal:
        raw = np.tril(raw)
    raw[raw < 1e-13] = 0  # what is out of sight moves by rounding only
    lens, text = families.lens(name), families.text()
    got = lens.mixing(text, method="value_zeroing", distance=distance, normalize=False)
    close(got.scores, raw)
    assert not got.rows_sum_to_one
    got = lens.mixing(text, method="value_zeroing", distance=distance)
    close(got.scores, raw / raw.sum(-1, keepdims=True), 1e-10)
    assert got.rows_sum_to_one


@pytest.mark.parametrize("name", ["bert", "gemma2"])
def test_value_zeroing_of_standardized_outputs(name):
    lens = families.lens(name)
    sample = families.texts((6, 3, 8), seed=5)
    mean, deviation = lens.output_statistics(sample)
    outputs = [methods.zeroed_outputs(name, text, layer)[0] for layer in range(3) for text in sample]
    for layer in range(3):
        rows = np.concatenate(outputs[3 * layer : 3 * layer + 3])
        close(mean[layer], rows.mean(0))
        close(deviation[layer], rows.std(0))
    expected = []
    for layer, (y, moved) in enumerate(really_zeroed(name)):
        m, s = mean[layer].numpy(), deviation[layer].numpy()
        expected.append(methods.distances((y - m) / s, (moved - m) / s, "cosine"))
    expected = np.stack(expected)
    expected[expected < 1e-13] = 0
    got = lens.mixing(families.text(), method="value_zeroing", standardize=(mean, deviation), normalize=False)
    close(got.scores, expected)


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt_neox", "bert"])
@pytest.mark.parametrize("options", [{"heads": "sum"}, {"threshold": 0.1}, {"with_residual": False}])
def test_ifr_options(name, options):
    expected = np.stack([methods.ifr(layer, **options) for layer in by_hand(name, N)])
    close(families.lens(name).mixing(families.text(N), method="ifr", **options).scores, expected)
