"""The mixing ratio: how much of a token's new representation comes from the other tokens."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.decompose import Block
from mixlens.decompose.block import Stage
from mixlens.errors import UnknownMethod, did_you_mean

RATIOS = ("norm", "norm_res", "norm_resln", "globenc")


def encoder_stage(block: Block) -> Stage:
    """Where a layer ends for its attention terms: behind the second norm, or in the residual stream (pre-LN)."""
    return "ln2" if block.has("ln2") else "residual"


def mixing_ratio(block: Block, method: str) -> Float[Tensor, "batch query"]:
    """r_i = ||sum_{j != i} term_ij|| / (that + ||term_ii||), 0 without other tokens (Modarressi 2022, Eq. 8 and 14).

    The norm of the SUM of the other tokens' terms. Raises UnknownMethod, Undefined.
    """
    if method not in RATIOS:
        raise UnknownMethod(f"no mixing ratio is defined for {method!r}{did_you_mean(method, RATIOS)}")
    stages: dict[str, Stage] = {"norm": "attention", "norm_res": "residual", "norm_resln": "ln1"}
    block.require_one_stream("the mixing ratio")
    selves, others = block.terms(stages.get(method) or encoder_stage(block)).selves_and_others()
    r, s = others.norm(dim=-1), selves.norm(dim=-1)
    return torch.where(r == 0, 0.0, r / (r + s).clamp_min(torch.finfo(r.dtype).tiny))
