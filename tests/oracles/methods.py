"""Every mixing method once more, straight from its formula, one pair of tokens at a time, on a layer by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from scipy.linalg import null_space
from scipy.stats import spearmanr

from models import exact, families
from oracles.layers import Layer

# --- maps of the weights ---


def attention(layer: Layer) -> ndarray:
    return layer.alpha.mean(0)


def attention_fixed_res(layer: Layer) -> ndarray:
    return 0.5 * layer.alpha.mean(0) + 0.5 * np.eye(len(layer.x))


def attention_res(layer: Layer) -> ndarray:
    """W_RES (GlobEnc Eq. 14-15)."""
    w, r = layer.alpha.mean(0), mixing_ratio(layer, "globenc")
    out = np.zeros_like(w)
    for i in range(len(w)):
        others = [j for j in range(len(w)) if j != i and w[i, j] > 0]
        mass = sum(w[i, j] for j in others)
        for j in others:
            out[i, j] = r[i] * w[i, j] / mass
        out[i, i] = 1 - r[i] if others else 1.0
    return out


def effective_attention(layer: Layer) -> ndarray:
    """Each row of weights minus its part in the left null space of the terms f(x_j) that it sees (Brunner 2020)."""
    out = np.zeros_like(layer.alpha)
    for h, w in enumerate(layer.alpha):
        for i, row in enumerate(w):
            seen = layer.visible[i]
            hidden = null_space((layer.v[h][seen] @ layer.wo[h]).T)  # u with u' T = 0
            out[h, i, seen] = row[seen] - hidden @ (hidden.T @ row[seen])
    return out.mean(0)


# --- maps of the terms ---


def terms(layer: Layer, stage: str) -> ndarray:
    """(query, key, dim): what token j adds to token i at a stage of the layer."""
    n, d = layer.x.shape
    out = np.zeros((n, n, d))
    for i in range(n):
        for j in range(n):
            u = sum(layer.alpha[h, i, j] * layer.v[h, j] @ layer.wo[h] for h in range(len(layer.alpha)))
            if stage != "attention":
                if layer.post_attention is not None:
                    u = layer.post_attention.frozen(u, layer.attn[i])
                if i == j:
                    u = u + layer.x[i]
            if stage in ("ln1", "ln2"):
                u = layer.ln1.frozen(u, layer.a[i])
            if stage == "ln2":
                u = layer.ln2.frozen(u, layer.before_ln2[i])
            out[i, j] = u
    return out


def end(layer: Layer) -> str:
    return "ln2" if layer.order == "post" else "residual"


def norms(layer: Layer, stage: str) -> ndarray:
    return np.sqrt((terms(layer, stage) ** 2).sum(-1))


def norm(layer: Layer) -> ndarray:
    return norms(layer, "attention")


def norm_fixed_res(layer: Layer) -> ndarray:
    n = norms(layer, "attention")
    return 0.5 * n / n.sum(1, keepdims=True) + 0.5 * np.eye(len(n))


def norm_res(layer: Layer) -> ndarray:
    return norms(layer, "residual")


def norm_resln(layer: Layer) -> ndarray:
    return norms(layer, "ln1")


def globenc(layer: Layer) -> ndarray:
    return norms(layer, end(layer))


def alti(layer: Layer, p: int = 1, upto: str = "ln1") -> ndarray:
    """C (ALTI Eq. 9-10): y_i is the real vector, output bias and beta in."""
    t = terms(layer, upto if layer.order == "post" else "residual")
    y = layer.a if layer.order != "post" else layer.ln1(layer.a) if upto == "ln1" else layer.y
    c = np.zeros(t.shape[:2])
    for i, j in np.argwhere(layer.visible):
        c[i, j] = max(0.0, np.linalg.norm(y[i], p) - np.linalg.norm(t[i, j] - y[i], p))
    total = c.sum(1, keepdims=True)
    return np.divide(c, total, out=np.zeros_like(c), where=total > 0)


def ifr(layer: Layer, heads: str = "each", threshold: float = 0.0, with_residual: bool = True) -> ndarray:
    """Edges max(0, |a_i|_1 - |a_i - t|_1) of every head's term, and of the residual (Ferrando & Voita 2024)."""
    n, count = len(layer.x), len(layer.alpha)
    out = np.zeros((n, n))
    for i in range(n):
        size = np.abs(layer.a[i]).sum()

        def edge(t: ndarray, i: int = i, size: float = size) -> float:
            return max(0.0, size - np.abs(layer.a[i] - t).sum())

        edges = []
        for j in np.flatnonzero(layer.visible[i]):
            parts = [layer.alpha[h, i, j] * (layer.v[h, j] @ layer.wo[h]) for h in range(count)]
            if layer.post_attention is not None:
                parts = [layer.post_attention.frozen(t, layer.attn[i]) for t in parts]
            edges += [(j, edge(t)) for t in (parts if heads == "each" else [sum(parts)])]
        if with_residual:
            edges.append((i, edge(layer.x[i])))
        total = sum(e for _, e in edges)
        for j, e in edges:
            out[i, j] += e if e >= threshold * total else 0.0
    sums = out.sum(1, keepdims=True)
    return np.divide(out, sums, out=np.zeros_like(out), where=sums > 0)


