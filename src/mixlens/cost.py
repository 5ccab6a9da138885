"""What a kind of method takes of time and memory, as functions of a model's sizes and a text's length.

Bytes are estimates from above, held against measured peaks in the tests; passes are about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch

from mixlens.aggregate.down import PIECE_BYTES
from mixlens.decompose.tiles import ROW_BYTES, VECTOR_BYTES
from mixlens.subject.descent import PART_BYTES, keeps_maps


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model that costs depend on."""

    device: torch.device
    layers: int
    dim: int
    heads: int
    width: int  # of a head
    hidden: int  # of the feed-forward network, gates counted
    vocabulary: int  # logits of one position; 0 without a head that has one
    item: int  # bytes of a number, at least 4 where a method works on it
    half: bool
    masked: bool  # the pass holds a mask (query, key)
    fused: bool = True  # a kernel takes attention and its gradient without the weights
    own_jacobians: int = 0  # rows of a token's Jacobians, where every token has its own (a norm before the attention)

    @property
    def weights(self) -> int:
        """Numbers of one layer."""
        return 4 * self.dim * self.heads * self.width + 2 * self.dim * self.hidden

    def layer_bytes(self, n: int) -> int:
        """One text in one layer: hidden states, query, key, value, FFN, mask, and what is captured of them."""
        return n * self.item * (14 * self.dim + 4 * self.heads * self.width + 2 * self.hidden) + self.masked * 2 * n * n

    def layer_work(self, n: int) -> int:
        """Multiplications and additions of one text in one layer."""
        return 2 * n * self.weights + 4 * n * n * self.heads * self.width

    def square_bytes(self, n: int) -> int:
        """A number for each pair of tokens."""
        return n * n * self.item

    def row_bytes(self, n: int) -> int:
        """A block of rows of all heads' weights."""
        return min(ROW_BYTES, self.heads * n * n * self.item)

    def vector_bytes(self, n: int) -> int:
        """A block of terms."""
        return min(VECTOR_BYTES, n * self.heads * self.dim * self.item)


Count = Callable[[Sizes, int], float]  # of a text of n tokens


def nothing(sizes: Sizes, n: int) -> float:
    """Of what grows with a batch's texts, beside the layer that runs."""
    return 0


def keys_and_values(sizes: Sizes, n: int) -> float:
    """Of every layer, twice where they are widened."""
    return sizes.layers * 4 * n * sizes.heads * sizes.width * sizes.item


def one_map(sizes: Sizes, n: int) -> float:
    """A layer's map, masked and normalised."""
    return 3 * sizes.square_bytes(n)


def one_pass(sizes: Sizes, n: int) -> float:
    """A forward pass and no more."""
    return 1.0


def blocks(sizes: Sizes, n: int) -> float:
    """The blocks of rows and of vectors that most methods work in."""
    return 4 * sizes.row_bytes(n) + 2 * sizes.vector_bytes(n)


def beside(work: Count) -> Count:
    """A forward pass, and this work in each layer."""
    return lambda sizes, n: 1.0 + work(sizes, n) / sizes.layer_work(n)


@dataclass(frozen=True)
class Cost:
    """What a method takes. `work`: what is done in a layer, in a word; `words`: how the time grows.

    `passes`: forward passes over a text. `held`: bytes of each text of a batch, beside the layer that runs; `blocks`:
    bytes of a batch whatever its texts. `maps`: a map a layer is kept of each text, with an entry a head if `per_head`.
    `runs`: the texts that go through the model for one; with `fills` they are many and short ones fill a batch up.
    `compiles`: loops are compiled in the call, if it is the first, where there are such for the model's numbers.
    `slow`: a text takes seconds, so that who runs many puts down what is done more often. `kept`, `result`: other bytes
    of a text than whole maps and what is made of them.
    """

    work: str
    words: str
    passes: Count = one_pass
    held: Count = nothing
    blocks: Count = blocks
    maps: bool = False
    per_head: bool = False
    runs: Count = one_pass
    fills: bool = False
    compiles: bool = False
    slow: bool = False
    kept: Count | None = None
    result: Count | None = None

    def kept_bytes(self, sizes: Sizes, n: int) -> int:
        """What is kept of a text by one method from its pass on: its maps, unless `kept` says what else."""
        if self.kept is not None:
            return int(self.kept(sizes, n))
        return sizes.layers * n * n * (sizes.heads if self.per_head else 1) * sizes.item if self.maps else 0

    def result_bytes(self, sizes: Sizes, n: int) -> int:
        """What a text's scores are made in, unless `result` says it: maps put together and aggregated in float64;
        causal models: beside those of uniform attention.
        """
        if self.result is not None:
            return int(self.result(sizes, n))
        return self.kept_bytes(sizes, n) * (15 if sizes.masked else 7)


def _kept_from_the_pass(sizes: Sizes, n: int) -> bool:
    return keeps_maps(sizes.layers, n, sizes.item)


@cache
def rolled_down(maps: Cost) -> Cost:
    """A row of the product of maps that cost this: of long texts a second pass, layer by layer from the top down."""

    def passes(sizes: Sizes, n: int) -> float:
        return maps.passes(sizes, n) + (not _kept_from_the_pass(sizes, n))

    def held(sizes: Sizes, n: int) -> float:
        share = min(1.0, PART_BYTES / sizes.square_bytes(n))
        return maps.held(sizes, n) * (1 if _kept_from_the_pass(sizes, n) else share) + 16 * n * (sizes.heads + 1) ** 2

    def kept(sizes: Sizes, n: int) -> float:
        """The maps, else the layers' inputs."""
        if _kept_from_the_pass(sizes, n):
            return sizes.layers * sizes.square_bytes(n)
        return (sizes.layers + 1) * n * sizes.dim * sizes.item

    def result(sizes: Sizes, n: int) -> float:
        """A row a layer in float64, before and behind a product, and as many of uniform attention; a block of a map."""
        return 8 * sizes.layers * n * 8 + 3 * min(PART_BYTES, sizes.square_bytes(n)) + PIECE_BYTES

    return replace(maps, passes=passes, held=held, kept=kept, result=result)


@cache
def of_rows(maps: Cost) -> Cost:
    """The read-out row of each of the maps that cost this: their work beside the pass, a row's share of it."""
    return replace(
        maps,
        passes=lambda sizes, n: 1 + (maps.passes(sizes, n) - 1) / n,
        held=lambda sizes, n: 2 * maps.held(sizes, n) / n + 16 * n * (sizes.heads + 1) ** 2,
        kept=lambda sizes, n: sizes.layers * n * sizes.item,
        result=lambda sizes, n: 16 * sizes.layers * n * sizes.item,
    )
