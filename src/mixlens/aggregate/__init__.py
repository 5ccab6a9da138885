"""Layer maps to one map that stands for several layers: functions of arrays alone. `AGGREGATIONS` is the list."""

from mixlens.aggregate.table import AGGREGATIONS, Aggregation

__all__ = ["AGGREGATIONS", "Aggregation"]
