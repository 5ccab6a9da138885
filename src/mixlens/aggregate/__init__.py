"""Stage 5: layer maps -> one map that stands for several layers. `AGGREGATIONS` is the list."""

from mixlens.aggregate.apply import apply
from mixlens.aggregate.functions import AGGREGATIONS, Aggregation

__all__ = ["AGGREGATIONS", "Aggregation", "apply"]
