"""From what was asked to what is run, and from what was run to a result. `RUNNERS`: which code runs which class.

A runner takes several requests for the same texts and targets, whose methods are of one class and share a pass
(`Method.shares`); `together` says which do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from mixlens.attribute.kinds import Gradient, Jacobian, Method, Occlusion, Path, Preset, Random, Relevance
from mixlens.errors import NotFinite
from mixlens.results import Attribution
from mixlens.runners import graph, jacobian, maps, occlusion, path, relevance
from mixlens.runners.request import Request
from mixlens.selfcheck import bad_weights, not_finite

Runner = Callable[[Any, Sequence[Request]], list[list[Attribution]]]


def together(methods: Sequence[tuple[Method, Mapping[str, Any]]]) -> list[list[int]]:
    """The numbers of the methods, asked for with these options, that share a pass; each in one list."""
    groups: dict[Hashable, list[int]] = {}
    for number, (method, asked) in enumerate(methods):
        shared = method.shares(asked)
        groups.setdefault((None, number) if shared is None else shared, []).append(number)
    return list(groups.values())


def attributions(lens: Any, asks: Sequence[Request]) -> list[list[Attribution]]:
    """What each of several requests that share a pass asks for, a list a request; NaN weights are named.

    Results are tensors that can be differentiated: whoever calls this is `settled`.
    """
    try:
        return RUNNERS[type(asks[0].method)](lens, asks)
    except NotFinite:
        if bad_weights(lens.model):
            raise not_finite(lens.model, "a weight") from None
        raise


def _one_by_one(runner: Callable[[Any, Request], list[Attribution]]) -> Runner:
    return lambda lens, asks: [runner(lens, ask) for ask in asks]


RUNNERS: dict[type[Method], Runner] = {
    Preset: maps.attributions,
    Random: _one_by_one(maps.random_scores),
    Gradient: graph.attributions,
    Relevance: _one_by_one(relevance.attributions),
    Path: _one_by_one(path.attributions),
    Jacobian: _one_by_one(jacobian.attributions),
    Occlusion: _one_by_one(occlusion.attributions),
}

__all__ = ["RUNNERS", "Request", "attributions", "graph", "maps", "together"]
