"""The exact additive terms of one sub-block, without ever holding query x key x dim.

    term_ij = scale_i * sum_h alpha_ij^h w_j^h  +  [i = j] residual_i       w_j^h = v_j^h projection^h

The terms of source j lie in the span of its H head vectors w_j^h (plus the residual at i = j), so their norms
follow from the H x H Gram matrices of the head vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.attention import Call, blocks, repeat_heads
from mixlens.decompose.fused import fused_distances, fused_grams
from mixlens.decompose.scratch import scratch
from mixlens.decompose.tiles import CACHE_BYTES, ROW_BYTES, TILE_BYTES, VECTOR_BYTES, inner_bytes, tiles
from mixlens.errors import Undefined


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms at one stage of a layer. `values` (batch, kv head, key, head dim), `projection` (head, head dim, dim)."""

    call: Call
    values: Tensor
    projection: Tensor
    scale: Tensor | None = None  # (batch, query); None: 1
    residual: Tensor | None = None  # (batch, query, dim): the residual's term at i = j; None: no residual
    place: Tensor | None = None  # (batch, query): the queries' positions among the keys; None: all, in order
    one_stream: bool = True  # of queries and keys, so that a token has a term of its own

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """batch, head, key positions, dim."""
        heads, _, dim = self.projection.shape
        return self.values.shape[0], heads, self.values.shape[2], dim

    def rows(self) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of query rows with their attention weights (batch, head, row, key)."""
        batch, heads, n, _ = self.shape
        for rows in blocks(self.queries, ROW_BYTES // (batch * heads * n * self.values.element_size())):
            yield rows, self.call.weights(rows)

    @property
    def queries(self) -> int:
        """Query rows: as many as keys, unless `place` says which."""
        return self.call.q.shape[2]

    def head_vectors(self, keys: slice = slice(None)) -> Float[Tensor, "batch key head dim"]:
        """w_j^h of some keys."""
        v = repeat_heads(self.values[:, :, keys], self.call.groups)
        return by_head(v, self.projection)

    def keys(self) -> Iterator[tuple[slice, Tensor]]:
        """Blocks of keys with their head vectors (batch, key, head, dim), contiguous and good until the next block."""
        batch, heads, n, dim = self.shape
        each = batch * heads * dim * self.values.element_size()
        for keys in blocks(n, VECTOR_BYTES // each):
            vectors = scratch("head vectors", (batch, keys.stop - keys.start, heads, dim), self.values)
            for part in blocks(keys.stop - keys.start, inner_bytes(self.values.device, VECTOR_BYTES) // each):
                vectors[:, part] = self.head_vectors(slice(keys.start + part.start, keys.start + part.stop))
            yield keys, vectors

    def from_context(self, context: Float[Tensor, "batch head query headdim"]) -> Float[Tensor, "batch query dim"]:
        """sum_h context_i^h projection^h, times the row's scale: a sum of terms without its residual part."""
        heads, width, dim = self.projection.shape
        flat = context.transpose(1, 2).flatten(2)
        return self._scaled(flat @ self.projection.reshape(heads * width, dim))

    def _scaled(self, t: Tensor) -> Tensor:
        return t if self.scale is None else t * self.scale[..., None]

    def selves(self) -> Float[Tensor, "batch query dim"]:
        """The diagonal terms, i = j, with the residual where there is one. Raises Undefined between two streams."""
        self._require_one_stream()
        return self._selves(torch.cat([self._diagonal(alpha, rows) for rows, alpha in self.rows()], 2))

    def _require_one_stream(self) -> None:
        if not self.one_stream:
            raise Undefined("expected queries and keys of one stream for a token's own term, got two streams")

    def _diagonal(self, alpha: Tensor, rows: slice) -> Float[Tensor, "batch head row"]:
        """Each token's weights on itself, from a block of rows of weights."""
        if self.place is None:
            return alpha[..., rows].diagonal(dim1=2, dim2=3).clone()
        return alpha.gather(3, self.place[:, None, rows, None].expand(-1, alpha.shape[1], -1, -1))[..., 0]

    def _put_diagonal(self, out: Float[Tensor, "batch query key"], selves: Float[Tensor, "batch query"]) -> None:
        """What stands where a token meets itself."""
        if self.place is None:
            out.diagonal(dim1=1, dim2=2).copy_(selves)
        else:
            out.scatter_(2, self.place[..., None], selves[..., None])

    def _selves(self, weights: Float[Tensor, "batch head query"]) -> Float[Tensor, "batch query dim"]:
        """The diagonal terms from each token's weights on itself."""
        v = repeat_heads(self.values, self.call.groups)
        if self.place is not None:
            v = v.gather(2, self.place[:, None, :, None].expand(-1, v.shape[1], -1, v.shape[3]))
        diagonal = self.from_context(weights[..., None] * v)
        return diagonal if self.residual is None else diagonal + self.residual

    def selves_and_others(self) -> tuple[Tensor, Tensor]:
        """The diagonal terms, and the sum of each row's other terms; both (batch, query, dim). Raises Undefined."""
        self._require_one_stream()
        v = repeat_heads(self.values, self.call.groups)
        assert self.place is None
        diagonal, others = [], []
        for rows, alpha in self.rows():
            diagonal.append(self._diagonal(alpha, rows))
            alpha = alpha.clone()
            alpha[..., rows].diagonal(dim1=2, dim2=3).zero_()
            others.append(alpha @ v)
        return self._selves(torch.cat(diagonal, 2)), self.from_context(torch.cat(others, 2))

    def chunks(self) -> Iterator[tuple[slice, slice, Float[Tensor, "batch row key dim"]]]:
        """The vectors themselves, by blocks of rows and keys: `(rows, keys, terms)`."""
        assert self.place is None or self.residual is None
        batch, _, _, dim = self.shape
        for rows, alpha in self.rows():
            step = CACHE_BYTES // (batch * alpha.shape[2] * dim * alpha.element_size())
            for outer, vectors in self.keys():
                for inner in blocks(vectors.shape[1], step):
                    keys = slice(outer.start + inner.start, outer.start + inner.stop)
                    t = torch.einsum("bhik,bkhd->bikd", alpha[..., keys], vectors[:, inner])
                    if self.scale is not None:
                        t = t * self.scale[:, rows, None, None]
                    if self.residual is not None:
                        _add_diagonal(t, self.residual, rows, keys)
                    yield rows, keys, t

    def norms(self) -> Float[Tensor, "batch query key"]:
        """||term_ij||_2 from Gram matrices, formed in float64: in float32, cancelling heads make entries meaningless.

        With G = L L', ||sum_h a_h w^h|| = ||L' a||, which cancels no more than the vectors do: float32 is enough there.
        """
        batch, heads, n, _ = self.shape
        gram = self._grams()
        inner = gram[..., :heads, :heads]
        factor = _factor(inner) if self.values.dtype == torch.float32 and gram.device.type == "cpu" else None
        form = inner if factor is None else factor
        out = torch.empty(batch, n, self.queries, dtype=form.dtype, device=gram.device)  # batch, key, query
        diagonal: list[Tensor] = []
        for rows, alpha in self.rows():
            if self.residual is not None:
                diagonal.append(self._diagonal(alpha, rows))
            a = _heads_last(alpha)
            for keys in blocks(
                n, inner_bytes(self.values.device, ROW_BYTES) // (2 * batch * heads * alpha.shape[2] * form.itemsize)
            ):
                weights = a[:, keys].to(form.dtype)
                made = weights @ form[:, keys]
                if factor is None:
                    torch.sum(made.mul_(weights), -1, out=out[:, keys, rows])
                else:
                    torch.linalg.vector_norm(made, dim=-1, out=out[:, keys, rows])
        if factor is None:
            out.clamp_min_(0).sqrt_()
        norms = out.transpose(1, 2)
        if self.scale is not None:
            norms = norms * self.scale[..., None]
        norms = norms.to(self.values.dtype)
        if self.residual is not None:
            self._put_diagonal(norms, self._self_norms(torch.cat(diagonal, 2), gram).to(norms.dtype))
        return norms

    def _self_norms(self, weights: Float[Tensor, "batch head query"], gram: Tensor) -> Float[Tensor, "batch query"]:
        """The norms of the diagonal terms with the residual's."""
        if self.place is not None:
            return self._selves(weights).norm(dim=-1)
        a = weights.transpose(1, 2).to(gram.dtype)
        a = a if self.scale is None else a * self.scale[..., None]
        a = torch.cat([a, torch.ones_like(a[..., :1])], -1)[..., None]
        return (a.mT @ gram @ a)[..., 0, 0].clamp_min_(0).sqrt_()

    def _grams(self) -> Float[Tensor, "batch key vector vector"]:
        """Inner products of each key's head vectors and, last, its residual's term; in float64 where there is one."""
        batch, heads, n, dim = self.shape
        residual = self.residual if self.place is None else None
        count = heads + (residual is not None)
        wide = torch.float64 if self.values.device.type != "mps" else torch.float32
        gram = torch.empty(batch * n, count, count, dtype=wide, device=self.values.device)
        v = repeat_heads(self.values, self.call.groups).transpose(0, 1).reshape(heads, batch * n, -1)  # texts in a row
        fused = fused_grams(heads, dim, residual is not None) if self._single() else None
        for keys in blocks(
            batch * n, inner_bytes(self.values.device, VECTOR_BYTES, TILE_BYTES) // (count * dim * gram.itemsize)
        ):
            vectors = scratch("some vectors", (heads, keys.stop - keys.start, dim), v)
            torch.bmm(v[:, keys], self.projection, out=vectors)
            tail = None if residual is None else residual.flatten(0, 1)[keys].contiguous()
            if fused is not None:
                fused(vectors, tail, gram[keys])
                continue
            # With the vectors innermost the small products run at three times the speed of the other order.
            w = scratch("all vectors", (keys.stop - keys.start, dim, count), gram)
            w[..., :heads] = vectors.permute(1, 2, 0)
            if tail is not None:
                w[..., heads] = tail
            torch.bmm(w.mT, w, out=gram[keys])
        return gram.view(batch, n, count, count)

    def distances(self, y: Float[Tensor, "batch query dim"], p: int) -> Float[Tensor, "batch query key"]:
        """||term_ij - y_i||_p, p = 1 or 2, a vector at a time or a cache-sized block of them (ALTI)."""
        batch, heads, n, dim = self.shape
        target = y if self.scale is None else y / self.scale[..., None]  # the scale is taken out of the whole norm
        out = y.new_empty(batch, n, self.queries)  # batch, key, query
        diagonal: list[Tensor] = []
        fused = fused_distances(heads, dim, p) if self._single() else None
        for keys, vectors in self.keys():
            for rows, alpha in self.rows():
                if keys.start == 0 and self.residual is not None:
                    diagonal.append(self._diagonal(alpha, rows))
                a, there = _heads_last(alpha[..., keys]), out[:, keys, rows]
                if fused is None:
                    self._distances(a, vectors, target[:, rows], p, there)
                else:
                    fused(a, vectors, target[:, rows], there)
        if fused is not None and p == 2:
            out.sqrt_()
        out = out.transpose(1, 2)
        if self.scale is not None:
            out = out * self.scale[..., None]
        if self.residual is not None:
            off = torch.linalg.vector_norm(self._selves(torch.cat(diagonal, 2)) - y, ord=p, dim=-1)
            self._put_diagonal(out, off)
        return out

    def _distances(self, a: Tensor, vectors: Tensor, target: Tensor, p: int, out: Tensor) -> None:
        """||sum_h a_h w^h - target||_p into `out` (batch, key, row), by products and passes that stay in the caches."""
        sums = vectors.sum(-1, keepdim=True) if p == 1 else None
        for texts, rows, step in tiles(target, a.shape[2], a.shape[1]):
            weights, there, to = a[texts, :, rows].contiguous(), out[texts, :, rows], target[texts, None, rows]
            for part in blocks(a.shape[1], step):
                t = scratch("terms", (*weights[:, part].shape[:3], target.shape[-1]), target)
                # two steps, since one `baddbmm` takes twice as long
                torch.bmm(weights[:, part].flatten(0, 1), vectors[texts, part].flatten(0, 1), out=t.flatten(0, 1))
                if p == 1:  # |t - y| = 2 max(t, y) - t - y: two passes over the vectors instead of three
                    torch.sum(torch.maximum(t, to, out=t), -1, out=there[:, part])
                else:
                    torch.linalg.vector_norm(t.sub_(to), dim=-1, out=there[:, part])
            if sums is not None:
                there.mul_(2).sub_((weights @ sums[texts]).squeeze(-1)).sub_(to.sum(-1))
        if p == 1:
            out.clamp_min_(0)  # rounding

    def _single(self) -> bool:
        """Whether the numbers are such as `decompose/fused.py` takes."""
        return self.values.dtype == torch.float32 and self.values.device.type == "cpu"


