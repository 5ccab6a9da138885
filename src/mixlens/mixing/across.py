"""A decoder's layer that reads two streams: how much of its own tokens and of the memory's goes into each token.

Each function takes the layer's two attentions. Of what comes out of the second, to the memory, a part is what entered
it: a token's own vector, which the first attention has mixed (ALTI+, Ferrando 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.decompose import Block
from mixlens.decompose.block import Stage
from mixlens.mixing.alti import alti
from mixlens.mixing.attention import attention
from mixlens.mixing.steps import Map, normalize_rows, only_visible
from mixlens.mixing.value_zeroing import Distance, value_zeroing

Reach = Float[Tensor, "batch query memory"]


@dataclass(frozen=True, eq=False)
class Across:
    """`target` (batch, query, key) and `memory` (batch, query, memory): the maps of the two attentions.

    `carried` (batch, query): how much of what comes out of the second is what entered it; None: the method says
    nothing of it, and whoever adds a residual's share does.
    """

    target: Map
    memory: Reach
    carried: Float[Tensor, "batch query"] | None


def attention_across(first: Block, second: Block) -> Across:
    """The head means of both attentions' weights."""
    return Across(attention(first), attention(second), None)


def alti_across(first: Block, second: Block, *, p: int = 1) -> Across:
    """ALTI+ (Ferrando 2022): alti of the first attention; of the second, how near each term comes to what comes out of
    it, one of them being what entered it. Rows over both sum to 1. Raises UnknownOption.
    """
    stage = _behind(second)
    y = second.result(stage)
    size = torch.linalg.vector_norm(y, ord=p, dim=-1)
    near = (size[..., None] - second.terms(stage).distances(y, p)).clamp_min(0)
    carried = (size - torch.linalg.vector_norm(second.carried(stage) - y, ord=p, dim=-1)).clamp_min(0)
    return _shared(alti(first, p=p), only_visible(second, near), carried)


def norm_across(first: Block, second: Block) -> Across:
    """The lengths of both attentions' terms, residuals among them, each behind its own norm (Kobayashi 2021)."""
    return _lengths(first, second, _behind(second))


def globenc_across(first: Block, second: Block) -> Across:
    """The same, those of the second as they are behind the layer's last norm (Modarressi 2022)."""
    return _lengths(first, second, "ln2" if second.has("ln2") else "residual")


def value_zeroing_across(first: Block, second: Block, *, distance: Distance = "cosine") -> Across:
    """How far the layer's output moves when a value of either attention is zeroed (Mohebbi 2023, Eq. 10), rows over
    both divided by their sum: nothing is carried beside, since a token's own value counts as any other.
    """
    target, memory = (value_zeroing(block, distance=distance, normalize=False) for block in (first, second))
    total = target.sum(-1) + memory.sum(-1)
    scale = torch.where(total > 0, 1 / total, 0.0)[..., None]
    return Across(target * scale, memory * scale, torch.ones_like(total))


def _behind(block: Block) -> Stage:
    """The stage behind an attention's residual sum: its norm's (post-LN), or the sum itself."""
    return "ln1" if block.has("ln1") else "residual"


def _lengths(first: Block, second: Block, stage: Stage) -> Across:
    target = normalize_rows(first.terms(_behind(first)).norms())
    lengths = torch.linalg.vector_norm(second.carried(stage), dim=-1)
    return _shared(target, second.terms(stage).norms(), lengths)


def _shared(target: Map, memory: Reach, carried: Float[Tensor, "batch query"]) -> Across:
    """The second attention's terms and what it carries, divided by their sum; a row of zeros carries everything."""
    total = memory.sum(-1) + carried
    scale = torch.where(total > 0, 1 / total, 0.0)
    return Across(target, memory * scale[..., None], torch.where(total > 0, carried * scale, 1.0))
