"""The flow network between one source and one input token, as scipy's solver takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Capacities and flows of scipy are int32, and what an edge has left over is its capacity plus the flow against it.
WHOLE = 2**30 - 1


class Network:
    """The layers between a source and the sinks: only the numbers change with the sink.

    Nodes: the source, then of each level (from the top) the sink's own column and the n tokens, then the sink. The
    sink's column stands first and twice: so one structure holds all its edges whatever the sink is, and the solver,
    which tries edges in order, finds it first. The other one of the two has no capacity. `copies`: as many sinks side
    by side in one call of the solver, each with its own levels; most of a call's time does not depend on its size.
    """

    def __init__(self, middle: Array, kept: Array | None, source: int, copies: int = 1) -> None:
        """`middle` (layer, query, key), lowest layer first, whole or real numbers; `kept`: the edges (None: all)."""
        from scipy.sparse import csr_array

        self.middle = middle[::-1]  # top first, as the nodes are
        steps, n = middle.shape[:2]
        self.width, self.copies = n + 1, copies
        there = np.ones((steps, self.width, self.width), dtype=bool)
        there[:, 1:, 1:] = self.middle > 0 if kept is None else kept[::-1]
        if kept is not None:
            there[:, 1 + source, 1:] = self.middle[:, source] > 0
        self.places = np.flatnonzero(there)
        below = (self.places // self.width**2 + 1) * self.width + self.places % self.width
        self.inner = (steps + 1) * self.width  # nodes of a copy
        shifts = 1 + self.inner * np.arange(copies)[:, None]
        ends = np.full((copies, len(below) + self.width), 1 + copies * self.inner)
        ends[:, : len(below)] = shifts + below
        counts = np.concatenate([there.sum(-1).ravel(), np.ones(self.width, int)])
        starts = np.cumsum(np.concatenate([[0, copies * self.width], np.tile(counts, copies), [0]]))
        columns = np.concatenate([(shifts + np.arange(self.width)).ravel(), ends.ravel()]).astype(np.int32)
        nodes = copies * self.inner + 2
        data = np.zeros(len(columns), middle.dtype)
        self.graph: Any = csr_array((data, columns, starts.astype(np.int32)), shape=(nodes, nodes))
        self.buffer = np.zeros((steps, self.width, self.width), middle.dtype)

    def values(self, top: Array, bottoms: Array, sinks: Array) -> Array:
        """The flow values (sink,) of whole capacities, of at most `copies` sinks; their sum must fit int32.

        `top` (key,): the source's edges; `bottoms` (query, key): edges to all sinks.
        """
        from scipy.sparse.csgraph import maximum_flow

        self.graph.data[: self.copies * self.width] = 0
        for slot, sink in enumerate(sinks.tolist()):
            self._fill(slot, top, bottoms[:, sink], sink)
        flow = maximum_flow(self.graph, 0, self.graph.shape[0] - 1).flow
        last = slice(*flow.indptr[-2:])  # the sink's row: what comes in, negative
        into = np.bincount((flow.indices[last] - 1) // self.inner, -flow.data[last], self.copies)
        return into[: len(sinks)]

    def bounds(self, top: Array, bottom: Array, sink: int, ceiling: float, apart: float) -> tuple[float, float]:
        """The flow value of real capacities between two bounds at most `apart`; `ceiling`: what it does not exceed.

        Capacities are rounded down to whole steps, so the integer flow is a flow: the lower bound. The cut that it
        fills, in real capacities, is the upper bound. Where they are too far apart, the network that the flow leaves
        over (edges back included) is solved again in finer steps, since less is to come.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        self._fill(0, top, bottom, sink)
        starts = np.repeat(np.arange(self.graph.shape[0]), np.diff(self.graph.indptr))
        left, low, rest = self.graph, 0.0, ceiling
        while True:
            scale = WHOLE / rest
            steps = np.floor(np.minimum(left.data, rest) * scale).clip(max=WHOLE).astype(np.int32)
            whole: Any = csr_array((steps, left.indices, left.indptr), shape=left.shape)
            result = maximum_flow(whole, 0, left.shape[0] - 1)
            low += result.flow_value / scale
            if low >= ceiling - apart:
                return low, ceiling
            beyond = whole - result.flow
            beyond.eliminate_zeros()
            side = np.zeros(left.shape[0], dtype=bool)  # the source's side of the cut
            side[breadth_first_order(beyond, 0, return_predecessors=False)] = True
            high = min(float(self.graph.data[side[starts] & ~side[self.graph.indices]].sum()), ceiling)
            rest = high - low
            if rest <= apart:
                return low, high
            left = left - result.flow.astype(np.float64) / scale
            left.data = left.data.clip(min=0)  # rounding

    def _fill(self, slot: int, top: Array, bottom: Array, sink: int) -> None:
        inner = self.buffer[:, 1:, 1:]
        inner[:] = self.middle
        inner[:, sink] = inner[:, :, sink] = 0
        self.buffer[:, 0, 1:] = self.middle[:, sink]
        self.buffer[:, 1:, 0] = self.middle[:, :, sink]
        self.buffer[:, 0, 0] = self.middle[:, sink, sink]
        self.buffer[:, 0, 1 + sink] = self.buffer[:, 1 + sink, 0] = 0
        first, rest = np.split(self.graph.data, [self.copies * self.width])
        edges = rest.reshape(self.copies, -1)[slot]
        edges[: -self.width] = self.buffer.ravel()[self.places]
        for part, values in ((first.reshape(self.copies, -1)[slot], top), (edges[-self.width :], bottom)):
            part[0], part[1:] = values[sink], values
            part[1 + sink] = 0
