"""The flow network between one source and one input token, as scipy's solver takes it."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WHOLE = 2**31 - 1  # scipy's capacities and flow values are int32


class Network:
    """The layers between a source and the sinks, one sink at a time: only the numbers change with the sink.

    Nodes: the source, then of each level (from the top) the sink's own column and the n tokens, then the sink. The
    sink's column stands first and twice: so one structure holds all its edges whatever the sink is, and the solver,
    which tries edges in order, finds it first. The other one of the two has no capacity.
    """

    def __init__(self, middle: Array, kept: Array | None, source: int) -> None:
        """`middle` (layer, query, key), lowest layer first, whole or real numbers; `kept`: the edges (None: all)."""
        from scipy.sparse import csr_array

        self.middle = middle[::-1]  # top first, as the nodes are
        steps, n = middle.shape[:2]
        width = n + 1
        there = np.ones((steps, width, width), dtype=bool)
        there[:, 1:, 1:] = self.middle > 0 if kept is None else kept[::-1]
        if kept is not None:
            there[:, 1 + source, 1:] = self.middle[:, source] > 0
        self.places = np.flatnonzero(there)
        below = 1 + (self.places // width**2 + 1) * width + self.places % width
        nodes = (steps + 1) * width + 2
        ends = np.concatenate([np.arange(1, width + 1), below, np.full(width, nodes - 1)]).astype(np.int32)
        counts = np.concatenate([[0, width], there.sum(-1).ravel(), np.ones(width), [0]])
        starts = np.cumsum(counts).astype(np.int32)
        self.graph: Any = csr_array((np.zeros(len(ends), middle.dtype), ends, starts), shape=(nodes, nodes))
        self.buffer = np.zeros((steps, width, width), middle.dtype)

    def value(self, top: Array, bottom: Array, sink: int) -> int:
        """The flow value of whole capacities. `top` (key,): the source's edges; `bottom` (query,): the sink's."""
        from scipy.sparse.csgraph import maximum_flow

        self._fill(top, bottom, sink)
        return int(maximum_flow(self.graph, 0, self.graph.shape[0] - 1).flow_value)

    def bounds(self, top: Array, bottom: Array, sink: int, ceiling: float, apart: float) -> tuple[float, float]:
        """The flow value of real capacities between two bounds at most `apart`; `ceiling`: what it does not exceed.

        Capacities are rounded down to whole steps, so the integer flow is a flow: the lower bound. The cut that it
        fills, in real capacities, is the upper bound. Where they are too far apart, the network that the flow leaves
        over (edges back included) is solved again in finer steps, since less is to come.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        self._fill(top, bottom, sink)
        left, low, rest = self.graph.copy(), 0.0, ceiling
        while True:
            scale = WHOLE / rest
            steps = np.floor(np.minimum(left.data, rest) * scale).clip(max=WHOLE).astype(np.int32)
            whole: Any = csr_array((steps, left.indices, left.indptr), shape=left.shape)
            result = maximum_flow(whole, 0, left.shape[0] - 1)
            low += result.flow_value / scale
            if low >= ceiling - apart:
                return low, ceiling
            left = left - result.flow.astype(np.float64) / scale
            left.data = left.data.clip(min=0)  # rounding
            beyond = whole - result.flow
            beyond.eliminate_zeros()
            side = np.zeros(left.shape[0], dtype=bool)
            side[breadth_first_order(beyond, 0, return_predecessors=False)] = True
            rest = float(left[side][:, ~side].sum())
            if rest <= apart:
                return low, min(low + rest, ceiling)

    def _fill(self, top: Array, bottom: Array, sink: int) -> None:
        width = len(top) + 1
        inner = self.buffer[:, 1:, 1:]
        inner[:] = self.middle
        inner[:, sink] = inner[:, :, sink] = 0
        self.buffer[:, 0, 1:] = self.middle[:, sink]
        self.buffer[:, 1:, 0] = self.middle[:, :, sink]
        self.buffer[:, 0, 0] = self.middle[:, sink, sink]
        self.buffer[:, 0, 1 + sink] = self.buffer[:, 1 + sink, 0] = 0
        data = self.graph.data
        data[width:-width] = self.buffer.ravel()[self.places]
        for part, values in ((data[:width], top), (data[-width:], bottom)):
            part[0], part[1:] = values[sink], values
            part[1 + sink] = 0
