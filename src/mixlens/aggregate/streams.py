"""Rollout of layers that read several streams: products of a matrix of maps, {(to, from): map}."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.errors import Undefined

Pair = tuple[str, str]  # the stream that a map leads to, and the one that it reads
StreamMap = Float[Tensor, "_ _"]
StreamMaps = Float[Tensor, "layer _ _"]


def rollout_streams(
    maps: Mapping[Pair, StreamMaps], below: Mapping[Pair, StreamMap] | None = None, rescale: bool = False
) -> tuple[dict[Pair, StreamMaps], Float[Tensor, " layer"]]:
    """The rollout of layers that read several streams; maps and results are (to, from) -> (layer, to, from).

    R_ab^l = sum_c M_ac^l R_cb^(l-1), in float64. A stream that no map leads to stays what it is below the layers.
    `below` holds R^(-1), (to, from) -> (to, from); a stream of which it says nothing is made of its own tokens. So with
    a decoder's maps T of the target t and S of the memory s, and the encoder's rollout R_enc as `below` of s:

        R_ts^l = S^l R_enc + T^l R_ts^(l-1),    R_tt^l = T^l R_tt^(l-1)        (ALTI+, Ferrando 2022)

    Rows over all streams sum to 1 where those of the maps and of `below` do. `rescale`: each layer is divided by ONE
    number for all streams, its largest entry; second comes the logarithm of what it was divided by. Raises Undefined
    for maps that do not fit.
    """
    below = below or {}
    sizes, depth = _sizes(maps, below), _depth(maps)
    moving = dict.fromkeys(to for to, _ in maps)
    state: dict[Pair, Tensor | None] = {}  # None: the identity
    for name in dict.fromkeys((*moving, *(source for _, source in maps))):
        rows = {pair: m.double() for pair, m in below.items() if pair[0] == name}
        if rows:
            state.update(rows)
        else:
            state[name, name] = None
    still = [pair for pair in state if pair[0] not in moving]
    like = next(iter(maps.values()))
    out = {
        (to, source): like.new_empty((depth, sizes[to], sizes[source]), dtype=torch.float64)  # filled in place: large
        for to, source in _reached(maps, state)
    }
    logs = [0.0] * depth
    for index in range(depth):
        products = {pair: part[index] for pair, part in out.items()}
        _multiply({pair: m[index] for pair, m in maps.items()}, state, products)
        fixed = {pair: state[pair] for pair in still}
        if rescale:
            top = max(float(product.max()) for product in products.values())
            factor = top if top > 0 else 1.0
            for product in products.values():
                product.div_(factor)
            fixed = {pair: _dense(m, sizes[pair[0]], like) / factor for pair, m in fixed.items()}
            logs[index] = (logs[index - 1] if index else 0.0) + log(factor)
        state = {**fixed, **products}
    return out, torch.tensor(logs, dtype=torch.float64, device="cpu")


def _multiply(
    maps: Mapping[Pair, StreamMap], state: Mapping[Pair, Tensor | None], products: Mapping[Pair, StreamMap]
) -> None:
    """sum_c M_ac R_cb into the products (a, b); 0 where nothing leads."""
    empty = set(products)
    for (to, through), m in maps.items():
        for source, lower in [(b, lower) for (a, b), lower in state.items() if a == through]:
            product = products[to, source]
            if (to, source) not in empty:
                product.add_(m.double() if lower is None else m.double() @ lower)
            elif lower is None:
                product.copy_(m)
            else:
                torch.matmul(m.double(), lower, out=product)
            empty.discard((to, source))
    for pair in empty:
        products[pair].zero_()


def _reached(maps: Iterable[Pair], below: Iterable[Pair]) -> list[Pair]:
    """(to, from): the streams that each moving stream comes from, in some layer."""
    state, reached = set(below), dict[Pair, None]()
    while True:
        new = {(to, b): None for to, through in maps for a, b in state if a == through}
        if not new.keys() - reached.keys():
            return list(reached)
        reached.update(new)
        state.update(new)


def _dense(m: Tensor | None, size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=torch.float64, device=like.device) if m is None else m


def _depth(maps: Mapping[Pair, StreamMaps]) -> int:
    """The number of layers. Raises Undefined where maps of different streams have different ones."""
    depths = {len(m) for m in maps.values()}
    if len(depths) != 1:
        raise Undefined(f"expected maps of as many layers for every pair of streams, got {sorted(depths)}")
    return depths.pop()


def _sizes(maps: Mapping[Pair, StreamMaps], below: Mapping[Pair, StreamMap]) -> dict[str, int]:
    """The tokens of each stream. Raises Undefined where maps differ on them."""
    sizes: dict[str, int] = {}
    for pair, m in (*maps.items(), *below.items()):
        for name, size in zip(pair, m.shape[-2:], strict=True):
            if sizes.setdefault(name, size) != size:
                raise Undefined(f"expected as many tokens of '{name}' in every map, got {sizes[name]} and {size}")
    return sizes
