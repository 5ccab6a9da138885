"""Half precision: asked in one way, and widened where it is."""

from __future__ import annotations

import pytest
import torch

from mixlens.precision import is_half, widened


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_is_widened(dtype):
    assert is_half(dtype)
    t = torch.tensor([1.5], dtype=dtype)
    assert widened(t).dtype == torch.float32
    assert widened(t).item() == 1.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_the_rest_stays_itself(dtype):
    assert not is_half(dtype)
    t = torch.ones(1, dtype=dtype)
    assert widened(t) is t