def mixing_ratio(layer: Layer, method: str) -> ndarray:
    """r_i (GlobEnc Eq. 8, 14): the norm of the sum of the other tokens' terms over that plus the own term's norm."""
    stage = {"norm": "attention", "norm_res": "residual", "norm_resln": "ln1", "globenc": end(layer)}[method]
    t = terms(layer, stage)
    out = np.zeros(len(t))
    for i in range(len(t)):
        others = np.linalg.norm(sum((t[i, j] for j in range(len(t)) if j != i), np.zeros_like(t[i, i])))
        out[i] = others / (others + np.linalg.norm(t[i, i])) if others > 0 else 0.0
    return out


# --- Value Zeroing: nothing but the model itself, run again with a value really zeroed ---


def zeroed_outputs(name: str, ids: list[int], layer: int) -> tuple[ndarray, ndarray]:
    """A layer's outputs (token, dim), and (query, zeroed token, dim): one token's value vectors zero in each copy."""
    model, n = families.model(name, attention=exact.ATTENTION), len(ids)
    attentions, outputs = itertools.count(), list[torch.Tensor]()

    def zero(module: Any, value: torch.Tensor) -> torch.Tensor | None:
        if next(attentions) != layer:
            return None
        value = value.clone()
        for token in range(n):  # token t in copy t; the last copy has none
            value[token, :, token] = 0
        return value

    def keep(module: Any, args: Any, out: Any) -> None:
        outputs.append((out[0] if isinstance(out, tuple) else out).view(n + 1, n, -1))

    hooks = [module.register_forward_hook(keep) for module in exact.layers(model)]
    try:
        with exact.seeing(zero):
            exact.forward(model, *[ids] * (n + 1))
    finally:
        for hook in hooks:
            hook.remove()
    out = outputs[layer].numpy()
    return out[-1], out[:-1].swapaxes(0, 1)


def cosine(a: ndarray, b: ndarray) -> float:
    """1 - cos; exact to rounding by the angle's half chord."""
    return 0.5 * float(((a / np.linalg.norm(a) - b / np.linalg.norm(b)) ** 2).sum())


def spearman(a: ndarray, b: ndarray) -> float:
    return 1 - float(spearmanr(a, b).statistic)


DISTANCES: dict[str, Callable[[ndarray, ndarray], float]] = {
    "cosine": cosine,
    "euclidean": lambda a, b: float(np.linalg.norm(a - b)),
    "spearman": spearman,
}


def distances(y: ndarray, moved: ndarray, distance: str) -> ndarray:
    n = len(y)
    return np.array([[DISTANCES[distance](moved[i, j], y[i]) for j in range(n)] for i in range(n)])


METHODS: dict[str, Callable[..., ndarray]] = {
    "attention": attention,
    "attention_fixed_res": attention_fixed_res,
    "attention_res": attention_res,
    "effective_attention": effective_attention,
    "norm": norm,
    "norm_fixed_res": norm_fixed_res,
    "norm_res": norm_res,
    "norm_resln": norm_resln,
    "globenc": globenc,
    "alti": alti,
    "ifr": ifr,
}
