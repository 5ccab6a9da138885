"""Rows of a rollout from the top layer down, beside those of uniform attention where scores are divided by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.aggregate.down import Part, down, down_uniform
from mixlens.aggregate.functions import relative_to
from mixlens.aggregate.shares import normalize_rows

Layers = Iterable[tuple[int, Iterable[Part]]]  # a layer's number, its map in blocks of query rows; the last layer first


def rolled(
    layers: Layers,
    begin: Float[Tensor, "row query"],
    *,
    share: float = 0.0,
    normalize: bool = False,
    upto: bool = False,
    windows: Sequence[int | None] | None = None,
    uniform_share: float = 0.0,
) -> Float[Tensor, "layer row key"]:
    """`begin` times the rollout of all layers: one layer, or with `upto` each, of the layers up to it; in float64.

    Maps are (1 - share) M + share I, M with its rows divided by their sum first if `normalize`. `windows`: how far each
    layer sees; rows are then divided by those of uniform attention and `uniform_share` of the identity, entry by entry,
    and by their sum (the receptive field).
    """
    count, n = begin.shape
    reached = begin.new_zeros(0, n)
    even = reached
    for index, parts in layers:
        if upto or not len(reached):
            reached = torch.cat([reached, begin])
            even = torch.cat([even, begin]) if windows is not None else even
        reached = down(reached, _divided(parts) if normalize else parts, share)
        if windows is not None:
            even = down_uniform(even, windows[index], uniform_share)
    out = reached.view(-1, count, n).flip(0)
    return out if windows is None else relative_to(out, even.view(-1, count, n).flip(0))


def _divided(parts: Iterable[Part]) -> Iterator[Part]:
    for rows, part in parts:
        yield rows, normalize_rows(part)


@dataclass(eq=False)
class Looked:
    """What is noticed of maps as they pass by: rows of zeros (layer, query), whether there is anything else, and some
    rows (`queries`) of each layer's own map.
    """

    queries: Sequence[int] = ()
    zeros: list[tuple[int, int]] = field(default_factory=list)
    nothing: bool = True
    kept: dict[tuple[int, int], Float[Tensor, " key"]] = field(default_factory=dict)  # (layer, query)

    def at(self, layers: Layers) -> Iterator[tuple[int, Iterator[Part]]]:
        """The same layers."""
        for index, parts in layers:
            yield index, self._parts(index, parts)

    def _parts(self, index: int, parts: Iterable[Part]) -> Iterator[Part]:
        for rows, part in parts:
            empty = (part == 0).all(-1)
            if self.queries or bool(empty.any()):
                places = list(range(len(part))) if isinstance(rows, slice) else rows
                start = rows.start or 0 if isinstance(rows, slice) else 0
                self.zeros += [(index, places[i] + start) for i in empty.nonzero()[:, 0].tolist()]
                for query in self.queries:
                    if query - start in places:
                        self.kept[index, query] = part[places.index(query - start)].clone()
            self.nothing = self.nothing and bool(empty.all())
            yield rows, part

    def own_rows(self, windows: Sequence[int | None] | None, uniform_share: float) -> Float[Tensor, "layer key"]:
        """`queries` of each layer's own map, summed; `windows`: relative to uniform attention, as in `rolled`."""
        layers = sorted({index for index, _ in self.kept})
        each = [torch.stack([self._row(i, q, windows, uniform_share) for q in self.queries]) for i in layers]
        return torch.stack([rows.sum(0) for rows in each])

    def _row(self, index: int, query: int, windows: Sequence[int | None] | None, share: float) -> Tensor:
        row = self.kept[index, query]
        if windows is None:
            return row
        begin = one_hot([query], len(row), row.device)
        return relative_to(row[None, None], down_uniform(begin, windows[index], share)[None])[0, 0]


def one_hot(rows: Sequence[int], n: int, device: torch.device) -> Float[Tensor, "row query"]:
    """Some rows of the identity, in float64, on the CPU where a device has none."""
    at = torch.tensor(list(rows), dtype=torch.int64, device="cpu" if device.type == "mps" else device)
    return torch.nn.functional.one_hot(at, n).double()
