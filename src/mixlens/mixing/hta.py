"""Hidden Token Attribution: how a layer's output at one token changes with the layer's input at another, exactly.

With c_i^h = sum_j alpha_ij^h v_j^h the contexts and y_i = F(x_i, sum_h W_O^h c_i^h + b_O) the rest of the layer,

    d y_i / d x_j = P_i E_ij + [i = j] R_i,    P_i = (dF / d attn_i) W_O,    R_i = dF / d x_i
    E_ij^h = alpha_ij^h V_j^h + beta_ij^h (v_j^h - c_i^h) (K_j^hT q_i^h)^T
             + [i = j] sum_k beta_ik^h (v_k^h - c_i^h) k_k^hT Q_i^h

where V_j, K_j, Q_i are the token-local Jacobians of value, key and query, and beta is alpha times the scaling of the
logits (times the slope of a soft cap). So for i != j the squared Frobenius norm is a quadratic form of the heads,

    ||P_i E_ij||^2 = sum_hh' tr(A_i^h'h E_ij^h E_ij^h'T),    A_i = P_i^T P_i,

whose parts are matrix products of a query's things with a key's: no pair of tokens ever has a dim x dim matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.attention import blocks, repeat_heads
from mixlens.decompose import Block
from mixlens.mixing.maps import Map, only_visible

HELD_BYTES = 256 << 20  # Gram matrices of query tokens held at a time
STEP_BYTES = 8 << 20  # Jacobians of query tokens made at a time
TILE_BYTES = 16 << 20  # head vectors of pairs of tokens held at a time


def hta(block: Block) -> Map:
    """||d y_i / d x_j||_F: the Frobenius norm of the layer's Jacobian between two tokens (Brunner 2020).

    Exact, everything in: norms with their spread moving, softmax, FFN, residuals. Rows do not sum to 1. Time
    O(n dim^3 + n^2 dim^2), memory O(n dim^2), text by text. Raises SelfCheckFailed for layers with a state.
    """
    return _map(block, times_input=False)


def hta_x_input(block: Block) -> Map:
    """The same with each input column k of the Jacobian scaled by x_jk before the norm (Modarressi 2022, Eq. 18)."""
    return _map(block, times_input=True)


@torch.inference_mode(False)
@torch.no_grad()
def _map(block: Block, times_input: bool) -> Map:
    texts = [frobenius(linearised(one), one, one.x[0] if times_input else None) for one in block.texts()]
    return only_visible(block, torch.stack(texts))


@dataclass(frozen=True, eq=False)
class Linearised:
    """One text's attention and its token-local Jacobians. Axes q, k, vtoken are 1 where all have the same."""

    alpha: Float[Tensor, "head query key"]
    beta: Float[Tensor, "head query key"]  # d alpha_ij / d (q_i . k_j) / (1 - alpha_ij)
    q: Float[Tensor, "head query width"]
    k: Float[Tensor, "head key width"]
    v: Float[Tensor, "head key valuewidth"]
    context: Float[Tensor, "head query valuewidth"]
    dq: Float[Tensor, "qtoken head width dim"]
    dk: Float[Tensor, "ktoken kvhead width dim"]
    dv: Float[Tensor, "vtoken kvhead valuewidth dim"]

    @property
    def groups(self) -> int:
        """Query heads that share a key-value head."""
        return self.dq.shape[1] // self.dk.shape[1]


def linearised(one: Block) -> Linearised:
    """A block of one text as what its Jacobian is made of."""
    call, local = one.call, one.jacobians()
    alpha = call.weights()[0]
    q, k, v = (t[0].to(one.x.dtype) for t in (call.q, call.k, one.values))
    k, v = (t.repeat_interleave(call.groups, 0) for t in (k, v))
    beta = alpha * call.scaling
    if call.softcap is not None:
        beta = beta * (1 - torch.tanh(q @ k.mT * (call.scaling / call.softcap)) ** 2)
    return Linearised(alpha, beta, q, k, v, alpha @ v, local.query, local.key, local.value)


