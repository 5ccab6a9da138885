"""Effective attention: the part of the weights that the output can see (Brunner 2020)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.capture.attention import repeat_heads
from mixlens.decompose import Block
from mixlens.mixing.steps import Map, only_visible


def effective_attention(block: Block) -> Map:
    """W_EFF: each row of weights minus its part in the left null space of its visible value terms, head mean.

    The weights of least norm that give the same output. Where no more tokens are visible than a head has dimensions,
    it is the attention itself. Rows may be negative and do not sum to 1. In float64, rank to the model's precision.
    """
    weights = block.call.weights().double()
    visible = block.call.visible()
    if visible is None:
        visible = torch.ones(1, 1, 1, weights.shape[-1], dtype=torch.bool, device=weights.device)
    terms = block.terms("attention")
    # W_O may lower the rank of a head's terms; the QR factor of W_O^h keeps their inner products in few dimensions.
    inner = torch.linalg.qr(terms.projection.double().transpose(1, 2), mode="r")[1]  # (head, k, head dim)
    values = repeat_heads(terms.values.double(), terms.call.groups) @ inner.transpose(1, 2)
    eps = torch.finfo(block.x.dtype).eps
    out = [
        _project(weights[b], values[b], visible[min(b, len(visible) - 1), 0], eps).mean(0) for b in range(len(weights))
    ]
    return only_visible(block, torch.stack(out).to(block.x.dtype))


def _project(
    weights: Float[Tensor, "head query key"],
    values: Float[Tensor, "head key width"],
    visible: Bool[Tensor, "rows key"],
    eps: float,
) -> Float[Tensor, "head query key"]:
    """Rows of weights on the column space of the values that they see."""
    patterns, member = visible.unique(dim=0, return_inverse=True)  # one for encoders, one a row for causal models
    out = torch.zeros_like(weights)
    for k, seen in enumerate(patterns):
        rows = slice(None) if len(visible) == 1 else member == k
        v = values[:, seen]
        u, s, _ = torch.linalg.svd(v, full_matrices=False)
        rank = s > s[:, :1] * max(v.shape[1:]) * eps
        basis = u * rank[:, None]
        part = out[:, rows]
        part[:, :, seen] = (weights[:, rows][:, :, seen] @ basis) @ basis.transpose(1, 2)
        out[:, rows] = part
    return out
