"""The parts of one layer: which of its modules is the output projection, which the norms, how the sub-blocks join."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import NamedTuple

from torch import Tensor

from mixlens.architectures import Attend, Feed, Network, Spec
from mixlens.architectures.spec import Order, Scale
from mixlens.infer import reasons
from mixlens.infer.network import gives_alone, network
from mixlens.infer.reasons import Misfit
from mixlens.infer.traced import Attended, Run, Traced
from mixlens.infer.values import NormKind, factor, is_linear, norm_kind, same


@dataclass(frozen=True)
class Parts:
    """What one layer was found to be. `spec` names no list of layers.

    `reads_input`: attention reads the layer's input itself, no norm of it.
    """

    layer: Run
    spec: Spec
    reads_input: bool


class Entering(NamedTuple):
    """Vectors that a feed-forward network may read, the norm that gives them, and the order that this would be."""

    vectors: Tensor
    norm: Run | None
    order: Order


def parts(seen: Traced, layer: Run, attended: Attended, whole: bool = False) -> Parts:
    """The parts of the layer that holds an attention call. Raises Misfit.

    `whole`: its network is taken as one module, whatever its maps are.
    """
    return LayerView(seen, layer, attended).parts(whole)


class LayerView:
    """One run of a layer with one attention call: x its input, y its output, `branch` what attention adds to x."""

    def __init__(self, seen: Traced, layer: Run, attended: Attended) -> None:
        self.layer, self.attended, self.seam = layer, attended, seen.seam
        self.runs = [run for run in seen.within(layer) if run.reads and run.gives]
        self.linear = [run for run in self.runs if is_linear(run.module, run.reads[0])]
        self.out = self._out()
        self.added = self.out.gives[0]
        self.x, self.y = self._stream(layer.reads), self._stream(layer.gives)

    def _out(self) -> Run:
        core = self.attended.core
        for run in self.linear:
            if run.begin > self.attended.when and same(run.reads[0], core):
                return run
        raise Misfit(reasons.no_projection(core, self.linear, self.runs, self.attended.when))

    def _stream(self, held: list[Tensor]) -> Tensor:
        """The hidden states among what the layer reads or gives, in the output projection's shape."""
        for t in held:
            if t.numel() == self.added.numel() and t.shape[-1] == self.added.shape[-1]:
                return t.reshape(self.added.shape)
        raise Misfit(f"{type(self.layer.module).__name__} takes and gives no hidden states")

    @cached_property
    def norms(self) -> list[tuple[Run, NormKind]]:
        """The runs of norms over hidden states."""
        size, width = self.added.numel(), self.added.shape[-1]
        fits = [run for run in self.runs if run.reads[0].numel() == size and run.reads[0].shape[-1] == width]
        kinds = [(run, norm_kind(run.module, run.reads[0], run.gives[0])) for run in fits]
        return [(run, kind) for run, kind in kinds if kind is not None]

    def reading(self, t: Tensor) -> list[Run]:
        """The norms that read these vectors."""
        return [run for run, _ in self.norms if same(run.reads[0], t)]

    def giving(self, t: Tensor) -> Run | None:
        """The norm that gives these vectors."""
        return next((run for run, _ in self.norms if same(run.gives[0], t)), None)

    @cached_property
    def between(self) -> Run | None:
        """The norm of attention's branch."""
        return next((run for run in self.reading(self.added) if run.begin > self.out.begin), None)

    @cached_property
    def branch(self) -> Tensor:
        """What attention adds."""
        return self.added * self.scale[1] if self.between is None else self.between.gives[0].reshape(self.added.shape)

    @cached_property
    def scale(self) -> tuple[Scale, Tensor | float]:
        """What multiplies the output projection's output before the residual sum, and its numbers."""
        read = [t for run in self.later for t in run.reads if t.numel() == self.x.numel()]
        read = [t.reshape(self.x.shape) for t in read if t.shape[-1] == self.x.shape[-1]]
        if self.between is None and not any(same(t, self.x + self.added) for t in read):
            for t in read:
                path, numbers = factor(self.layer.module, self.added, t - self.x)
                if path is not None:
                    return path, numbers
        return None, 1.0

    @cached_property
    def later(self) -> list[Run]:
        """The runs behind the output projection."""
        return [run for run in self.runs if run.begin > self.out.end]

    def _below(self, path: str) -> str:
        """A path in the model as one in the layer."""
        return path[len(self.layer.path) + 1 :]

    def _path(self, run: Run | None) -> str | None:
        return None if run is None else self._below(run.path)

    def parts(self, whole: bool) -> Parts:
        """What the layer is. Raises Misfit."""
        total, last = self.x + self.branch, self.giving(self.y)
        if same(self.y, total) or (last is not None and same(last.reads[0], total)):
            raise Misfit(reasons.ALONE)
        attention, out = self._below(self.attended.path), self._below(self.out.path)
        attend = Attend(attention, out, branch_norm=self._path(self.between), scale=self.scale[0])
        if last is not None and not same(last.reads[0], self.x):  # post-LN
            first = next(iter(self.reading(total)), None)
            if first is None:
                raise Misfit(reasons.scaled(self.x, self.branch, self.later) or reasons.NO_SUM)
            after = first.gives[0].reshape(total.shape)
            made = last.reads[0].reshape(total.shape) - after
            feed, order = self._network(made, [Entering(after, first, "post")], whole)
            attend = replace(attend, norm=self._path(first), qkv=self._qkv())
            feed = replace(feed, norm=self._below(last.path))
        else:
            entering = [Entering(run.gives[0], run, "pre") for run in self.reading(total)]
            entering += [Entering(run.gives[0], run, "parallel") for run in self.reading(self.x)]
            feed, order = self._network(self.y - total, [*entering, Entering(total, None, "pre")], whole)
        kind = self._kind(attend, feed)
        spec = Spec("", (attend, feed), order, kind.kind, bool(kind.one_plus), self.seam)
        return Parts(self.layer, spec, self._reads_input())

    def _qkv(self) -> tuple[str, str, str] | None:
        """The linear maps from the layer's input to query, key and value, where there are such."""
        call, paths = self.attended.call, []
        for t in (call.q, call.k, call.v):
            flat = t.transpose(1, 2).flatten(2)
            maps = [r for r in self.linear if r.end < self.attended.when and same(r.gives[0], flat)]
            paths += [self._path(run) for run in maps if same(run.reads[0], self.x)][:1]
        q, k, v = paths if len(paths) == 3 else (None, None, None)
        return None if q is None or k is None or v is None else (q, k, v)

    def _network(self, made: Tensor, entering: list[Entering], whole: bool) -> tuple[Feed | Network, Order]:
        """The network that adds `made`, reading some of the vectors, and the order that it says. Raises Misfit."""
        behind = self.giving(made)
        given = made if behind is None else behind.reads[0]
        entering = [read for read in entering if read.norm is not None or behind is not None]
        branch_norm = self._path(behind)
        for (run, scale), read in product(self._making(given, behind is not None), entering):
            norm = self._path(read.norm)
            if run in self.linear and not whole:
                ups = [up for up in self.linear if same(up.reads[0], read.vectors)]
                maps = network(self.layer, ups, run)
                if maps is not None:
                    up = tuple(self._below(first.path) for first in maps.up)
                    down = self._below(run.path)
                    return Feed(up, maps.act, down, norm, branch_norm, scale, maps.fused), read.order
        for (run, scale), read in product(self._making(given, behind is not None), entering):
            if run.path and same(run.reads[0], read.vectors) and gives_alone(run, read.vectors):
                return Network(self._below(run.path), self._path(read.norm), branch_norm, scale), read.order
        if not entering:
            raise Misfit(reasons.scaled(self.x, self.branch, self.later) or reasons.NO_NORM)
        off = reasons.scaled(self.x, self.branch, self.later)
        raise Misfit(off or reasons.no_network(made, given, self.later))

    def _making(self, given: Tensor, normed: bool) -> list[tuple[Run, Scale]]:
        """The runs that give these vectors, the outermost first, with what their output is multiplied by."""
        inner = [run for run in self.runs if run is not self.out]
        plain: list[tuple[Run, Scale]] = [(run, None) for run in inner if same(run.gives[0], given)]
        if normed:
            return plain
        scales = [(run, factor(self.layer.module, run.gives[0], given)[0]) for run in inner]  # (one may be a module)
        return plain + [(run, scale) for run, scale in scales if scale is not None]

    def _kind(self, attend: Attend, feed: Feed | Network) -> NormKind:
        """What all norms of the spec are. Raises Misfit where they differ."""
        named = (attend.norm, attend.branch_norm, feed.norm, feed.branch_norm)
        kinds = [kind for run, kind in self.norms if self._path(run) in named]
        gains = {kind.one_plus for kind in kinds} - {None}
        if len({kind.kind for kind in kinds}) > 1 or len(gains) > 1:
            raise Misfit("norms of different kinds in one layer")
        return NormKind(kinds[0].kind, next(iter(gains), None))

    def _reads_input(self) -> bool:
        """Whether the attention module reads the layer's input itself."""
        path = self.attended.path
        mine = [run for run in self.runs if run.path == path and run.begin < self.attended.when < run.end]
        return any(same(t, self.x) for run in mine for t in run.reads)
