"""A vision transformer once more, written out in numpy: patches, layers, terms, and the methods made of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import erf

from models import pictures

HEADS = 4


@pytest.fixture(scope="module")
def case():
    return Case()


class Case:
    """One picture through the model by hand; of each layer the terms (query, key, dim), norms of the whole."""

    def __init__(self) -> None:
        self.model, self.x = pictures.model("vit"), pictures.pixels()[0]
        self.w = {name: t.detach().numpy() for name, t in self.model.state_dict().items()}
        h = self.embedded()
        self.terms, self.outs, self.attention, self.values = [], [], [], []
        for k in range(3):
            h = self.layer(h, k)
        last = self.norm(h, "vit.layernorm")
        self.logits = last[0] @ self.w["classifier.weight"].T + self.w["classifier.bias"]

    def name(self, k: int, *ways: str) -> str:
        """Whichever name a version of transformers gives a module of layer k."""
        for way in ways:
            for place in (f"vit.layers.{k}.{way}", f"vit.encoder.layer.{k}.{way}"):
                if f"{place}.weight" in self.w:
                    return place
        raise AssertionError(ways)

    def embedded(self) -> np.ndarray:
        weight = self.w["vit.embeddings.patch_embeddings.projection.weight"]
        bias = self.w["vit.embeddings.patch_embeddings.projection.bias"]
        x, size = self.x.numpy(), pictures.PATCH
        rows = [self.w["vit.embeddings.cls_token"][0, 0]]
        for i in range(5):
            for j in range(5):
                patch = x[:, i * size : (i + 1) * size, j * size : (j + 1) * size]
                rows.append(np.array([(w * patch).sum() for w in weight]) + bias)
        return np.stack(rows) + self.w["vit.embeddings.position_embeddings"][0]

    def norm(self, h: np.ndarray, name: str) -> np.ndarray:
        mean, spread = h.mean(-1, keepdims=True), h.var(-1, keepdims=True)
        return (h - mean) / np.sqrt(spread + 1e-12) * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def linear(self, h: np.ndarray, name: str) -> np.ndarray:
        return h @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def layer(self, h: np.ndarray, k: int) -> np.ndarray:
        e = self.norm(h, self.name(k, "layernorm_before"))
        query, key, value = (
            self.linear(e, self.name(k, f"attention.{short}_proj", f"attention.attention.{long}"))
            for short, long in (("q", "query"), ("k", "key"), ("v", "value"))
        )
        out = self.name(k, "attention.o_proj", "attention.output.dense")
        n, dim = h.shape
        width = dim // HEADS
        terms = np.zeros((n, n, dim))
        weights = np.zeros((HEADS, n, n))
        for head in range(HEADS):
            part = slice(head * width, (head + 1) * width)
            scores = query[:, part] @ key[:, part].T / np.sqrt(width)
            alpha = np.exp(scores - scores.max(1, keepdims=True))
            alpha /= alpha.sum(1, keepdims=True)
            weights[head] = alpha
            carried = value[:, part] @ self.w[f"{out}.weight"][:, part].T
            terms += alpha[:, :, None] * carried[None]
        terms[range(n), range(n)] += h
        a = terms.sum(1) + self.w[f"{out}.bias"]
        self.terms.append(terms)
        self.outs.append(a)
        self.attention.append(weights)
        inner = self.linear(
            self.norm(a, self.name(k, "layernorm_after")), self.name(k, "mlp.fc1", "intermediate.dense")
        )
        inner = inner * 0.5 * (1 + erf(inner / np.sqrt(2)))
        return a + self.linear(inner, self.name(k, "mlp.fc2", "output.dense"))


def rolled(maps: list[np.ndarray]) -> np.ndarray:
    total = np.eye(len(maps[0]))
    for one in maps:
        total = one @ total
    return total


def shares(rows: np.ndarray) -> np.ndarray:
    return rows / rows.sum(-1, keepdims=True)


def alti(terms: np.ndarray, total: np.ndarray) -> np.ndarray:
    """How near each term comes to the sum, by L1 distances."""
    near = np.abs(total).sum(-1)[:, None] - np.abs(total[:, None] - terms).sum(-1)
    return shares(np.maximum(near, 0))


def close(got: torch.Tensor, expected: np.ndarray) -> None:
    assert np.abs(got.numpy() - expected).max() <= 1e-10 * np.abs(expected).max()


def test_the_answer(case):
    got = case.model(pixel_values=case.x[None]).logits[0].detach()
    close(got, case.logits)


def test_attention(case):
    close(pictures.lens("vit").mixing(case.x, method="attention").scores, np.stack([a.mean(0) for a in case.attention]))


def test_globenc(case):
    maps = [np.linalg.norm(terms, axis=-1) for terms in case.terms]
    close(pictures.lens("vit").mixing(case.x, method="globenc").scores, np.stack(maps))
    close(pictures.lens("vit").attribute(case.x, method="globenc").scores, rolled([shares(m) for m in maps])[0])


def test_alti(case):
    maps = [alti(terms, total) for terms, total in zip(case.terms, case.outs, strict=True)]
    close(pictures.lens("vit").mixing(case.x, method="alti").scores, np.stack(maps))
    close(pictures.lens("vit").attribute(case.x, method="alti").scores, rolled(maps)[0])


def test_attention_rollout(case):
    maps = [0.5 * a.mean(0) + 0.5 * np.eye(26) for a in case.attention]
    close(pictures.lens("vit").attribute(case.x, method="attention_rollout").scores, rolled(maps)[0])


@pytest.mark.parametrize("filler", ["grey", "zero"])
def test_blank_out(case, filler):
    lens, model = pictures.lens("vit"), case.model
    attr = lens.attribute(case.x, method="blank_out", replace=filler)

    def chance(x: torch.Tensor) -> float:
        return float(model(pixel_values=x[None]).logits[0].detach().softmax(-1)[attr.target.index])

    expected = np.zeros(26)
    for i in range(5):
        for j in range(5):
            other = case.x.clone()
            box = (slice(None), slice(i * 6, i * 6 + 6), slice(j * 6, j * 6 + 6))
            other[box] = case.x.mean((1, 2), keepdim=True) if filler == "grey" else 0.0
            expected[1 + 5 * i + j] = chance(case.x) - chance(other)
    close(attr.scores, expected)
