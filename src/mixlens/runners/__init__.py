"""From what was asked to what is run, and from what was run to a result. `RUNNERS`: which code runs which class."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

from mixlens.attribute.kinds import Gradient, Jacobian, Method, Occlusion, Path, Preset, Random, Relevance
from mixlens.errors import NotFinite
from mixlens.results import Attribution
from mixlens.runners import graph, jacobian, maps, occlusion, path, relevance
from mixlens.runners.request import Request
from mixlens.selfcheck import bad_weights, not_finite

Runner = Callable[[Any, Request], list[Attribution]]


def _outside_inference(runner: Runner) -> Runner:
    """The runner without the caller's inference mode, whose tensors cannot be differentiated; NaN weights are named."""

    @wraps(runner)
    def run(lens: Any, ask: Request) -> list[Attribution]:
        with torch.inference_mode(False):
            try:
                return runner(lens, ask)
            except NotFinite:
                if bad_weights(lens.model):
                    raise not_finite(lens.model, "a weight") from None
                raise

    return run


_AS_WRITTEN: dict[type[Method], Runner] = {
    Preset: maps.attributions,
    Random: maps.random_scores,
    Gradient: graph.attributions,
    Relevance: relevance.attributions,
    Path: path.attributions,
    Jacobian: jacobian.attributions,
    Occlusion: occlusion.attributions,
}
RUNNERS = {kind: _outside_inference(runner) for kind, runner in _AS_WRITTEN.items()}

__all__ = ["RUNNERS", "Request", "graph", "maps"]
