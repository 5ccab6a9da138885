"""Memory that is used again, layer after layer: a fresh page costs a CPU as much as the numbers that fill it."""

from __future__ import annotations

import threading
from functools import cache

import torch
from torch import Tensor

SCRATCH_BYTES = 32 << 20  # of one buffer
KEPT_BYTES = 8 << 20  # of one buffer from call to call


class _Held(threading.local):
    """A thread's own buffers."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, torch.dtype], Tensor] = {}


_HELD = _Held()


@cache
def keep_pages() -> None:
    """Let the C library keep freed memory instead of handing it back and faulting it in again, a third of a call.

    glibc takes blocks of up to the size of the largest one freed so far, at most 32 MB, from memory that it keeps.
    This one is never written, so it costs nothing.
    """
    torch.empty(31 << 20, dtype=torch.uint8, device="cpu")


def scratch(name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """An uninitialised contiguous tensor of `like`'s type; the next call with this `name` may hand out the same memory.

    So nothing of it may be returned. On a CPU only; elsewhere torch keeps memory by itself.
    """
    count = 1
    for size in shape:
        count *= size
    if like.device.type != "cpu" or count * like.element_size() > SCRATCH_BYTES:
        return like.new_empty(shape)
    held = _HELD.buffers
    kept = held.get((name, like.dtype))
    if kept is None or kept.numel() < count:
        with torch.inference_mode(False):  # an inference tensor could not be written outside that mode
            kept = held[name, like.dtype] = torch.empty(count, dtype=like.dtype, device=like.device)
    return kept[:count].view(shape)


def release() -> None:
    """Let go of the large buffers: a call is over."""
    held = _HELD.buffers
    for key in [key for key, kept in held.items() if kept.numel() * kept.element_size() > KEPT_BYTES]:
        del held[key]
