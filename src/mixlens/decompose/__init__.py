"""Stage 3: a layer as exact additive terms of its source tokens, norms frozen, and the rest of the layer."""

from mixlens.decompose.block import STAGES, Block
from mixlens.decompose.check import CallCheck, LayerCheck, residuals
from mixlens.decompose.terms import Terms

__all__ = ["STAGES", "Block", "CallCheck", "LayerCheck", "Terms", "residuals"]
