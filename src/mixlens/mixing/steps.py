"""Small steps that several methods share."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.aggregate.shares import normalize_rows as normalize_rows
from mixlens.decompose import Block

Map = Float[Tensor, "batch query key"]


def half_identity(block: Block, scores: Map) -> Map:
    """0.5 M + 0.5 I. Raises Undefined where queries and keys are two streams."""
    block.require_one_stream("half the identity")
    eye = torch.eye(scores.shape[-1], dtype=scores.dtype, device=scores.device)
    return 0.5 * scores + 0.5 * eye


def only_visible(block: Block, scores: Map) -> Map:
    """Exactly 0 where the mask hides the key: rounding must not put anything there."""
    visible = block.call.visible()
    return scores if visible is None else scores.masked_fill(~visible[:, 0], 0.0)