def frobenius(
    layer: Linearised, one: Block, columns: Float[Tensor, "token dim"] | None = None
) -> Float[Tensor, "query key"]:
    """||d y_i / d x_j||_F of all pairs; `columns`: factors of the input dimensions of each token.

    The Gram matrices and the quadratic form are in float64 where the device has it: heads cancel.
    """
    heads, n, width = layer.context.shape
    wide = torch.float64 if layer.v.device.type != "mps" else torch.float32
    projection = one.output[0].reshape(heads * width, -1).T
    tile = max(1, int((TILE_BYTES / (8 * heads**2 * width)) ** 0.5))
    out, selves = layer.v.new_empty(n, n), []
    for some in blocks(n, HELD_BYTES // (8 * (heads * width) ** 2)):
        gram = layer.v.new_empty(heads, heads, some.stop - some.start, width, width, dtype=wide)
        for part, rows in _within(some, STEP_BYTES // (4 * projection.numel())):
            through, own = (t[0] for t in one.rest(rows))
            p = through @ projection
            jacobian = _scaled(own, columns, rows) + p @ _selves(layer, rows, columns)
            selves.append(torch.linalg.matrix_norm(jacobian, dtype=wide).to(out))
            p = p.to(wide)
            gram[:, :, part] = _by_heads(p.mT @ p, heads, heads)
        for keys in blocks(n, tile):
            side = _Keys.of(layer, keys, columns, wide)
            for part, rows in _within(some, tile):
                out[rows, keys] = _squares(layer, gram[:, :, part], side, rows, keys).clamp_min_(0).sqrt_().to(out)
    out.diagonal().copy_(torch.cat(selves))
    return out


def _within(some: slice, size: int) -> Iterator[tuple[slice, slice]]:
    """Slices that cover `some`, seen from its start and as they are."""
    for part in blocks(some.stop - some.start, size):
        yield part, slice(some.start + part.start, some.start + part.stop)


def _selves(layer: Linearised, rows: slice, columns: Tensor | None) -> Float[Tensor, "row headwidth dim"]:
    """E_ii of some tokens, the query's path in."""
    i = torch.arange(rows.start, rows.stop, device=layer.v.device)
    dq, dk, dv = (_scaled(_at(t, rows), columns, rows) for t in (layer.dq, layer.dk, layer.dv))
    dk, dv = (repeat_heads(t, layer.groups) for t in (dk, dv))
    alpha, beta = (t[:, i, i].T[..., None, None] for t in (layer.alpha, layer.beta))
    moves = layer.v[:, None] - layer.context[:, rows, None]  # v_k - c_i: (head, row, key, width)
    by_query = torch.einsum("hik,hikv,hkw->ihvw", layer.beta[:, rows], moves, layer.k)
    own = (layer.v - layer.context)[:, rows].transpose(0, 1)[..., None]
    pull = layer.q[:, rows].transpose(0, 1)[..., None, :] @ dk  # K_i^T q_i: (row, head, 1, dim)
    return (by_query @ dq + alpha * dv + (beta * own) * pull).flatten(1, 2)


@dataclass(frozen=True, eq=False)
class _Keys:
    """What the quadratic form needs of some keys. The axes are 1 where all have the same."""

    dk: Float[Tensor, "ktoken head width dim"]  # K
    vv: Float[Tensor, "head head2 vtoken valuewidth valuewidth"]  # V^h V^h'T
    vk: Float[Tensor, "head head2 vktoken valuewidth width"]  # V^h K^h'T

    @classmethod
    def of(cls, layer: Linearised, keys: slice, columns: Tensor | None, wide: torch.dtype) -> _Keys:
        dk, dv = (_scaled(_at(t, keys), columns, keys).to(wide) for t in (layer.dk, layer.dv))
        k, v = dk.flatten(1, 2).mT, dv.flatten(1, 2)
        vv, vk = (_by_heads(v @ t, dv.shape[1], dk.shape[1], layer.groups) for t in (v.mT, k))
        return cls(repeat_heads(dk, layer.groups), vv, vk)


def _squares(
    layer: Linearised, gram: Float[Tensor, "head head2 token width width"], side: _Keys, rows: slice, keys: slice
) -> Float[Tensor, "row key"]:
    """||P_i E_ij||_F^2 of a tile, for i != j. Axes in here: head, head, row, value width, key."""
    a, b = (t[:, rows, keys].to(gram) for t in (layer.alpha, layer.beta))
    q = layer.q[:, rows].to(gram)
    moves = (layer.v[:, None, keys] - layer.context[:, rows, None]).to(gram).mT  # v_j - c_i
    seen = gram @ moves  # A_i^hh' (v_j^h' - c_i^h')
    pull = (q @ side.dk).transpose(1, 2)  # K_j^hT q_i^h: (key, row, head, dim)
    out = a[:, None] * a * (gram.flatten(3) @ side.vv.flatten(3).mT)
    out += 2 * a[:, None] * b * (seen * (side.vk @ q.mT[:, None]).transpose(2, 4)).sum(3)
    out += b[:, None] * b * (seen * moves[:, None]).sum(3) * (pull @ pull.mT).permute(2, 3, 1, 0)
    return out.sum((0, 1))


def _by_heads(products: Tensor, first: int, second: int, groups: int = 1) -> Float[Tensor, "head head2 token a b"]:
    """(token, first * a, second * b) with the heads in front, shared ones repeated."""
    token, rows, columns = products.shape
    out = products.view(token, first, rows // first, second, columns // second).permute(1, 3, 0, 2, 4)
    if groups > 1:
        out = out.repeat_interleave(groups, 0).repeat_interleave(groups, 1)
    return out


def _at(t: Tensor, some: slice, axis: int = 0) -> Tensor:
    """Some tokens of an axis that is 1 where all tokens have the same."""
    return t if t.shape[axis] == 1 else t.narrow(axis, some.start, some.stop - some.start)


def _scaled(t: Float[Tensor, "token *any dim"], columns: Tensor | None, tokens: slice) -> Tensor:
    """The input dimensions scaled by those of the tokens."""
    if columns is None:
        return t
    factors = columns[tokens]
    return t * factors.view(len(factors), *[1] * (t.ndim - 2), -1)
