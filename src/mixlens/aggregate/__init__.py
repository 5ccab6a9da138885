"""Layer maps to one map that stands for several layers: functions of arrays alone. `AGGREGATIONS` is the list."""

from mixlens.aggregate.functions import AGGREGATIONS, Aggregation

__all__ = ["AGGREGATIONS", "Aggregation"]
