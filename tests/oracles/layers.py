"""Six architectures' layers by hand, in numpy: weights and the embedding output in, everything in a layer out.

Written from the architectures' papers and the names in their checkpoints; nothing of mixlens and no layer code of
transformers is used (but for its table of rotary angles, which it rounds to float32). `by_hand(name)` is held
against the model's own output by a test before anything else is held against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from scipy.special import erf

from models import exact, families

NAMES = ("bert", "gpt2", "gpt_neox", "llama", "gemma2", "granite", "gpt_oss", "modernbert")


@dataclass(frozen=True)
class Norm:
    """A LayerNorm, or with `rms` an RMSNorm."""

    gain: ndarray
    bias: ndarray | float
    eps: float
    rms: bool = False

    def center(self, u: ndarray) -> ndarray:
        return u if self.rms else u - u.mean(-1, keepdims=True)

    def spread(self, at: ndarray) -> ndarray:
        return np.sqrt((self.center(at) ** 2).mean(-1, keepdims=True) + self.eps)

    def __call__(self, u: ndarray) -> ndarray:
        return self.gain * self.center(u) / self.spread(u) + self.bias

    def frozen(self, u: ndarray, at: ndarray) -> ndarray:
        """The part of a summand u of the vector `at`: no bias, the spread of `at`."""
        return self.gain * self.center(u) / self.spread(at)


@dataclass
class Layer:
    """One layer of one text. n tokens, H heads, d dimensions."""

    order: str
    x: ndarray  # (n, d)
    alpha: ndarray  # (H, n, n)
    visible: ndarray  # (n, n)
    v: ndarray  # (H, n, head dim), bias in
    wo: ndarray  # (H, head dim, d)
    bo: ndarray | float
    ffn: Callable[[ndarray], ndarray]
    ln1: Norm | None
    ln2: Norm
    post_attention: Norm | None = None

    @property
    def attn(self) -> ndarray:
        """The output projection's output."""
        return sum(self.alpha[h] @ self.v[h] @ self.wo[h] for h in range(len(self.alpha))) + self.bo

    @property
    def a(self) -> ndarray:
        """The residual sum behind the attention."""
        return self.x + (self.attn if self.post_attention is None else self.post_attention(self.attn))

    @property
    def before_ln2(self) -> ndarray:
        """What enters a post-LN layer's second norm."""
        assert self.ln1 is not None
        b = self.ln1(self.a)
        return b + self.ffn(b)

    @property
    def y(self) -> ndarray:
        if self.order == "post":
            return self.ln2(self.before_ln2)
        return self.a + self.ffn(self.ln2(self.a if self.order == "pre" else self.x))


def gelu(u: ndarray) -> ndarray:
    return 0.5 * u * (1 + erf(u / np.sqrt(2)))


def gelu_tanh(u: ndarray) -> ndarray:
    return 0.5 * u * (1 + np.tanh(np.sqrt(2 / np.pi) * (u + 0.044715 * u**3)))


def silu(u: ndarray) -> ndarray:
    return u / (1 + np.exp(-u))


def softmax(logits: ndarray, visible: ndarray) -> ndarray:
    e = np.where(visible, np.exp(logits - logits.max(-1, keepdims=True)), 0.0)
    return e / e.sum(-1, keepdims=True)


def heads(u: ndarray, count: int) -> ndarray:
    """(n, count * width) -> (count, n, width)."""
    return np.stack(np.split(u, count, axis=-1))


def rotate(u: ndarray, cos: ndarray, sin: ndarray) -> ndarray:
    """Rotary embedding of the first len(cos) dimensions of (H, n, head dim), pairs (k, k + half)."""
    width = cos.shape[-1]
    front, back = u[..., :width], u[..., width:]
    first, second = np.split(front, 2, -1)
    turned = np.concatenate([-second, first], -1)
    return np.concatenate([front * cos + turned * sin, back], -1)


