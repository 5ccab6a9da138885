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
CACHE_BYTES = 2 << 20  # vectors of one inner step: what a core's cache holds


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
        return self.selves_and_others()[0]

    def selves_and_others(self) -> tuple[Tensor, Tensor]:
        """The diagonal terms, and the sum of each row's other terms; both (batch, query, dim)."""
        v = repeat_heads(self.values, self.call.groups)
        selves, others = [], []
        for rows, alpha in self.rows():
            i = torch.arange(alpha.shape[2], device=alpha.device)
            here = alpha[:, :, i, i + rows.start]
            selves.append(here[..., None] * v[:, :, rows])
            alpha[:, :, i, i + rows.start] = 0
            others.append(alpha @ v)
        own = self.from_context(torch.cat(selves, 2))
        return own if self.own is None else own + self.own, self.from_context(torch.cat(others, 2))

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
        for keys, vectors in self.keys():
            w = vectors.to(wide)
            gram[:, keys] = w @ w.transpose(2, 3)
        out = []
        for _, alpha in self.rows():
            a = alpha.permute(0, 3, 2, 1).to(wide)  # batch, key, row, head
            out.append((a @ gram).mul_(a).sum(-1).clamp_min_(0).sqrt_().transpose(1, 2))
        norms = torch.cat(out, 1)
        if self.scale is not None:
            norms = norms * self.scale[..., None]
        norms = norms.to(self.values.dtype)
        if self.own is not None:
            norms.diagonal(dim1=1, dim2=2).copy_(self.selves().norm(dim=-1))
        return norms

    def distances(self, y: Float[Tensor, "batch query dim"], p: int) -> Float[Tensor, "batch query key"]:
        """||term_ij - y_i||_p, one cache-sized block of vectors at a time (ALTI)."""
        batch, heads, n, dim = self.shape
        target = y if self.scale is None else y / self.scale[..., None]  # the scale is taken out of the whole norm
        out = y.new_empty(batch, n, n)
        for rows, alpha in self.rows():
            a = alpha.permute(0, 3, 2, 1).contiguous()  # batch, key, row, head
            size = a.shape[2]
            base = target[:, None, rows]
            for outer, vectors in self.keys():
                for inner in blocks(vectors.shape[1], CACHE_BYTES // (batch * size * dim * y.element_size())):
                    keys = slice(outer.start + inner.start, outer.start + inner.stop)
                    count = inner.stop - inner.start
                    t = torch.baddbmm(
                        base.expand(batch, count, size, dim).reshape(batch * count, size, dim),
                        a[:, keys].reshape(batch * count, size, heads),
                        vectors[:, inner].reshape(batch * count, heads, dim),
                        beta=-1,
                    )
                    distance = torch.linalg.vector_norm(t, ord=p, dim=-1)
                    out[:, rows, keys] = distance.view(batch, count, size).transpose(1, 2)
        if self.scale is not None:
            out = out * self.scale[..., None]
        if self.own is not None:
            own = torch.linalg.vector_norm(self.selves() - y, ord=p, dim=-1)
            out.diagonal(dim1=1, dim2=2).copy_(own)
        return out


def _add_diagonal(t: Tensor, own: Tensor, rows: slice, keys: slice) -> None:
    """Add own_i to the entries of `t` (batch, row, key, dim) with i = j."""
    both = range(max(rows.start, keys.start), min(rows.stop, keys.stop))
    if both:
        i = torch.tensor(both, device=t.device)
        t[:, i - rows.start, i - keys.start] += own[:, i]
