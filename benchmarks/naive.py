"""The authors' way, literally: vectors of head x query x key x dim, and a layer run again for every zeroed token.

BERT only, one text, eager attention with its weights kept, as their forked modeling files did. The numbers are the
library's; `run.py` prints how far the two are apart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def eager(model: Any) -> Any:
    """A copy of a BertModel with eager attention, which is what gives its weights out."""
    twin = copy.deepcopy(model)
    twin.set_attn_implementation("eager")
    return twin


def _terms(layer: Any, x: Tensor, alpha: Tensor) -> Tensor:
    """Terms of the sub-block with the residual, (query, key, dim), by way of (head, query, key, dim)."""
    heads, n, _ = alpha.shape
    value = layer.attention.self.value(x).view(n, heads, -1).transpose(0, 1)
    projection = layer.attention.output.dense.weight.T.view(heads, value.shape[-1], -1)
    weighted = alpha[..., None] * (value @ projection)[:, None]  # what does not fit into memory
    terms = weighted.sum(0)
    terms.diagonal(dim1=0, dim2=1).add_(x.T)
    return terms


def _norm(module: Any, terms: Tensor, actual: Tensor) -> Tensor:
    """The terms of row i through a LayerNorm with the scale that it met at actual_i."""
    scale = (actual.var(-1, unbiased=False) + module.eps).rsqrt()
    return (terms - terms.mean(-1, keepdim=True)) * scale[:, None, None] * module.weight


def _before_norms(layer: Any, x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What enters the first norm, what leaves it, and what enters the second, (token, dim) each."""
    heads, n, _ = alpha.shape
    value = layer.attention.self.value(x).view(n, heads, -1).transpose(0, 1)
    a = layer.attention.output.dense((alpha @ value).transpose(0, 1).flatten(1)) + x
    b = layer.attention.output.LayerNorm(a)
    return a, b, b + layer.output.dense(layer.intermediate(b))


def _passes(model: Any, inputs: dict[str, Tensor]) -> Any:
    out = model(**inputs, output_attentions=True, output_hidden_states=True)
    return zip(model.encoder.layer, out.hidden_states, out.attentions, strict=False)


def globenc(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """N_ENC of every layer, (layer, query, key)."""
    maps = []
    for layer, x, alpha in _passes(model, inputs):
        a, _, c = _before_norms(layer, x[0], alpha[0])
        terms = _norm(layer.attention.output.LayerNorm, _terms(layer, x[0], alpha[0]), a)
        maps.append(_norm(layer.output.LayerNorm, terms, c).norm(dim=-1))
    return torch.stack(maps)


def alti(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """C of ALTI, p = 1, through the first norm, (layer, query, key)."""
    maps = []
    for layer, x, alpha in _passes(model, inputs):
        a, b, _ = _before_norms(layer, x[0], alpha[0])
        terms = _norm(layer.attention.output.LayerNorm, _terms(layer, x[0], alpha[0]), a)
        near = (b.abs().sum(-1)[:, None] - (terms - b[:, None]).abs().sum(-1)).clamp_min(0)
        maps.append(near / near.sum(-1, keepdim=True))
    return torch.stack(maps)


def value_zeroing(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """C of Value Zeroing: every layer once for each token, the token's value set to zero. (layer, query, key)."""
    out = model(**inputs, output_hidden_states=True)
    n, maps = inputs["input_ids"].shape[1], []
    for layer, x, y in zip(model.encoder.layer, out.hidden_states, out.hidden_states[1:], strict=False):
        real, columns, zero = _unit(y[0]), [], 0

        def hook(module: Any, args: Any, value: Tensor) -> Tensor:
            return value.index_fill(1, torch.tensor([zero]), 0.0)  # noqa: B023

        handle = layer.attention.self.value.register_forward_hook(hook)
        for zero in range(n):  # noqa: B007
            moved = layer(x)
            moved = moved[0] if isinstance(moved, tuple) else moved
            columns.append(0.5 * (_unit(moved[0]) - real).pow(2).sum(-1))
        handle.remove()
        scores = torch.stack(columns, 1)
        maps.append(scores / scores.sum(-1, keepdim=True))
    return torch.stack(maps)


def _unit(t: Tensor) -> Tensor:
    return t / t.norm(dim=-1, keepdim=True)


def floor_of_value_zeroing(model: Any, inputs: dict[str, Tensor], rows: int = 2048) -> None:
    """What no exact Value Zeroing can leave out: the activation and the FFN's second product on n^2 rows a layer."""
    n = inputs["input_ids"].shape[1]
    config = model.config
    hidden = torch.randn(min(rows, n * n), config.intermediate_size)
    for layer in model.encoder.layer:
        for start in range(0, n * n, rows):
            h = hidden[: min(rows, n * n - start)]
            F.linear(layer.intermediate.intermediate_act_fn(h), layer.output.dense.weight)


NAIVE: dict[str, Callable[[Any, dict[str, Tensor]], Tensor]] = {
    "globenc": globenc,
    "alti": alti,
    "value_zeroing": value_zeroing,
}


def bytes_needed(method: str, config: Any, n: int) -> int:
    """The largest tensors that a naive version holds at a time, in float32."""
    vectors = 4 * n * n * config.hidden_size
    return 0 if method == "value_zeroing" else vectors * (config.num_attention_heads + 3)
