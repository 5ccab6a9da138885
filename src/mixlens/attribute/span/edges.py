"""The edges of a sum of rows: what information flow routes say of a span of tokens as if it were one (Pan 2026)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.aggregate.shares import normalize_rows
from mixlens.capture.attention import Call
from mixlens.decompose import Block, Terms
from mixlens.mixing.ifr import by_head


class Sums(NamedTuple):
    """Of some rows of a layer: their terms without the residual, the real vectors behind the residual sum, and those
    that enter the layer.
    """

    terms: Terms
    behind: Float[Tensor, "row dim"]
    entering: Float[Tensor, "row dim"]


@dataclass(frozen=True, eq=False)
class Weighted(Call):
    """A call whose queries are weighted sums of rows, so that its weights are those rows' weights added up."""

    summed: Float[Tensor, "1 head span key"]

    def weights(self, rows: slice = slice(None)) -> Tensor:
        return self.summed[:, :, rows]

    def head(self, h: int) -> Call:
        """The same for one query head alone."""
        alone = super().head(h)
        assert isinstance(alone, Weighted)
        return replace(alone, summed=self.summed[:, h : h + 1])


def sums(block: Block, chosen: Block) -> Sums:
    """What `span_edges` needs of a layer. Raises Undefined between two streams."""
    block.require_one_stream("flashtrace")
    return Sums(replace(chosen.terms("residual"), residual=None), chosen.result("residual")[0], chosen.x[0])


def span_edges(layer: Sums, spans: Float[Tensor, "span row"]) -> Float[Tensor, "span key"]:
    """e_Sj / (sum_j e_Sj + e_S): e_Sj = sum_h max(0, ||a_S||_1 - ||a_S - t_Sj^h||_1), a_S = sum_i w_Si a_i (Pan 2026).

    t_Sj^h = (sum_i w_Si alpha_ij^h) W_O^h v_j^h, and e_S = max(0, ||a_S||_1 - ||a_S - x_S||_1) is the residual's edge,
    in the denominator alone: a layer counts as much as its attention moves the span.
    """
    terms, a = layer.terms, spans @ layer.behind
    scaled = spans if terms.scale is None else spans * terms.scale
    summed = a.new_zeros(terms.shape[1], len(spans), terms.shape[2])
    for rows, alpha in terms.rows():
        summed += scaled[:, rows] @ alpha[0]
    call = terms.call
    none = call.q.new_empty(1, call.q.shape[1], len(spans), 0)  # as many queries, of which nothing is asked
    weighted = Weighted(none, call.k, call.v, None, 1.0, None, None, False, summed=summed[None])
    of_spans = replace(terms, call=weighted, scale=None, place=None)
    size = a.abs().sum(-1)
    edges = a.new_zeros(len(spans), summed.shape[-1])
    for part in by_head(of_spans):
        edges += (size[:, None] - part.distances(a[None], 1)[0]).clamp_min(0)
    edges.masked_fill_((summed == 0).all(0), 0.0)  # rounding where no row of the span looks
    stays = (size - (a - spans @ layer.entering).abs().sum(-1)).clamp_min(0)
    return normalize_rows(torch.cat([edges, stays[:, None]], 1))[:, :-1]
