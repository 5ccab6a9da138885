"""The exact additive terms of one sub-block, without ever holding query x key x dim.

    term_ij = scale_i * sum_h alpha_ij^h w_j^h  +  [i = j] own_i            w_j^h = v_j^h projection^h

The terms of source j lie in the span of its H head vectors w_j^h (plus the residual own_i at i = j), so their norms
follow from the H x H Gram matrices of the head vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.attention import Call, blocks, repeat_heads

ROW_BYTES = 64 << 20  # attention weights held at a time
VECTOR_BYTES = 32 << 20  # head vectors held at a time
CACHE_BYTES = 1 << 20  # vectors of one inner step on a CPU: what its cores' own caches hold


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms at one stage of a layer. `values` (batch, kv head, key, head dim), `projection` (head, head dim, dim)."""

    call: Call
    values: Tensor
    projection: Tensor
    scale: Tensor | None = None  # (batch, query); None: 1
    own: Tensor | None = None  # (batch, query, dim): the residual's term at i = j; None: no residual

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """batch, head, query (= key) positions, dim."""
        heads, _, dim = self.projection.shape
        return self.values.shape[0], heads, self.values.shape[2], dim

    def rows(self) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of query rows with their attention weights (batch, head, row, key)."""
        batch, heads, n, _ = self.shape
        for rows in blocks(n, ROW_BYTES // (batch * heads * n * self.values.element_size())):
            yield rows, self.call.weights(rows)

    def head_vectors(self, keys: slice = slice(None)) -> Float[Tensor, "batch key head dim"]:
        """w_j^h of some keys."""
        v = repeat_heads(self.values[:, :, keys], self.call.groups)
        return (v @ self.projection).transpose(1, 2)

    def keys(self) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of keys with their head vectors (batch, key, head, dim)."""
        batch, heads, n, dim = self.shape
        for keys in blocks(n, VECTOR_BYTES // (batch * heads * dim * self.values.element_size())):
            yield keys, self.head_vectors(keys)

    def from_context(self, context: Float[Tensor, "batch head query headdim"]) -> Float[Tensor, "batch query dim"]:
        """sum_h context_i^h projection^h, times the row's scale: a sum of terms without its residual part."""
        heads, width, dim = self.projection.shape
        flat = context.transpose(1, 2).flatten(2)
        return self._scaled(flat @ self.projection.reshape(heads * width, dim))

    def _scaled(self, t: Tensor) -> Tensor:
        return t if self.scale is None else t * self.scale[..., None]

    def selves(self) -> Float[Tensor, "batch query dim"]:
        """The diagonal terms, i = j, with the residual where there is one."""
        return self._selves(torch.cat([_diagonal(alpha, rows) for rows, alpha in self.rows()], 2))

    def _selves(self, weights: Float[Tensor, "batch head query"]) -> Float[Tensor, "batch query dim"]:
        """The diagonal terms from each token's weights on itself."""
        own = self.from_context(weights[..., None] * repeat_heads(self.values, self.call.groups))
        return own if self.own is None else own + self.own

    def selves_and_others(self) -> tuple[Tensor, Tensor]:
        """The diagonal terms, and the sum of each row's other terms; both (batch, query, dim)."""
        v = repeat_heads(self.values, self.call.groups)
        own, others = [], []
        for rows, alpha in self.rows():
            here = _diagonal(alpha, rows)
            own.append(here.clone())
            here.zero_()
            others.append(alpha @ v)
        return self._selves(torch.cat(own, 2)), self.from_context(torch.cat(others, 2))

    def chunks(self) -> Iterator[tuple[slice, slice, Float[Tensor, "batch row key dim"]]]:
        """The vectors themselves, by blocks of rows and keys: `(rows, keys, terms)`."""
        batch, _, _, dim = self.shape
        for rows, alpha in self.rows():
            step = CACHE_BYTES // (batch * alpha.shape[2] * dim * alpha.element_size())
            for outer, vectors in self.keys():
                for inner in blocks(vectors.shape[1], step):
                    keys = slice(outer.start + inner.start, outer.start + inner.stop)
                    t = torch.einsum("bhik,bkhd->bikd", alpha[..., keys], vectors[:, inner])
                    if self.scale is not None:
                        t = t * self.scale[:, rows, None, None]
                    if self.own is not None:
                        _add_diagonal(t, self.own, rows, keys)
                    yield rows, keys, t

    def norms(self) -> Float[Tensor, "batch query key"]:
        """||term_ij||_2 from Gram matrices; the diagonal, where the residual comes in, from the vectors.

        In float64 throughout where the device has it: in float32, cancelling heads make entries meaningless.
        """
        batch, heads, n, _ = self.shape
        wide = torch.float64 if self.values.device.type != "mps" else torch.float32
        gram = torch.empty(batch, n, heads, heads, dtype=wide, device=self.values.device)
        packed = torch.contiguous_format
        for keys, vectors in self.keys():
            # With the heads innermost the small products run at three times the speed of the other order.
            w = vectors.transpose(2, 3).to(wide, memory_format=packed)
            gram[:, keys] = w.transpose(2, 3) @ w
        out, own = [], []
        for rows, alpha in self.rows():
            own.append(_diagonal(alpha, rows))
            a = alpha.permute(0, 3, 1, 2).to(wide, memory_format=packed)  # batch, key, head, row
            out.append((gram @ a).mul_(a).sum(2).clamp_min_(0).sqrt_().transpose(1, 2))
        norms = torch.cat(out, 1)
        if self.scale is not None:
            norms = norms * self.scale[..., None]
        norms = norms.to(self.values.dtype)
        if self.own is not None:
            norms.diagonal(dim1=1, dim2=2).copy_(self._selves(torch.cat(own, 2)).norm(dim=-1))
        return norms

    def distances(self, y: Float[Tensor, "batch query dim"], p: int) -> Float[Tensor, "batch query key"]:
        """||term_ij - y_i||_p, p = 1 or 2, one cache-sized block of vectors at a time (ALTI)."""
        batch, heads, n, dim = self.shape
        target = y if self.scale is None else y / self.scale[..., None]  # the scale is taken out of the whole norm
        out, own, room = y.new_empty(batch, n, n), [], y.new_empty(0)  # out: batch, key, query
        for outer, alpha in self.rows():
            own.append(_diagonal(alpha, outer))
            a = alpha.permute(0, 3, 2, 1).contiguous()  # batch, key, row, head
            for some, vectors in self.keys():
                for texts, rows, keys in self._tiles(a.shape[2], vectors.shape[1]):
                    here = slice(outer.start + rows.start, outer.start + rows.stop)
                    there = slice(some.start + keys.start, some.start + keys.stop)
                    w = vectors[texts, keys]
                    t = room.resize_(*w.shape[:2], rows.stop - rows.start, dim).copy_(target[texts, None, here])
                    t = t.flatten(0, 1).baddbmm_(a[texts, there, rows].flatten(0, 1), w.flatten(0, 1), beta=-1)
                    # torch's 1-norm is a scalar loop, seven times slower than these two
                    distance = t.abs_().sum(-1) if p == 1 else torch.linalg.vector_norm(t, dim=-1)
                    out[texts, there, here] = distance.view(*w.shape[:2], -1)
        out = out.transpose(1, 2)
        if self.scale is not None:
            out = out * self.scale[..., None]
        if self.own is not None:
            off = torch.linalg.vector_norm(self._selves(torch.cat(own, 2)) - y, ord=p, dim=-1)
            out.diagonal(dim1=1, dim2=2).copy_(off)
        return out

    def _tiles(self, rows: int, keys: int) -> Iterator[tuple[slice, slice, slice]]:
        """`(texts, rows, keys)` of so many rows and keys, each small enough that its vectors stay in the cache."""
        batch, _, _, dim = self.shape
        size = CACHE_BYTES if self.values.device.type == "cpu" else VECTOR_BYTES
        left = size // (dim * self.values.element_size())
        step = [0, 0, 0]
        for axis, length in ((1, rows), (2, keys), (0, batch)):
            step[axis] = max(1, min(length, left))
            left //= step[axis]
        for text in blocks(batch, step[0]):
            for row in blocks(rows, step[1]):
                for key in blocks(keys, step[2]):
                    yield text, row, key


def _diagonal(alpha: Tensor, rows: slice) -> Float[Tensor, "batch head row"]:
    """Each token's weights on itself: a view of a block of rows of weights."""
    return alpha[..., rows].diagonal(dim1=2, dim2=3)


def each(t: Float[Tensor, "batch row dim"], count: int) -> Float[Tensor, "batches row dim"]:
    """A new tensor with the same for each of `count` keys: batch * count."""
    return t[:, None].expand(-1, count, -1, -1).clone(memory_format=torch.contiguous_format).flatten(0, 1)


def _add_diagonal(t: Tensor, own: Tensor, rows: slice, keys: slice) -> None:
    """Add own_i to the entries of `t` (batch, row, key, dim) with i = j."""
    both = range(max(rows.start, keys.start), min(rows.stop, keys.stop))
    if both:
        i = torch.tensor(both, device=t.device)
        t[:, i - rows.start, i - keys.start] += own[:, i]
