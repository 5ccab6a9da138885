"""Attention weights, plain and with the residual connection."""

from __future__ import annotations

import torch
from torch import Tensor

from mixlens.capture.attention import blocks
from mixlens.decompose import Block
from mixlens.decompose.tiles import ROW_BYTES
from mixlens.mixing.ratio import mixing_ratio
from mixlens.mixing.steps import Map, half_identity, normalize_rows, only_visible


def attention(block: Block, *, per_head: bool = False) -> Tensor:
    """W: the mean over heads of the attention weights, (batch, query, key); each head's with `per_head`."""
    if per_head:
        weights = block.call.weights()
        visible = block.call.visible()
        return weights if visible is None else weights.masked_fill(~visible, 0.0)
    batch, heads, n, _ = block.call.q.shape
    size = ROW_BYTES // (batch * heads * block.call.k.shape[2] * block.x.element_size())
    return only_visible(block, torch.cat([block.call.weights(rows).mean(1) for rows in blocks(n, size)], 1))


def attention_fixed_res(block: Block) -> Map:
    """W_FIXEDRES = 0.5 W + 0.5 I (Abnar & Zuidema 2020)."""
    return half_identity(block, attention(block))


def attention_res(block: Block) -> Map:
    """W_RES: off-diagonal weights renormalised, mixed with I by globenc's ratio (Modarressi 2022, Eq. 14-15).

    A row without off-diagonal mass (row 0 of a causal model) is the unit row.
    """
    block.require_one_stream("attention_res")
    off = attention(block)
    off.diagonal(dim1=1, dim2=2).zero_()
    ratio = mixing_ratio(block, "globenc").masked_fill(off.sum(-1) == 0, 0.0)
    return normalize_rows(off) * ratio[..., None] + torch.diag_embed(1 - ratio)
