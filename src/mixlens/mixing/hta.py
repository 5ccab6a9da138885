"""Hidden Token Attribution: how a layer's output at one token changes with the layer's input at another, exactly.

With c_i^h = sum_j alpha_ij^h v_j^h the contexts and y_i = F(x_i, sum_h W_O^h c_i^h + b_O) the rest of the layer,

    d y_i / d x_j = P_i E_ij + [i = j] R_i,    P_i = (dF / d attn_i) W_O,    R_i = dF / d x_i
    E_ij^h = alpha_ij^h V_j^h + beta_ij^h (v_j^h - c_i^h) (K_j^hT q_i^h)^T
             + [i = j] sum_k beta_ik^h (v_k^h - c_i^h) k_k^hT Q_i^h

where V_j, K_j, Q_i are the token-local Jacobians of value, key and query, and beta is alpha times the scaling of the
logits (times the slope of a soft cap). So for i != j the squared Frobenius norm is a quadratic form of the heads,

    ||P_i E_ij||^2 = sum_hh' tr(A_i^h'h E_ij^h E_ij^h'T),    A_i = P_i^T P_i,

whose parts are matrix products of a query's things with a key's: no pair of tokens ever has a dim x dim matrix. What is
symmetric in h and h' is made for h <= h' only, each second head h' for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.attention import blocks, repeat_heads
from mixlens.decompose import Block
from mixlens.decompose.rest import rest
from mixlens.mixing.steps import Map, only_visible

HELD_BYTES = 256 << 20  # Gram matrices of query tokens held at a time
STEP_BYTES = 4 << 20  # Jacobians of query tokens made at a time
KEY_BYTES = 16 << 20  # Jacobians of key tokens held at a time
TILE_BYTES = 4 << 20  # head vectors of pairs of tokens held at a time


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
    texts = [frobenius(linearised(text), text, text.x[0] if times_input else None) for text in block.texts()]
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


def linearised(block: Block) -> Linearised:
    """A block of one text as what its Jacobian is made of."""
    call, local = block.call, block.jacobians()
    alpha = call.weights()[0]
    q, k, v = (t[0].to(block.x.dtype) for t in (call.q, call.k, block.values))
    k, v = (t.repeat_interleave(call.groups, 0) for t in (k, v))
    beta = alpha * call.scaling
    if call.softcap is not None:
        beta = beta * (1 - torch.tanh(q @ k.mT * (call.scaling / call.softcap)) ** 2)
    return Linearised(alpha, beta, q, k, v, alpha @ v, local.query, local.key, local.value)


def frobenius(
    layer: Linearised, block: Block, columns: Float[Tensor, "token dim"] | None = None
) -> Float[Tensor, "query key"]:
    """||d y_i / d x_j||_F of all pairs; `columns`: factors of the input dimensions of each token.

    The Gram matrices and the quadratic form are in float64 where the device has it: heads cancel.
    """
    heads, n, width = layer.context.shape
    wide = torch.float64 if layer.v.device.type != "mps" else torch.float32
    projection = block.output[0].reshape(heads * width, -1)  # W_O^T
    few = max(1, KEY_BYTES // (8 * heads * width * layer.dk.shape[-1]))
    many = max(1, TILE_BYTES // (8 * heads * width * few))
    out, selves = layer.v.new_empty(n, n), []
    for queries in blocks(n, HELD_BYTES // (4 * (heads + 1) * heads * width**2)):
        gram = [layer.v.new_empty(queries.stop - queries.start, h + 1, width, width, dtype=wide) for h in range(heads)]
        for part, rows in _within(queries, STEP_BYTES // (4 * projection.numel())):
            through, direct = (t[0] for t in rest(block, rows))
            p = projection.expand(len(through), -1, -1) @ through.mT  # P_i^T
            jacobian = _scaled(torch.baddbmm(direct, p.mT, _selves(layer, rows)), columns, rows)
            selves.append(torch.linalg.matrix_norm(jacobian, dtype=wide).to(out))
            p = p.to(wide)
            for h, pairs in enumerate(gram):
                pairs[part] = (p[:, : (h + 1) * width] @ p[:, h * width : (h + 1) * width].mT).view_as(pairs[part])
        for keys in blocks(n, few):
            side = _Keys.of(layer, keys, None if columns is None else columns[keys].to(wide), wide)
            for part, rows in _within(queries, many):
                squares = _squares(layer, [pairs[part] for pairs in gram], side, rows, keys)
                out[rows, keys] = squares.clamp_min_(0).sqrt_().to(out)
    out.diagonal().copy_(torch.cat(selves))
    return out


def _within(span: slice, size: int) -> Iterator[tuple[slice, slice]]:
    """Slices that cover `span`, seen from its start and as they are."""
    for part in blocks(span.stop - span.start, size):
        yield part, slice(span.start + part.start, span.start + part.stop)


def _selves(layer: Linearised, rows: slice) -> Float[Tensor, "row headwidth dim"]:
    """E_ii of some tokens, the query's path in."""
    i = torch.arange(rows.start, rows.stop, dtype=torch.int64, device=layer.v.device)
    dq, dk, dv = (_at(t, rows) for t in (layer.dq, layer.dk, layer.dv))
    dk, dv = (repeat_heads(t, layer.groups) for t in (dk, dv))
    alpha, beta = (t[:, i, i].T[..., None, None] for t in (layer.alpha, layer.beta))
    moves = layer.v[:, None] - layer.context[:, rows, None]  # v_k - c_i: (head, row, key, width)
    by_query = torch.einsum("hik,hikv,hkw->ihvw", layer.beta[:, rows], moves, layer.k)
    move = (layer.v - layer.context)[:, rows].transpose(0, 1)[..., None]
    pull = layer.q[:, rows].transpose(0, 1)[..., None, :] @ dk  # K_i^T q_i: (row, head, 1, dim)
    return (by_query @ dq).addcmul_(alpha, dv).addcmul_(beta * move, pull).flatten(1, 2)


