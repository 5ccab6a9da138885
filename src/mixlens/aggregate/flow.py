"""Attention flow: exact maximum flow from every hidden node to every input token (Abnar & Zuidema 2020, section 3).

The graph: nodes (level, token), level 0 the input tokens; layer l of the maps is the edges from level l + 1 down to
level l, entry (i, j) the capacity from token i to token j. Each pair of source and sink is a problem of its own.

What makes it cheap. (1) Ceilings: no flow exceeds what the source sends, what the sink takes, or, at any level, the sum
over nodes of the smaller of two things: how much can get to the node, and how much can get from it to the sink, each
bounded layer by layer. (2) A flow in a part of the graph is a flow: most edges are left out, and where the rest
carries as much as the ceiling lets through, that is the answer. (3) Only the other pairs see the whole graph. Layers
0 and 1 have closed forms. How often each fires: docs/methods/attention_flow.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mixlens.aggregate.network import WHOLE, Network
from mixlens.errors import Undefined, UnknownOption
from mixlens.progress import Progress

Array = NDArray[Any]

TOLERANCE = 2e-6  # of a value, absolute, for rows that sum to 1
_SMALL = 32  # tokens up to which leaving edges out saves nothing


def flow(
    maps: Float[Tensor, "layer query key"],
    queries: Sequence[int] | None = None,
    layers: Sequence[int] | None = None,
    *,
    normalize: bool = True,
    leaving: Float[Tensor, "layer query key"] | None = None,
    progress: Progress | None = None,
) -> Float[Tensor, "layers queries key"]:
    """F^l[i, j]: the maximum flow from token i above layer l down to input token j; F^0 = M^0. In float64.

    `queries`, `layers`: the rows and layers to compute, in that order (negatives count from the end; default all).
    `normalize`: divide each row by its sum, as the authors' code does (not in their paper); False: flow values.
    `leaving`: the maps whose row leaves the source, where not `maps` (a single head over averaged layers, A.1).
    `progress(rows done, rows in all)`.

    A flow value is within 2e-6 of exact (times the largest row sum where that is above 1): capacities are rounded
    down to multiples of 2^-31 of the largest row sum, so an integer flow never exceeds the true one, and the capacity
    of its cut in float64 is never below; where the two are more than that apart, what is left is solved again on a
    finer scale. Values that reach what the source sends are that number exactly, so they tie.

    Raises Undefined (negative or infinite entries) and UnknownOption (no such query or layer).
    """
    data = _checked(maps)
    depth, n = data.shape[:2]
    wanted, rows = indices("layers", layers, depth), indices("queries", queries, n)
    tops = data if leaving is None else _checked(leaving)
    graph = _Graph(data[: max(wanted) + 1], float(tops.sum(-1).max()))
    out = np.zeros((len(wanted), len(rows), n))
    for a, layer in enumerate(wanted):
        for b, i in enumerate(rows):
            out[a, b] = graph.row(layer, i, tops[layer, i])
            if progress is not None:
                progress(a * len(rows) + b + 1, out.shape[0] * out.shape[1])
    if normalize:
        sums = out.sum(-1, keepdims=True)
        out = np.divide(out, sums, out=np.zeros_like(out), where=sums > 0)
    return torch.from_numpy(out).to(maps.device)


def indices(name: str, numbers: Sequence[int] | None, count: int) -> tuple[int, ...]:
    """`numbers` as indices from 0; all for None. Raises UnknownOption: out of range, twice the same, or none."""
    if numbers is None:
        return tuple(range(count))
    good = isinstance(numbers, (list, tuple, range)) and len(numbers) > 0
    if not good or any(isinstance(i, bool) or not isinstance(i, int) or not -count <= i < count for i in numbers):
        raise UnknownOption(f"expected {name}= a list of numbers of -{count} to {count - 1}, or None, got {numbers!r}")
    positions = tuple(i % count for i in numbers)
    if len(set(positions)) < len(positions):
        raise UnknownOption(f"expected each of {name}= once, got {numbers!r}")
    return positions


def _checked(maps: Tensor) -> Array:
    data: Array = maps.detach().cpu().double().numpy()
    if not np.isfinite(data).all() or (data < 0).any():
        raise Undefined("expected capacities of 0 or more, got negative or infinite entries; flow means nothing there")
    return data


@dataclass
class _Graph:
    """The layers below all sources, and what is shared between pairs."""

    maps: Array  # (layer, query, key)
    sends: InitVar[float]  # the largest sum of a source's edges
    drains: list[Array] = field(init=False)  # [level][sink, node]: at most this gets from the node to the sink
    kept: Array = field(init=False)  # (layer, query, key): the edges of the part tried first
    causal: bool = field(init=False)
    steps: Array = field(init=False)  # the maps in whole steps of 1 / scale, int32, rounded down
    scale: float = field(init=False)
    near: float = field(init=False)
    copies: int = field(init=False)  # sinks in one call of the solver: they share int32
    tries: dict[int, tuple[int, int]] = field(default_factory=dict)  # layer: sinks tried on the part, and met

    def __post_init__(self, sends: float) -> None:
        depth, n = self.maps.shape[:2]
        self.causal = not np.triu(self.maps, 1).any()
        unit = max(1.0, float(self.maps.sum(-1).max(initial=0)), sends)
        self.copies = max(1, min(8, 512 // n))
        self.scale, self.near = WHOLE / unit / self.copies, TOLERANCE * unit
        self.steps = self._whole(self.maps)
        self.drains = [np.eye(n), self.maps[0].T]
        for level in range(1, depth - 1):
            self.drains.append(_drain(self.maps[level], self.drains[level]))
        self.kept = _strongest(self.maps, max(8, n // 8))

    def _whole(self, capacities: Array) -> Array:
        return np.floor(capacities * self.scale).astype(np.int32)

    def row(self, layer: int, i: int, top: Array) -> Array:
        """(key,): the flow values from token i above `layer`, whose edges down are `top` (key,)."""
        if layer == 0:
            return top
        if self.causal and not top[i + 1 :].any():  # nothing behind i can be reached
            n = i + 1
        else:
            n = len(top)
        out, top = np.zeros(len(top)), top[:n]
        ceilings = self.ceilings(layer, top)
        out[:n] = ceilings
        if layer == 1:  # one path through each node between: its smaller edge
            return out
        whole = None
        for j in self.missed(layer, i, top, ceilings):
            whole = whole or Network(self.maps[1:layer, :n, :n], None, i)
            low, high = whole.bounds(top, self.maps[0, :n, j], j, ceilings[j], self.near)
            if low < ceilings[j] - self.near:
                out[j] = high
        return out

    def missed(self, layer: int, i: int, top: Array, ceilings: Array) -> Iterator[int]:
        """The sinks where the edges tried first do not carry as much as the ceiling lets through."""
        n = len(top)
        part = Network(self.steps[1:layer, :n, :n], self.kept[1:layer, :n, :n], i, self.copies)
        first = self._whole(top)
        sinks = np.flatnonzero(ceilings > self.near)
        for group in np.split(sinks, range(self.copies, len(sinks), self.copies)):
            met = np.zeros(len(group), bool)
            tried, hits = self.tries.get(layer, (0, 0))
            if tried < 16 or hits > tried // 6:  # else the try is not worth its time
                met = part.values(first, self.steps[0, :n, :n], group) / self.scale >= ceilings[group] - self.near
                self.tries[layer] = tried + len(group), hits + int(met.sum())
            yield from group[~met].tolist()

    def ceilings(self, layer: int, top: Array) -> Array:
        """(sink,): what no flow exceeds; what the source sends wherever nothing else is smaller by 1e-9 of it."""
        n, sends = len(top), top.sum()
        arrives = top
        lowest = np.full(n, np.inf)
        for level in range(layer, 0, -1):  # `arrives`: at most this gets from the source to each node of the level
            lowest = np.minimum(lowest, np.minimum(arrives, self.drains[level][:n, :n]).sum(-1))
            arrives = np.minimum(self.maps[level - 1, :n, :n], arrives[:, None]).sum(0)
        return np.where(lowest < sends * (1 - 1e-9), lowest, sends)


def _drain(edges: Array, below: Array) -> Array:
    """(sink, node): the drains one level up, sum_m min(edge (k, m), drain of m)."""
    out, ones = np.empty_like(below), np.ones(len(edges))
    step = max(1, 2**16 // edges.size)  # sinks at a time: what fits a cache
    for s in range(0, len(below), step):
        out[s : s + step] = np.minimum(edges, below[s : s + step, None]) @ ones
    return out


def _strongest(maps: Array, count: int) -> Array:
    """True at the diagonal and at the `count` largest entries of each row and of each column."""
    n = maps.shape[-1]
    if n <= max(_SMALL, 2 * count):
        return maps > 0
    keep = np.broadcast_to(np.eye(n, dtype=bool), maps.shape).copy()
    for axis in (1, 2):
        largest = np.take(np.argpartition(-maps, count, axis), range(count), axis)
        np.put_along_axis(keep, largest, True, axis)
    return keep & (maps > 0)
