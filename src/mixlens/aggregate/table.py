"""The table of aggregations: one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mixlens.aggregate import functions
from mixlens.aggregate.flow import flow


@dataclass(frozen=True)
class Aggregation:
    """An aggregation: its function and its line in the facts table."""

    function: Callable[..., Any]
    summary: str
    cite: str


AGGREGATIONS: dict[str, Aggregation] = {
    "rollout": Aggregation(functions.rollout, "product of the layer maps", "Abnar & Zuidema 2020, Eq. 1"),
    "flow": Aggregation(flow, "maximum flow through the layer maps", "Abnar & Zuidema 2020, section 3"),
    "layer": Aggregation(functions.layer, "one layer alone", "-"),
    "mean": Aggregation(functions.mean, "mean over layers", "-"),
    "sum": Aggregation(functions.total, "sum over layers", "-"),
}
