"""How much is held at a time: blocks for memory, and tiles of a block that stay in a CPU's caches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from mixlens.capture.attention import blocks

ROW_BYTES = 8 << 20  # attention weights held at a time
VECTOR_BYTES = 32 << 20  # head vectors held at a time
CACHE_BYTES = 1 << 20  # numbers of one inner step on a CPU, a thread: what a core's own cache holds
TILE_BYTES = 2 << 20  # the same where each step is three small calls, which take their time too


def inner_bytes(device: torch.device, elsewhere: int, here: int | None = None) -> int:
    """Bytes of one inner step: what the caches hold on a CPU; `elsewhere` a large one, to keep the device busy."""
    cached = CACHE_BYTES if here is None else here
    return cached * torch.get_num_threads() if device.type == "cpu" else elsewhere


def tiles(like: Tensor, count: int, keys: int) -> Iterator[tuple[slice, slice, int]]:
    """`(texts, rows of 'count', number of keys)`, each small enough that its vectors stay in the caches.

    `like` (batch, ..., dim): as many texts, and vectors of this size and type.
    """
    vectors = inner_bytes(like.device, VECTOR_BYTES, TILE_BYTES) // (like.shape[-1] * like.element_size())
    threads = torch.get_num_threads()
    pieces = -(-count // max(1, vectors // (2 * threads)))  # so that a step has two keys a thread
    height = -(-count // pieces)
    width = max(1, vectors // height)
    width -= width % threads if width > threads else 0  # all threads alike
    for texts in blocks(len(like), vectors // (height * width)):
        for rows in blocks(count, height):
            yield texts, rows, min(width, keys)
