"""Half precision: which numbers are too coarse to compute with, and the same numbers in float32."""

from __future__ import annotations

import torch
from torch import Tensor

HALF = (torch.float16, torch.bfloat16)


def is_half(dtype: torch.dtype) -> bool:
    """Whether numbers of this type have two bytes."""
    return dtype in HALF


def widened(t: Tensor) -> Tensor:
    """The tensor in at least float32; itself where it is."""
    return t.float() if is_half(t.dtype) else t


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """The type that `widened` gives tensors of this one."""
    return torch.float32 if is_half(dtype) else dtype