class Weights:
    """The checkpoint's tensors by name."""

    def __init__(self, model: Any, prefix: str) -> None:
        self.table = {k: t.detach().double().numpy() for k, t in model.state_dict().items()}
        self.prefix = prefix

    def get(self, name: str) -> ndarray:
        return self.table[f"{self.prefix}.{name}"]

    def bias(self, name: str) -> ndarray | float:
        return self.table.get(f"{self.prefix}.{name}.bias", 0.0)

    def linear(self, name: str) -> Callable[[ndarray], ndarray]:
        return lambda u: u @ self.get(f"{name}.weight").T + self.bias(name)

    def conv1d(self, name: str) -> Callable[[ndarray], ndarray]:
        return lambda u: u @ self.get(f"{name}.weight") + self.bias(name)

    def norm(self, name: str, eps: float) -> Norm:
        return Norm(self.get(f"{name}.weight"), self.bias(name), eps)

    def rms(self, name: str, eps: float, plus: float = 0.0) -> Norm:
        return Norm(self.get(f"{name}.weight") + plus, 0.0, eps, rms=True)


def bert(model: Any, x: ndarray) -> Iterator[Layer]:
    c, count = model.config, model.config.num_attention_heads
    visible = np.ones((len(x), len(x)), bool)
    for index in range(c.num_hidden_layers):
        w = Weights(model, f"encoder.layer.{index}")
        q, k, v = (heads(w.linear(f"attention.self.{part}")(x), count) for part in ("query", "key", "value"))
        up, down = w.linear("intermediate.dense"), w.linear("output.dense")
        layer = Layer(
            "post",
            x,
            softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), visible),
            visible,
            v,
            heads(w.get("attention.output.dense.weight"), count).transpose(0, 2, 1),
            w.bias("attention.output.dense"),
            lambda u, up=up, down=down: down(gelu(up(u))),
            w.norm("attention.output.LayerNorm", c.layer_norm_eps),
            w.norm("output.LayerNorm", c.layer_norm_eps),
        )
        yield layer
        x = layer.y


def gpt2(model: Any, x: ndarray) -> Iterator[Layer]:
    c, count = model.config, model.config.n_head
    visible = np.tril(np.ones((len(x), len(x)), bool))
    for index in range(c.n_layer):
        w = Weights(model, f"h.{index}")
        ln1 = w.norm("ln_1", c.layer_norm_epsilon)
        q, k, v = (heads(part, count) for part in np.split(w.conv1d("attn.c_attn")(ln1(x)), 3, -1))
        up, down = w.conv1d("mlp.c_fc"), w.conv1d("mlp.c_proj")
        layer = Layer(
            "pre",
            x,
            softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), visible),
            visible,
            v,
            heads(w.get("attn.c_proj.weight").T, count).transpose(0, 2, 1),
            w.bias("attn.c_proj"),
            lambda u, up=up, down=down: down(gelu_tanh(up(u))),
            None,
            w.norm("ln_2", c.layer_norm_epsilon),
        )
        yield layer
        x = layer.y


def gpt_neox(model: Any, x: ndarray) -> Iterator[Layer]:
    c, count = model.config, model.config.num_attention_heads
    visible = np.tril(np.ones((len(x), len(x)), bool))
    cos, sin = angles(model, len(x))
    for index in range(c.num_hidden_layers):
        w = Weights(model, f"layers.{index}")
        fused = w.linear("attention.query_key_value")(w.norm("input_layernorm", c.layer_norm_eps)(x))
        q, k, v = np.split(heads(fused, count), 3, -1)  # head after head, each its query, key and value
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        up, down = w.linear("mlp.dense_h_to_4h"), w.linear("mlp.dense_4h_to_h")
        layer = Layer(
            "parallel",
            x,
            softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), visible),
            visible,
            v,
            heads(w.get("attention.dense.weight"), count).transpose(0, 2, 1),
            w.bias("attention.dense"),
            lambda u, up=up, down=down: down(gelu(up(u))),
            None,
            w.norm("post_attention_layernorm", c.layer_norm_eps),
        )
        yield layer
        x = layer.y


