"""Layer-wise relevance propagation through a post-LN encoder, with the rules of Chefer 2021 (alpha = 1).

Linear maps: the z+ rule of px W+ and nx W-, bias left out. Sums: proportional, then each part rescaled to its share of
the absolute sums. Products (attention): proportional, half to each factor. Softmax, activations, norms: identity. All
rules work on one text without padding, since the sums' shares are taken over whole tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Readout, take
from mixlens.attribute.method import Scores
from mixlens.capture.attention import blocks

TILE = 3 << 18  # entries of a weight matrix taken at a time: 3 MiB in float32
CANCELS = 1 / 16  # positive products below this part of the absolute ones: four of a number's bits would be lost
ROUNDING = 1e-3  # a map's output is off by no more than this part of its absolute products, in any precision used here


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
    out: Linear  # the output projection
    middle: Tensor
    up: Linear
    down: Linear


@dataclass(frozen=True, eq=False)
class TextRelevance:
    """One text: attention, its gradients and its relevance (head, query, key) of the layers asked about, lowest first.

    `rows`: the read-out rows. Without gradients where the method reads none.
    """

    weights: Sequence[Tensor]
    weight_gradients: Sequence[Tensor]
    relevance: Sequence[Tensor]
    rows: tuple[Readout, ...]


def divide(a: Tensor, b: Tensor) -> Tensor:
    """a / b that is 0 where b is 0 (the authors' guard: 1e-9 is added to b, and where that gives 0 once more)."""
    safe = b + 1e-9
    if bool(b.abs().min() > 1e-9):  # the rule: to look for zeros takes ten times as long
        return a / safe
    return torch.div(a, safe.masked_fill_(safe == 0, 1e-9)).masked_fill_(b == 0, 0.0)


def through_linear(r: Float[Tensor, "token out"], linear: Linear) -> Float[Tensor, "token in"]:
    """px (W+' s) + nx (W-' s) with s = r / (px W+' + nx W-').

    With x = px + nx and |x| = px - nx the two products are (x W' + |x| |W|') / 2 and the way back is
    (x * (s W) + |x| * (s |W|)) / 2: three products of matrices, not four, since x W' is known. Where the two halves
    cancel, so that a sum of positive products next to 0 would be rounding, a token takes the four products instead:
    a sum of no positive product is exactly 0. Outputs are taken some at a time, all products for each, so that their
    |W| is made once and never leaves the processor's cache. Tokens without relevance (all but one above the last
    layer's attention) are left out: they pass none on.
    """
    live = r.abs().amax(-1) != 0
    if not bool(live.all()):
        out = torch.zeros_like(linear.x)
        if bool(live.any()):
            part = replace(linear, x=linear.x[live], y=linear.y[live])
            out[live] = through_linear(r[live], part)
        return out
    size, known = linear.x.abs(), linear.unbiased
    plain, absolute = torch.zeros_like(linear.x), torch.zeros_like(linear.x)
    apart: list[tuple[Tensor, Tensor]] = []  # tokens whose halves cancel, and what they pass on
    tile = torch.empty_like(linear.weight[: max(1, TILE // size.shape[-1])])
    for span in blocks(len(linear.weight), len(tile)):
        w, share = linear.weight[span], r[..., span]
        v = torch.abs(w, out=tile[: len(w)])
        positive = torch.addmm(known[..., span], size, v.T, beta=0.5, alpha=0.5)
        # positive < CANCELS |x| |W|', with |x| |W|' = 2 positive - x W'
        close = torch.add(positive, known[..., span], alpha=CANCELS / (1 - 2 * CANCELS)).amin(-1) < 0
        s = divide(share, positive)
        if bool(close.any()):
            apart.append((close, _four_products(share[close], linear.x[close], known[close][..., span], w)))
            s[close] = 0
        plain.addmm_(s, w)
        absolute.addmm_(s, v)
    out = plain.mul_(linear.x).addcmul_(size, absolute).mul_(0.5)
    for close, passed in apart:
        out[close] += passed
    return out


def _four_products(r: Tensor, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """The rule of `through_linear` as it is written: no two numbers of unlike sign are added.

    A map that gave another y than x W' loses relevance here as there: `conserved` is to show it.
    """
    px, nx, pw, nw = x.clamp_min(0), x.clamp_max(0), w.clamp_min(0), w.clamp_max(0)
    z, less = torch.addmm(px @ pw.T, nx, nw.T), torch.addmm(px @ nw.T, nx, pw.T)
    off = y - (z + less)
    s = divide(r, torch.where(off.abs() > ROUNDING * (z - less), z + 0.5 * off, z))
    return px * (s @ pw) + nx * (s @ nw)


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
    """Relevance of x that went several paths: x * sum of r / x, which is their sum but where x is next to 0."""
    return divide(x, x) * sum(parts)


def to_attention(
    r: Float[Tensor, "token dim"], p: LayerParts, weights: Float[Tensor, "head query key"]
) -> tuple[Float[Tensor, "head query key"], Float[Tensor, "head token width"], Float[Tensor, "token dim"]]:
    """Relevance of the attention weights, of the values and of the residual stream, where the layer's output has r."""
    from_ffn, residual = through_sum(r, p.down.y, p.middle)
    from_ffn = through_linear(through_linear(from_ffn, p.down), p.up)
    r = join(p.middle, from_ffn, residual)
    from_attention, residual = through_sum(r, p.out.y, p.x)
    heads = len(weights)
    context = split(through_linear(from_attention, p.out), heads)
    attention, value = through_product(context, weights, split(p.value.y, heads))
    return attention, value, residual


def to_input(
    attention: Float[Tensor, "head query key"],
    value: Float[Tensor, "head token width"],
    residual: Float[Tensor, "token dim"],
    p: LayerParts,
) -> Float[Tensor, "token dim"]:
    """Relevance of the layer's input from what `to_attention` found."""
    heads = len(attention)
    # Softmax, scaling and an all-open mask: identity.
    query, key = through_product(attention, split(p.query.y, heads), split(p.key.y, heads).transpose(1, 2))
    parts = (
        through_linear(merge(query), p.query),
        through_linear(merge(key.transpose(1, 2)), p.key),
        through_linear(merge(value), p.value),
    )
    return join(p.x, join(p.x, *parts), residual)


def split(t: Float[Tensor, "token dim"], heads: int) -> Float[Tensor, "head token width"]:
    """A vector to its heads."""
    return t.unflatten(-1, (heads, -1)).transpose(0, 1)


def merge(t: Float[Tensor, "head token width"]) -> Float[Tensor, "token dim"]:
    """Heads back to a vector."""
    return t.transpose(0, 1).flatten(1)


def propagate(
    index: int, head: Sequence[Linear], layers: Sequence[LayerParts], weights: Sequence[Float[Tensor, "head query key"]]
) -> tuple[float, list[Float[Tensor, "head query key"]]]:
    """What is left of the relevance at the attention of `layers[0]`, and the relevance of every layer's attention.

    Class `index` has relevance 1. `head`: the classifier's linear maps in the order they ran, on the first token's
    vector. `layers`: the upper layers, as many as are asked about; `weights`: their attention. Every rule conserves
    relevance, so attention, values and residual stream of the lowest layer have 1 together.
    """
    r = torch.zeros_like(head[-1].y)
    r[..., index] = 1
    for linear in reversed(head):
        r = through_linear(r, linear)
    tokens = torch.zeros_like(layers[-1].x)
    tokens[0] = r.reshape(-1)
    relevances: list[Tensor] = []
    for k in reversed(range(len(layers))):
        parts = to_attention(tokens, layers[k], weights[k])
        relevances.append(parts[0])
        if k > 0:
            tokens = to_input(*parts, layers[k])
    return float(sum(part.sum() for part in parts)), relevances[::-1]


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