def by_head(
    v: Float[Tensor, "batch head key width"], maps: Float[Tensor, "head width any"]
) -> Float[Tensor, "batch key head any"]:
    """v_j^h maps^h. As one product a head: torch would copy the maps for every text of the batch."""
    batch, heads, count, width = v.shape
    out = torch.bmm(v.transpose(0, 1).reshape(heads, batch * count, width), maps)
    return out.view(heads, batch, count, -1).permute(1, 2, 0, 3)


def _factor(gram: Float[Tensor, "*axes vector vector"]) -> Tensor | None:
    """L in float32 with gram = L L'; None where a matrix is singular."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    return None if bool(failed.any()) else factor.float()


def _heads_last(alpha: Float[Tensor, "batch head row key"]) -> Float[Tensor, "batch key row head"]:
    """The same numbers with each pair's heads side by side; this way of turning takes a tenth of the direct one."""
    return alpha.permute(0, 2, 3, 1).contiguous().transpose(1, 2)


def _add_diagonal(t: Tensor, residual: Tensor, rows: slice, keys: slice) -> None:
    """Add residual_i to the entries of `t` (batch, row, key, dim) with i = j."""
    both = range(max(rows.start, keys.start), min(rows.stop, keys.stop))
    if both:
        i = torch.tensor(both, dtype=torch.int64, device=t.device)
        t[:, i - rows.start, i - keys.start] += residual[:, i]
