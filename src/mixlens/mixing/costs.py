"""What the maps of a mixing method cost: one `Cost` for each thing that is done in a layer."""

from __future__ import annotations

from mixlens.cost import Cost, Sizes, beside, one_map
from mixlens.decompose.zeroing import STEP_BYTES
from mixlens.mixing.hta import HELD_BYTES


def _attention(sizes: Sizes, n: int) -> float:
    """The weights again."""
    return 4 * n * n * sizes.heads * sizes.width


def _head_maps(sizes: Sizes, n: int) -> float:
    return 3 * sizes.heads * sizes.square_bytes(n)


FORWARD = Cost("forward", "one pass", beside(_attention), one_map, maps=True)
FORWARD_HEADS = Cost("forward", "one pass", beside(_attention), _head_maps, maps=True, per_head=True)

DECOMPOSE = Cost(
    "decompose",
    "one pass and the terms",
    beside(lambda z, n: 3 * (2 * n * z.heads * z.width * z.dim + 4 * (n + n * n) * z.heads**2)),
    lambda z, n: one_map(z, n) + 16 * n * (z.heads + 1) ** 2 + z.square_bytes(n),
    maps=True,
    compiles=True,
)
EDGES = Cost(  # every head's terms as vectors
    "decompose",
    "one pass and the terms of every head",
    beside(lambda z, n: 6 * n * n * z.heads * z.dim),
    lambda z, n: 3 * one_map(z, n),
    maps=True,
    compiles=True,
)
VALUES = Cost(  # the value terms' null space, a head and text at a time in float64
    "decompose",
    "one pass and the terms",
    beside(lambda z, n: 12 * n * n * z.heads * z.width),
    lambda z, n: one_map(z, n) + 8 * z.heads * (5 * n * n + 4 * n * z.width),
    maps=True,
)
FINISH = Cost(
    "finish",
    "one pass and the rest of each layer for every pair of tokens",
    beside(lambda z, n: 1.3 * n * n * z.dim * z.hidden),
    lambda z, n: one_map(z, n) + _head_maps(z, n) + 2 * n * z.heads * z.dim * z.item,
    lambda z, n: 4 * STEP_BYTES + 3 * z.row_bytes(n),
    maps=True,
)
JACOBIAN = Cost(
    "jacobian",
    "one pass and each layer's Jacobian: O(n dim^3 + n^2 dim^2)",
    beside(lambda z, n: 6 * n * z.dim**2 * (z.hidden + z.dim) + 4 * n * n * z.heads * z.width**2),
    lambda z, n: one_map(z, n) + 4 * z.heads * z.square_bytes(n) + z.own_jacobians * n * z.dim * z.item,
    lambda z, n: 6 * HELD_BYTES,
    maps=True,
    slow=True,
)