def llama(model: Any, x: ndarray) -> Iterator[Layer]:
    c = model.config
    count, groups = c.num_attention_heads, c.num_attention_heads // c.num_key_value_heads
    gemma, granite = c.model_type == "gemma2", c.model_type == "granite"
    plus = 1.0 if gemma else 0.0
    scaling = c.attention_multiplier if granite else (c.query_pre_attn_scalar if gemma else c.head_dim) ** -0.5
    share = c.residual_multiplier if granite else 1.0  # of each sub-block's output
    cos, sin = angles(model, len(x))
    i = np.arange(len(x))
    for index in range(c.num_hidden_layers):
        w = Weights(model, f"layers.{index}")
        visible = i[None] <= i[:, None]
        if gemma and c.layer_types[index] == "sliding_attention":
            visible = visible & (i[None] > i[:, None] - c.sliding_window)
        inner = w.rms("input_layernorm", c.rms_norm_eps, plus)(x)
        q = rotate(heads(w.linear("self_attn.q_proj")(inner), count), cos, sin)
        k = rotate(heads(w.linear("self_attn.k_proj")(inner), count // groups), cos, sin)
        v = heads(w.linear("self_attn.v_proj")(inner), count // groups)
        k, v = np.repeat(k, groups, 0), np.repeat(v, groups, 0)
        logits = q @ k.transpose(0, 2, 1) * scaling
        if gemma:
            logits = c.attn_logit_softcapping * np.tanh(logits / c.attn_logit_softcapping)
        gate, up, down = (w.linear(f"mlp.{part}_proj") for part in ("gate", "up", "down"))

        def ffn(u: ndarray, w: Weights = w, gate=gate, up=up, down=down) -> ndarray:
            out = down((gelu_tanh if gemma else silu)(gate(u)) * up(u))
            return w.rms("post_feedforward_layernorm", c.rms_norm_eps, plus)(out) if gemma else share * out

        layer = Layer(
            "pre",
            x,
            softmax(logits, visible),
            visible,
            v,
            share * heads(w.get("self_attn.o_proj.weight"), count).transpose(0, 2, 1),
            share * w.bias("self_attn.o_proj"),
            ffn,
            None,
            w.rms("pre_feedforward_layernorm" if gemma else "post_attention_layernorm", c.rms_norm_eps, plus),
            w.rms("post_attention_layernorm", c.rms_norm_eps, plus) if gemma else None,
        )
        yield layer
        x = layer.y


def gpt_oss(model: Any, x: ndarray) -> Iterator[Layer]:
    c = model.config
    count, groups = c.num_attention_heads, c.num_attention_heads // c.num_key_value_heads
    cos, sin = (np.concatenate([t, t], -1) for t in angles(model, len(x)))
    i = np.arange(len(x))
    for index, kind in enumerate(c.layer_types):
        w = Weights(model, f"layers.{index}")
        visible = i[None] <= i[:, None]
        if kind == "sliding_attention":
            visible = visible & (i[None] > i[:, None] - c.sliding_window)
        inner = w.rms("input_layernorm", c.rms_norm_eps)(x)
        q = rotate(heads(w.linear("self_attn.q_proj")(inner), count), cos, sin)
        k = rotate(heads(w.linear("self_attn.k_proj")(inner), count // groups), cos, sin)
        v = heads(w.linear("self_attn.v_proj")(inner), count // groups)
        k, v = np.repeat(k, groups, 0), np.repeat(v, groups, 0)
        logits = q @ k.transpose(0, 2, 1) / np.sqrt(c.head_dim)
        sinks = np.broadcast_to(w.get("self_attn.sinks")[:, None, None], (count, len(x), 1))
        wide = np.concatenate([visible, np.ones_like(visible[:, :1])], -1)
        layer = Layer(
            "pre",
            x,
            softmax(np.concatenate([logits, sinks], -1), wide)[..., :-1],
            visible,
            v,
            heads(w.get("self_attn.o_proj.weight"), count).transpose(0, 2, 1),
            w.bias("self_attn.o_proj"),
            lambda u, w=w: experts(w, u, c.num_experts_per_tok),
            None,
            w.rms("post_attention_layernorm", c.rms_norm_eps),
        )
        yield layer
        x = layer.y


def experts(w: Weights, u: ndarray, chosen: int) -> ndarray:
    """gpt-oss's mixture: of each token's vector (..., dim) the experts of the highest router logits."""
    out = np.zeros_like(u)
    for at in np.ndindex(u.shape[:-1]):
        t = u[at]
        logits = w.get("mlp.router.weight") @ t + w.get("mlp.router.bias")
        best = np.argsort(-logits)[:chosen]
        shares = np.exp(logits[best] - logits[best].max())
        for e, share in zip(best, shares / shares.sum(), strict=True):
            both = t @ w.get("mlp.experts.gate_up_proj")[e] + w.get("mlp.experts.gate_up_proj_bias")[e]
            gate, up = np.minimum(both[::2], 7.0), np.clip(both[1::2], -7.0, 7.0)
            active = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
            out[at] += share * (active @ w.get("mlp.experts.down_proj")[e] + w.get("mlp.experts.down_proj_bias")[e])
    return out


def modernbert(model: Any, x: ndarray) -> Iterator[Layer]:
    c, count = model.config, model.config.num_attention_heads
    i = np.arange(len(x))
    for index, kind in enumerate(c.layer_types):
        w = Weights(model, f"layers.{index}")
        near = np.abs(i[None] - i[:, None]) <= c.local_attention // 2
        visible = near if kind == "sliding_attention" else np.ones_like(near)
        inner = x if index == 0 else w.norm("attn_norm", c.norm_eps)(x)
        q, k, v = (heads(part, count) for part in np.split(w.linear("attn.Wqkv")(inner), 3, -1))
        cos, sin = angles(model, len(x), kind)
        q, k = (rotate(t.astype(np.float32), cos, sin) for t in (q, k))  # as transformers does
        wide, down = w.linear("mlp.Wi"), w.linear("mlp.Wo")

        def ffn(u: ndarray, wide=wide, down=down) -> ndarray:
            active, gate = np.split(wide(u), 2, -1)
            return down(gelu(active) * gate)

        layer = Layer(
            "pre",
            x,
            softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), visible),
            visible,
            v,
            heads(w.get("attn.Wo.weight"), count).transpose(0, 2, 1),
            w.bias("attn.Wo"),
            ffn,
            None,
            w.norm("mlp_norm", c.norm_eps),
        )
        yield layer
        x = layer.y


def angles(model: Any, n: int, *kind: str) -> tuple[ndarray, ndarray]:
    like = torch.zeros(1, dtype=torch.float64)
    return tuple(t[0].numpy() for t in model.rotary_emb(like, torch.arange(n)[None], *kind))


FORWARDS: dict[str, Callable[[Any, ndarray], Iterator[Layer]]] = {
    "bert": bert,
    "gpt2": gpt2,
    "gpt_neox": gpt_neox,
    "llama": llama,
    "gemma2": llama,
    "granite": llama,
    "gpt_oss": gpt_oss,
    "modernbert": modernbert,
}


@cache
def by_hand(name: str, n: int = 13) -> tuple[Layer, ...]:
    """The layers of a family's model over `families.text(n)`."""
    model = families.model(name, attention=exact.ATTENTION)
    first = exact.forward(model, families.text(n), output_hidden_states=True).hidden_states[0]
    return tuple(FORWARDS[name](model, first[0].numpy()))
