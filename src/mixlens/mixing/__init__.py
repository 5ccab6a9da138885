"""Stage 4: Block -> one map (batch, query, key). One pure function a method; `MIXING` is the list of them."""

from mixlens.mixing.method import Mixing
from mixlens.mixing.ratio import RATIOS, mixing_ratio
from mixlens.mixing.table import MIXING

__all__ = ["MIXING", "RATIOS", "Mixing", "mixing_ratio"]
