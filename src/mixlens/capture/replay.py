"""A pass whose layers can be run again one at a time, each as it was called: what a layer made need not be kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from mixlens.architectures import Spec
from mixlens.capture.offload import let_go
from mixlens.capture.run import WITHOUT_HEADS, LayerPass, OnLayer, Reading, Recorder, Watch
from mixlens.errors import SelfCheckFailed


class Replay:
    """One forward pass of which each layer's input and arguments are kept, (layer, token, dim) in all.

    `output`: what the pass gave. `on_layer`: as in `run`, on the way up; None: nobody looks. Raises SelfCheckFailed.
    """

    def __init__(
        self,
        model: Any,
        spec: Spec,
        inputs: Mapping[str, Any],
        on_layer: OnLayer | None = None,
        reading: Reading = WITHOUT_HEADS,
    ) -> None:
        self._calls: list[LayerPass] = []  # module, input, output and arguments of each; no attentions
        self._recorder = Recorder(spec, Watch(self._keep(on_layer)))
        try:
            self.output = self._recorder.run(model, inputs, reading)
        finally:
            self._recorder.end()

    def _keep(self, on_layer: OnLayer | None) -> OnLayer:
        def keep(seen: LayerPass) -> None:
            self._calls.append(replace(seen, attends=(), norms={}))
            if on_layer is not None:
                on_layer(seen)

        return keep

    @contextmanager
    def again(self, index: int) -> Iterator[LayerPass]:
        """Layer `index` run again, its weights there meanwhile. Raises SelfCheckFailed where it gives other numbers."""
        held = self._calls[index]
        passes: list[LayerPass] = []
        self._recorder.count, self._recorder.holds = index, True
        self._recorder.watch = Watch(passes.append)
        try:
            held.module(*held.args, **held.kwargs)
            (seen,) = passes
            assert seen.y is not None and held.y is not None
            off = float((seen.y - held.y).abs().max())
            if not off <= 50 * torch.finfo(held.y.dtype).eps * float(held.y.abs().max()):
                raise SelfCheckFailed(
                    f"expected {type(held.module).__name__} {index} run again to give what it gave, it is off by "
                    f"{off:.1e}; the layer keeps a state or draws random numbers"
                )
            yield seen
        finally:
            let_go(held.module)
