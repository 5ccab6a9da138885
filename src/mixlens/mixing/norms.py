"""Norm-based maps: how long each token's term is, at one stage of the layer after the other."""

from __future__ import annotations

from mixlens.decompose import Block
from mixlens.mixing.ratio import encoder_stage
from mixlens.mixing.steps import Map, half_identity, normalize_rows


def norm(block: Block) -> Map:
    """N: ||sum_h alpha_ij^h f^h(x_j)||_2, value bias in, output bias out (Kobayashi 2020)."""
    return block.terms("attention").norms()


def norm_fixed_res(block: Block) -> Map:
    """N_FIXEDRES = 0.5 N / rowsum(N) + 0.5 I (Modarressi 2022)."""
    return half_identity(block, normalize_rows(norm(block)))


def norm_res(block: Block) -> Map:
    """N_RES: the terms with the residual x_i at j = i (Kobayashi 2021)."""
    return block.terms("residual").norms()


def norm_resln(block: Block) -> Map:
    """N_RESLN: those through the frozen first norm, beta out (Kobayashi 2021). Post-LN only: raises Undefined."""
    return block.terms("ln1").norms()


def globenc(block: Block) -> Map:
    """N_ENC: those through both frozen norms (Modarressi 2022, Eq. 11); pre-LN: as they stand in the residual stream.

    The FFN's direct effect is left out in both, as in the paper; its output counts in the second norm's scale.
    """
    return block.terms(encoder_stage(block)).norms()
