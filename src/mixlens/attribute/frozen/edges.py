"""What a head carries from each token to a row, against what it reads there and in the text as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.attribute.frozen.softmax import read
from mixlens.capture.attention import repeat_heads
from mixlens.decompose import Block, Terms
from mixlens.decompose.dots import directions
from mixlens.precision import widened

Clamp = Literal["layer", "head"]


@dataclass(frozen=True)
class Measured:
    """What a head's term of a token is, p_ij^h W_O^h (v_j^h - r_i^h).

    `temperature`: of the softmax that p is. r_i = (1 - average) sum_k p_ik v_k + average (its mean over the rows up to
    i); with `average` None there is no r. `clamp`: whether each head's negative terms are dropped, or those of all of a
    layer's together.
    """

    temperature: float = 1.0
    average: float | None = 0.5
    clamp: Clamp = "layer"

    def means(self, block: Block) -> Float[Tensor, "text head row width"] | None:
        """What each head reads, averaged over the rows up to each one, so that no later token counts."""
        if not self.average:
            return None
        whole = widened(read(block.call, self.temperature))
        count = torch.arange(1, whole.shape[2] + 1, dtype=whole.dtype, device=whole.device)
        return whole.cumsum(2) / count[:, None]

    def edges(self, block: Block, rows: Int[Tensor, "text row"], means: Tensor | None = None) -> Edges:
        """At some rows; `means` are made where they are not at hand."""
        means = self.means(block) if means is None else means
        if means is not None:
            means = means.gather(2, rows[:, None, :, None].expand(-1, means.shape[1], -1, means.shape[3]))
        return Edges(self, block.only(rows).terms("attention"), means)


@dataclass(frozen=True, eq=False)
class Edges:
    """The terms of a layer's heads at some rows, `means` being what each reads on average up to there."""

    measured: Measured
    terms: Terms
    means: Float[Tensor, "text head row width"] | None

    def positive(self, u: Float[Tensor, "text row dim"]) -> Float[Tensor, "text row token"]:
        """max(0, sum over heads of a term . u_i), or the sum of each head's max, without a token's own term."""
        call, place = self.terms.call, self.terms.place
        assert place is not None
        temperature, average = self.measured.temperature, self.measured.average
        toward = directions(self.terms, u)
        values = repeat_heads(self.terms.values, call.groups)
        weights = call.weights() if temperature == 1 else call.softmax(call.logits(), temperature)
        products = toward @ values.transpose(2, 3)
        if average is not None:
            against = (1 - average) * (weights * products).sum(-1)
            if self.means is not None:
                against = against + average * (toward * self.means).sum(-1)
            products = products - against[..., None]
        each = weights * products
        total = each.sum(1).clamp_min(0) if self.measured.clamp == "layer" else each.clamp_min(0).sum(1)
        return total.scatter(2, place[..., None], 0.0)
