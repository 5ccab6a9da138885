"""Stage 4: Block -> one map (batch, query, key). One pure function a method; `MIXING` is the list of them."""

from mixlens.mixing.methods import MIXING, Mixing
from mixlens.mixing.ratio import RATIOS, mixing_ratio

__all__ = ["MIXING", "RATIOS", "Mixing", "mixing_ratio"]
