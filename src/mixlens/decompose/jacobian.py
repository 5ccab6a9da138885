"""Jacobians of what a layer does to each token alone: vectors in the autograd graph of x, and feed-forward networks.

A token-local function of n tokens has n Jacobians and no more; one vector-Jacobian product gives a row of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.attention import blocks

STEP_BYTES = 8 << 20  # a feed-forward network's scaled weights held at a time
SAME = 64  # eps within which two Jacobians are one


@dataclass(frozen=True, eq=False)
class Jacobians:
    """d q_i / d x_i, d k_j / d x_j and d v_j / d x_j of one text, through whatever stands before the attention.

    Norms, rotary embeddings and q/k norms are in. Key-value heads are not repeated. An axis `token` is 1 where all
    tokens have the same Jacobian (post-LN).
    """

    query: Float[Tensor, "qtoken head width dim"]
    key: Float[Tensor, "ktoken kvhead width dim"]
    value: Float[Tensor, "vtoken kvhead valuewidth dim"]


def token_local(
    out: Float[Tensor, "1 head token width"], x: Float[Tensor, "1 token dim"]
) -> Float[Tensor, "token_or_1 head width dim"]:
    """The Jacobian of a token-local `out` in the graph of `x`, at each token; one token's where all are the same.

    Whether they are is asked with one random covector, the same for all tokens: Jacobians that differ agree on it
    with probability 0. Then each token is given another row to answer for.
    """
    _, heads, n, width = out.shape
    rows = heads * width
    draw = torch.Generator("cpu").manual_seed(0)
    covector = torch.randn(heads, 1, width, generator=draw, dtype=torch.float32, device="cpu").to(out)
    (answer,) = torch.autograd.grad(out, x, covector.expand_as(out[0])[None], retain_graph=True)
    off = (answer - answer[:, :1]).abs().max()
    if off <= SAME * torch.finfo(answer.dtype).eps * answer.abs().max():
        unit = torch.eye(-(-rows // n) * n, rows, dtype=out.dtype, device=out.device)
        unit = unit.view(-1, 1, n, heads, width).transpose(2, 3)
        (answers,) = torch.autograd.grad(out, x, unit, retain_graph=True, is_grads_batched=True)
        return answers.reshape(-1, x.shape[-1])[:rows].view(1, heads, width, -1)
    unit = torch.eye(rows, dtype=out.dtype, device=out.device).view(rows, 1, heads, 1, width)
    unit = unit.expand(-1, -1, -1, n, -1)
    (answers,) = torch.autograd.grad(out, x, unit, retain_graph=True, is_grads_batched=True)
    return answers.view(heads, width, n, -1).permute(2, 0, 1, 3)


def feed_forward(
    hidden: Sequence[Float[Tensor, "batch row width"]],
    up: Sequence[Float[Tensor, "width dim"]],
    act: Callable[[Any], Any],
    down: Float[Tensor, "dim width"],
) -> Float[Tensor, "batch row dim dim"]:
    """The Jacobian of `down(act(z_1))` or, gated, `down(act(z_1) * z_2)` at the hidden activations z_k = up_k(u)."""
    with torch.enable_grad():
        z = hidden[0].detach().requires_grad_()
        active = act(z)
        (slope,) = torch.autograd.grad(active.sum(), z)  # act is elementwise
    gated = len(hidden) == 2
    slopes = [slope * hidden[1], active.detach()] if gated else [slope]
    out = z.new_empty(*z.shape[:2], up[0].shape[1], len(down))  # dim in x dim out
    size = down.numel() * down.element_size() * len(z)
    turned = [u.T.contiguous() for u in up]  # a block of rows is one product then, without a copy
    for rows in blocks(z.shape[1], STEP_BYTES // size):
        scaled = turned[0] * slopes[0][:, rows, None]
        if gated:
            scaled.addcmul_(turned[1], slopes[1][:, rows, None])
        out[:, rows] = scaled @ down.T
    return out.mT
