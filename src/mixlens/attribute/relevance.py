"""Layer-wise relevance propagation through a post-LN encoder, with the rules of Chefer 2021 (alpha = 1).

Linear maps: the z+ rule of px W+ and nx W-, bias left out. Sums: proportional, then each part rescaled to its share of
the absolute sums. Products (attention): proportional, half to each factor. Softmax, activations, norms: identity. All
rules work on one text without padding, since the sums' shares are taken over whole tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.attribute.gradients import Scores, take
from mixlens.attribute.readout import Rows


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear map as it ran: weight (out, in), bias (out,) or None, input (..., in), output (..., out)."""

    weight: Tensor
    bias: Tensor | None
    x: Tensor
    y: Tensor

    @property
    def unbiased(self) -> Tensor:
        """The output without the bias."""
        return self.y if self.bias is None else self.y - self.bias


@dataclass(frozen=True, eq=False)
class LayerParts:
    """What relevance needs of one layer. `x`, `middle` (token, dim): the layer's input, and what its FFN reads."""

    x: Tensor
    query: Linear
    key: Linear
    value: Linear
    weights: Tensor  # (head, query, key)
    out: Linear  # the output projection
    middle: Tensor
    up: Linear
    down: Linear


@dataclass(frozen=True, eq=False)
class TextRelevance:
    """One text: attention, its gradients and its relevance of every layer (head, query, key), and the read-out rows."""

    weights: Sequence[Tensor]
    weight_gradients: Sequence[Tensor]
    relevance: Sequence[Tensor]
    rows: tuple[Rows, ...]


def divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b that is 0 where b is 0 (the authors' guard: 1e-9 is added to b, away from 0 but for tiny negatives)."""
    safe = b.clamp_min(1e-9) + b.clamp_max(1e-9)
    return a / (safe + (safe == 0) * 1e-9) * (b != 0)


def through_linear(r: Tensor, linear: Linear) -> Tensor:
    """px (W+' s) + nx (W-' s) with s = r / (px W+' + nx W-').

    With x = px + nx and |x| = px - nx the two products are (x W' + |x| |W|') / 2 and the way back is
    (x * (s W) + |x| * (s |W|)) / 2: three products of matrices, not four, since x W' is known.
    """
    size, absolute = linear.x.abs(), linear.weight.abs()
    s = divide(r, 0.5 * (linear.unbiased + size @ absolute.T))
    return 0.5 * (linear.x * (s @ linear.weight) + size * (s @ absolute))


def through_sum(r: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance of a and of b, where a + b has r."""
    s = divide(r, a + b)
    ra, rb = a * s, b * s
    sizes = ra.sum().abs(), rb.sum().abs()
    both = sizes[0] + sizes[1]
    return tuple(  # type: ignore[return-value]
        part * divide(divide(size, both) * r.sum(), part.sum()) for part, size in zip((ra, rb), sizes, strict=True)
    )


def through_product(r: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Relevance of a and of b, where a @ b has r: half to each."""
    s = divide(r, a @ b)
    return 0.5 * a * (s @ b.transpose(-1, -2)), 0.5 * b * (a.transpose(-1, -2) @ s)


def join(x: Tensor, *parts: Tensor) -> Tensor:
    """Relevance of x that went several ways."""
    return x * torch.stack([divide(r, x) for r in parts]).sum(0)


def through_layer(r: Float[Tensor, "token dim"], p: LayerParts) -> tuple[Tensor, Float[Tensor, "head query key"]]:
    """Relevance of the layer's input and of its attention weights, where its output has r."""
    from_ffn, residual = through_sum(r, p.down.y, p.middle)
    from_ffn = through_linear(through_linear(from_ffn, p.down), p.up)
    r = join(p.middle, from_ffn, residual)
    from_attention, residual = through_sum(r, p.out.y, p.x)
    heads = len(p.weights)
    context = split(through_linear(from_attention, p.out), heads)
    attention, value = through_product(context, p.weights, split(p.value.y, heads))
    # Softmax, scaling and an all-open mask: identity.
    query, key = through_product(attention, split(p.query.y, heads), split(p.key.y, heads).transpose(1, 2))
    parts = (
        through_linear(merge(query), p.query),
        through_linear(merge(key.transpose(1, 2)), p.key),
        through_linear(merge(value), p.value),
    )
    return join(p.x, join(p.x, *parts), residual), attention


def split(t: Float[Tensor, "token dim"], heads: int) -> Float[Tensor, "head token width"]:
    """A vector to its heads."""
    return t.unflatten(-1, (heads, -1)).transpose(0, 1)


def merge(t: Float[Tensor, "head token width"]) -> Float[Tensor, "token dim"]:
    """Heads back to a vector."""
    return t.transpose(0, 1).flatten(1)


def propagate(
    index: int, head: Sequence[Linear], layers: Sequence[LayerParts]
) -> tuple[Float[Tensor, "token dim"], list[Float[Tensor, "head query key"]]]:
    """Relevance of the first layer's input, and of every layer's attention, where class `index` has 1.

    `head`: the classifier's linear maps in the order they ran, on the first token's vector. The relevance of the
    input sums to 1: every rule conserves it.
    """
    r = torch.zeros_like(head[-1].y)
    r[..., index] = 1
    for linear in reversed(head):
        r = through_linear(r, linear)
    tokens = torch.zeros_like(layers[-1].x)
    tokens[0] = r.reshape(-1)
    found = []
    for parts in reversed(layers):
        tokens, attention = through_layer(tokens, parts)
        found.append(attention)
    return tokens, found[::-1]


def partial_lrp(text: TextRelevance, *, zero_cls: bool = False) -> Scores:
    """Positive relevance of the last layer's attention, head mean, read-out row (Voita 2019).

    `zero_cls`: the first token's score is 0, as in AttCAT's comparisons.
    """
    return _without_first(take(text.relevance[-1].clamp_min(0).mean(0), text.rows), zero_cls), None


def trans_att(text: TextRelevance, *, zero_cls: bool = False) -> Scores:
    """Head mean of the positive part of gradient times relevance, plus I, rows normalised, rolled out (Chefer 2021).

    Read-out row of the product over all layers. `zero_cls`: the first token's score is 0, as in AttCAT's comparisons.
    """
    product: Tensor | None = None
    rows = []
    for gradient, relevance in zip(text.weight_gradients, text.relevance, strict=True):
        cam = (gradient * relevance).clamp_min(0).mean(0)
        step = cam + torch.eye(len(cam), dtype=cam.dtype, device=cam.device)
        step = step / step.sum(-1, keepdim=True)
        product = step if product is None else step @ product
        rows.append(take(product, text.rows))
    layers = _without_first(torch.stack(rows), zero_cls)
    return layers[-1], layers


def _without_first(scores: Tensor, zero: bool) -> Tensor:
    return torch.cat([torch.zeros_like(scores[..., :1]), scores[..., 1:]], -1) if zero else scores
