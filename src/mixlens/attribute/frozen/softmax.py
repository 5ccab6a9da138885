"""Attention whose softmax is taken, or differentiated, at another temperature, in blocks of rows: no square of a layer
lives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mixlens.capture.attention import Call, blocks, repeat_heads
from mixlens.precision import widened

ROW_BYTES = 8 << 20  # attention weights held at a time


def read(call: Call, temperature: float) -> Tensor:
    """What the heads read at a temperature, (batch, head, row, width), without a gradient's rules."""
    if temperature == 1:
        return Call.output(call)
    fused = not call.given and all(part is None for part in (call.softcap, call.bias, call.sinks))
    if fused and (call.mask is None or call.mask.dtype == torch.bool):  # another scale is another temperature
        return Call(
            call.q, call.k, call.v, call.mask, call.scaling / temperature, None, None, call.causal
        ).output()  # fmt: skip
    v = repeat_heads(call.v, call.groups)
    size = ROW_BYTES // (len(v) * v.shape[1] * v.shape[2] * widened(v[:0]).element_size())
    weights = (call.softmax(call.logits(rows), temperature) for rows in blocks(call.q.shape[2], size))
    return torch.cat([part.to(v.dtype) @ v for part in weights], 2)


def tempered(call: Call, temperature: float) -> Tensor:
    """What the heads read, (batch, head, row, width), differentiated as if the weights' change by the logits were
    that of softmax(logits / temperature), without the 1 / temperature.
    """
    out: Tensor = _Tempered.apply(call, temperature, call.q, call.k, call.v)
    return out


class _Tempered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, temperature: float, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        nothing = q.new_empty(0)  # the graph's tensors are saved where a recomputed layer drops them
        ctx.call, ctx.temperature = replace(call, q=nothing, k=nothing, v=nothing), temperature
        ctx.save_for_backward(q, k, v)
        return Call.output(call)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[None, None, Tensor, Tensor, Tensor]:
        saved: tuple[Tensor, ...] = ctx.saved_tensors  # to be read once
        q, k, v = (widened(t.detach()) for t in saved)
        call: Call = replace(ctx.call, q=q.requires_grad_(), k=k.requires_grad_(), v=v)
        values = repeat_heads(v, call.groups)
        slopes = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(values)
        batch, heads, n, _ = q.shape
        for rows in blocks(n, ROW_BYTES // (batch * heads * k.shape[2] * q.element_size())):
            with torch.enable_grad():
                logits = call.logits(rows)
            above = widened(slope[:, :, rows])
            slopes[2].add_(call.softmax(logits.detach()).transpose(2, 3) @ above)
            soft, up = call.softmax(logits.detach(), ctx.temperature), above @ values.transpose(2, 3)
            up = soft * (up - (soft * up).sum(-1, keepdim=True))
            for total, part in zip(slopes, torch.autograd.grad(logits, (q, k), up, allow_unused=True), strict=False):
                if part is not None:
                    total.add_(part)
        wide = slopes[2].unflatten(1, (-1, call.groups)).sum(2)  # a key-value head serves several query heads
        both = zip((*slopes[:2], wide), saved, strict=True)
        return None, None, *(total.to(t.dtype) for total, t in both)
