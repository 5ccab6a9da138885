"""A wav2vec2 once more, written out in numpy from the samples on: convolutions, layers, the answer, Value Zeroing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import erf

from models import sounds

HEADS, KIND = 4, "wav2vec2-classes"


def gelu(x):
    return x * 0.5 * (1 + erf(x / np.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Case:
    """One sound through the model by hand: the input of each layer, its attention, and its output."""

    def __init__(self) -> None:
        self.lens = sounds.lens(KIND)
        self.w = {name: t.detach().numpy() for name, t in sounds.model(KIND).state_dict().items()}
        self.x = sounds.sound()
        h = self.embedded((self.x - self.x.mean()) / np.sqrt(self.x.var() + 1e-7))
        self.inputs, self.attention = [h], []
        for k in range(3):
            weights, h = self.layer(h, k)
            self.attention.append(weights)
            self.inputs.append(h)
        pooled = self.linear(h, "projector").mean(0)
        self.logits = self.linear(pooled, "classifier")

    def conv(self, x, weight, stride, groups=1):
        """(channel, time) by a convolution without padding."""
        out, width, kernel = weight.shape
        count = (x.shape[1] - kernel) // stride + 1
        made = np.zeros((out, count))
        for o in range(out):
            part = x[(o * groups // out) * width : (o * groups // out + 1) * width]
            for t in range(count):
                made[o, t] = (weight[o] * part[:, t * stride : t * stride + kernel]).sum()
        return made

    def embedded(self, x):
        h = x[None]
        for i, stride in enumerate((5, 2, 2)):
            name = f"wav2vec2.feature_extractor.conv_layers.{i}"
            h = self.conv(h, self.w[f"{name}.conv.weight"], stride)
            if i == 0:  # a group a channel: over all of its time
                h = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5)
                h = h * self.w[f"{name}.layer_norm.weight"][:, None] + self.w[f"{name}.layer_norm.bias"][:, None]
            h = gelu(h)
        h = self.linear(
            self.norm(h.T, "wav2vec2.feature_projection.layer_norm"), "wav2vec2.feature_projection.projection"
        )
        gain, v, bias = self.positional()
        weight = gain * v / np.sqrt((v**2).sum((0, 1), keepdims=True))
        wide = np.pad(h.T, ((0, 0), (4, 4)))
        places = gelu((self.conv(wide, weight, 1, groups=4) + bias[:, None])[:, :-1])
        return self.norm(h + places.T, "wav2vec2.encoder.layer_norm")

    def positional(self):
        name = "wav2vec2.encoder.pos_conv_embed.conv"
        parts = [f"{name}.parametrizations.weight.original{k}" for k in (0, 1)]
        return (*(self.w[part] for part in parts), self.w[f"{name}.bias"])

    def norm(self, h, name):
        mean, spread = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
        return (h - mean) / np.sqrt(spread + 1e-5) * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def linear(self, h, name):
        return h @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def layer(self, h, k, without=None):
        """(head, query, key) weights and the output; `without`: the frame whose value is zero."""
        name = f"wav2vec2.encoder.layers.{k}"
        q, key, v = (self.linear(h, f"{name}.attention.{part}_proj") for part in "qkv")
        if without is not None:
            v = v.copy()
            v[without] = 0
        width = h.shape[1] // HEADS
        weights, mixed = [], np.zeros_like(h)
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            weights.append(softmax(q[:, part] @ key[:, part].T / np.sqrt(width)))
            mixed[:, part] = weights[-1] @ v[:, part]
        a = self.norm(h + self.linear(mixed, f"{name}.attention.out_proj"), f"{name}.layer_norm")
        inner = gelu(self.linear(a, f"{name}.feed_forward.intermediate_dense"))
        return np.stack(weights), self.norm(
            a + self.linear(inner, f"{name}.feed_forward.output_dense"), f"{name}.final_layer_norm"
        )


@pytest.fixture(scope="module")
def case():
    return Case()


def close(got, expected, tolerance=1e-6):
    """The feature extractor gives float32: what is fed is as near as that; see the next test for the layers alone."""
    assert np.abs(np.asarray(got) - expected).max() <= tolerance * np.abs(expected).max()


def test_from_the_samples_to_the_answer(case):
    fed = {"input_values": (case.x - case.x.mean()) / np.sqrt(case.x.var() + 1e-7)}
    x = torch.from_numpy(fed["input_values"])[None]
    close(case.lens.model(x).logits[0].detach(), case.logits, 1e-10)
    close(case.lens.mixing(fed, method="attention").scores, np.stack([a.mean(0) for a in case.attention]), 1e-10)
    attr = case.lens.attribute(case.x, method="saliency")
    assert attr.meta["prediction"] == f"LABEL_{case.logits.argmax()}"
    close(attr.meta["probability"], softmax(case.logits).max())


def test_value_zeroing(case):
    """The distance between a frame's vector with and without the value of another, divided by the row's sum."""
    fed = {"input_values": (case.x - case.x.mean()) / np.sqrt(case.x.var() + 1e-7)}
    maps = []
    for k in range(3):
        whole = case.inputs[k + 1]
        distance = np.zeros((24, 24))
        for j in range(24):
            y = case.layer(case.inputs[k], k, without=j)[1]
            near = (y * whole).sum(-1) / np.linalg.norm(y, axis=-1) / np.linalg.norm(whole, axis=-1)
            distance[:, j] = 1 - near
        maps.append(distance / distance.sum(-1, keepdims=True))
    close(case.lens.mixing(fed, method="value_zeroing").scores, np.stack(maps), 1e-9)