@dataclass(frozen=True, eq=False)
class _Keys:
    """What the quadratic form needs of some keys. The token axes are 1 where all have the same."""

    dk: Float[Tensor, "ktoken head width dim"]  # K
    squares: Float[Tensor, "any dim"] | None  # of the factors of the input dimensions
    vv: list[Float[Tensor, "_ vtoken valuewidth valuewidth"]]  # V^h' V^hT of a key-value head h, for h' <= h
    vk: Float[Tensor, "kvhead vktoken valuewidth kvhead2 width"]  # V^h K^h'T

    @classmethod
    def of(cls, layer: Linearised, keys: slice, columns: Float[Tensor, "token dim"] | None, wide: torch.dtype) -> _Keys:
        dk, dv = (_at(t, keys).to(wide) for t in (layer.dk, layer.dv))
        squares = None if columns is None else columns**2
        by_head = dv.transpose(0, 1)
        scaled = by_head.contiguous() if squares is None else by_head * squares[:, None]
        vv = [_times(scaled[: h + 1], dv[:, h]) for h in range(len(scaled))]
        vk = _times(scaled, dk.flatten(1, 2)).unflatten(-1, dk.shape[1:3])
        return cls(dk, squares, vv, vk)


def _squares(
    layer: Linearised, gram: Sequence[Float[Tensor, "row _ width width"]], side: _Keys, rows: slice, keys: slice
) -> Float[Tensor, "row key"]:
    """||P_i E_ij||_F^2 of a tile, for i != j. Axes in here: head (up to `last`), row, key, value width."""
    groups = layer.groups
    a, b = (t[:, rows, keys].to(gram[0]) for t in (layer.alpha, layer.beta))
    q = layer.q[:, rows].to(gram[0])
    moves = (layer.v[:, None, keys] - layer.context[:, rows, None]).to(gram[0])  # v_j - c_i
    pulls = _pulls(repeat_heads(side.dk, groups), q, side.squares)
    out = torch.zeros_like(a[0])
    for last, pairs in enumerate(gram):
        to, group = slice(last + 1), last // groups
        vv, vk, kv = side.vv[group], side.vk[..., group, :], side.vk[group].movedim(-2, 0)
        vv, vk, kv = (t.repeat_interleave(groups, 0) if groups > 1 else t for t in (vv, vk, kv))
        vv, vk, kv = vv[to], vk[to], kv[to]
        near = (moves[last] @ pairs.flatten(1, 2).mT).unflatten(-1, pairs.shape[1:3]).movedim(2, 0)  # A_i^h,last m
        far = moves[to] @ pairs.transpose(0, 1)  # A_i^last,h (v_j^h - c_i^h)
        form = a[last] * a[to] * (pairs.flatten(2).transpose(0, 1) @ vv.flatten(2).mT)
        form += b[last] * b[to] * pulls[to, last] * (near * moves[to]).sum(-1)
        form += b[last] * a[to] * (near * _by_query(q[last].expand(last + 1, -1, -1), vk)).sum(-1)
        form += a[last] * b[to] * (far * _by_query(q[to], kv)).sum(-1)
        out += 2 * form.sum(0) - form[last]  # a pair of two heads counts twice
    return out


def _by_query(
    q: Float[Tensor, "head row width"], vk: Float[Tensor, "head key valuewidth width"]
) -> Float[Tensor, "head row key valuewidth"]:
    """V_j K_j^T q_i."""
    return (q @ vk.flatten(1, 2).mT).unflatten(-1, vk.shape[1:3])


def _pulls(
    dk: Float[Tensor, "ktoken head width dim"], q: Float[Tensor, "head row width"], squares: Tensor | None
) -> Float[Tensor, "head head2 row key_or_1"]:
    """(K_j^hT q_i^h) . (K_j^h'T q_i^h'), with the squares of the factors of the input dimensions."""
    pull = q @ dk  # (key, head, row, dim)
    if len(dk) == 1:
        pairs = pull[0, :, None] * pull[0]
        return pairs.sum(-1, keepdim=True) if squares is None else pairs @ squares.T
    other = pull if squares is None else pull * squares[:, None, None]
    return (pull.transpose(1, 2) @ other.permute(0, 2, 3, 1)).permute(2, 3, 1, 0)


def _times(rows: Float[Tensor, "head token width dim"], right: Float[Tensor, "token_or_1 any dim"]) -> Tensor:
    """Rows times their token's right factor, transposed: (head, token, width, any). One product if all share it."""
    return rows @ (right[0] if len(right) == 1 else right).mT


def _at(t: Tensor, tokens: slice, axis: int = 0) -> Tensor:
    """Some tokens of an axis that is 1 where all tokens have the same."""
    return t if t.shape[axis] == 1 else t.narrow(axis, tokens.start, tokens.stop - tokens.start)


def _scaled(t: Float[Tensor, "token *any dim"], columns: Tensor | None, tokens: slice) -> Tensor:
    """The input dimensions scaled by those of the tokens."""
    if columns is None:
        return t
    factors = columns[tokens]
    return t * factors.view(len(factors), *[1] * (t.ndim - 2), -1)
