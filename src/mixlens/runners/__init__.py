"""From what was asked to what is run, and from what was run to a result. `RUNNERS`: which code runs which class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mixlens.attribute.methods import Gradient, Method, Preset, Random, Relevance
from mixlens.results import Attribution
from mixlens.runners import graph, maps, relevance
from mixlens.runners.request import Request

RUNNERS: dict[type[Method], Callable[[Any, Request], list[Attribution]]] = {
    Preset: maps.attributions,
    Random: maps.random_scores,
    Gradient: graph.attributions,
    Relevance: relevance.attributions,
}

__all__ = ["RUNNERS", "Request", "graph", "maps"]
