"""What a layer would give if one token's value vector were zero, for every query and token (Value Zeroing).

With z_ij = sum_h alpha_ij^h W_O^h v_j^h, zeroing v_j moves the sub-block's output of token i from attn_i to
attn_i - z_ij; everything behind it is run again. The first map of the feed-forward network is linear but for one
scale a vector, so z_ij goes through it as H head vectors of token j instead of n^2 full vectors; only the activation
and the second map see n^2 rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from mixlens.architectures import Feed, submodule
from mixlens.capture.attention import blocks
from mixlens.decompose.block import Block
from mixlens.decompose.linear import Frozen, matrix
from mixlens.decompose.scratch import scratch
from mixlens.decompose.terms import Terms, by_head

STEP_BYTES = 24 << 20  # hidden activations of one step
DEVICE_STEP_BYTES = 192 << 20  # the same where large steps keep the device busy


def zeroed(block: Block) -> Iterator[tuple[slice, slice, Tensor]]:
    """`(rows, keys, outputs)`: the layer outputs (batch, row, key, dim) of rows i with the value of token j zeroed."""
    network = block.behind[0] if len(block.behind) == 1 and block.attend.branch_norm is None else None
    if block.spec.order == "parallel" and network is not None:
        for rows, keys, z in block.terms("attention").chunks():  # the network does not read the attention's output
            yield rows, keys, block.y[:, rows, None] - z
    elif isinstance(network, Feed) and (block.spec.order == "post" or network.norm is not None):
        yield from _zeroed(block, network)
    else:
        yield from zeroed_plainly(block)


def zeroed_plainly(block: Block) -> Iterator[tuple[slice, slice, Tensor]]:
    """The same without any rearrangement: `finish` on every changed vector."""
    for keys, z in _by_key(block.terms("attention")):
        full = slice(0, z.shape[1])
        yield full, keys, block.finish(block.attn[:, :, None] - z)


def _by_key(terms: Terms) -> Iterator[tuple[slice, Tensor]]:
    batch, _, n, dim = terms.shape
    alpha = terms.call.weights()
    for keys in blocks(n, STEP_BYTES // (batch * n * dim * alpha.element_size())):
        yield keys, torch.einsum("bhik,bkhd->bikd", alpha[..., keys], terms.head_vectors(keys))


def _zeroed(block: Block, feed: Feed) -> Iterator[tuple[slice, slice, Tensor]]:
    post = block.spec.order == "post"
    path = block.attend.norm if post else feed.norm  # the norm in front of the network
    assert path is not None
    norm, before, norm_module = block.norm(path), block.result("residual"), submodule(block.module, path)
    last = submodule(block.module, feed.norm) if post and feed.norm is not None else None
    between = None if feed.branch_norm is None else submodule(block.module, feed.branch_norm)
    terms = block.terms("attention")
    batch, heads, n, dim = terms.shape
    rows = terms.queries
    alpha = terms.call.weights().permute(0, 3, 2, 1).contiguous()  # batch, key, row, head
    ups = []
    for up in feed.up:
        weight, bias = matrix(submodule(block.module, up), dim)
        constant = torch.zeros_like(weight[:, 0]) if bias is None else bias
        if norm.bias is not None:
            constant = constant + weight @ norm.bias
        # Head vectors through the map: fold it into W_O (dim^2 width) or push the vectors (batch n heads dim width).
        fold = norm.linear(terms.projection) @ weight.T if batch * n * heads > dim else None
        ups.append((norm.linear(before) @ weight.T, weight, fold, constant))
    width = max(len(constant) for *_, constant in ups)
    for keys in blocks(n, _step_bytes(alpha) // (batch * rows * width * alpha.element_size())):
        count = keys.stop - keys.start
        a = alpha[:, keys].reshape(batch * count, rows, heads)
        vectors = terms.head_vectors(keys)
        flat = vectors.reshape(batch * count, heads, dim)
        moved = scratch("moved", (batch, count, rows, dim), before).copy_(before[:, None]).flatten(0, 1)
        moved.baddbmm_(a, flat, alpha=-1)  # what enters the norm
        carried, scale = _normed(norm, norm_module, moved) if last is not None else (moved, norm.scale(moved))
        scaled = a * scale[..., None]
        hidden = []
        for number, (actual, weight, fold, constant) in enumerate(ups):
            if fold is None:
                pushed = norm.linear(flat) @ weight.T
            else:
                pushed = by_head(_values(terms, keys), fold).reshape(batch * count, heads, -1)
            # constant + scale * (actual - a pushed), with as few passes over the n^2 rows as torch allows
            h = scratch(f"hidden {number}", (batch, count, rows, len(constant)), before)
            torch.addcmul(constant, actual[:, None], scale.view(batch, count, rows, 1), out=h)
            hidden.append(h.flatten(0, 1).baddbmm_(scaled, pushed, alpha=-1))
        out = block.after_up(feed, *hidden, spare=True)
        out = (out if between is None else between(out)).add_(carried)
        out = last(out) if last is not None else out
        yield slice(0, rows), keys, out.view(batch, count, rows, dim).transpose(1, 2)


def _step_bytes(like: Tensor) -> int:
    return STEP_BYTES if like.device.type == "cpu" else DEVICE_STEP_BYTES


def _normed(norm: Frozen, module: torch.nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """What the norm gives, and its scale at each vector; of torch's own LayerNorm both at once."""
    if type(module) is not torch.nn.LayerNorm or module.normalized_shape != x.shape[-1:]:
        return module(x), norm.scale(x)
    out, _, scale = torch.native_layer_norm(x, x.shape[-1:], module.weight, module.bias, module.eps)
    return out, scale[..., 0]


def _values(terms: Terms, keys: slice) -> Tensor:
    v = terms.values[:, :, keys]
    return v if terms.call.groups == 1 else v.repeat_interleave(terms.call.groups, 1)
