"""Questions to numbers: is this vector that one, is this module a norm or a linear map?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mixlens.decompose.linear import Frozen

NEAR = 2e-5  # of the largest value: twins compute in float64, but some norms round to float32 whatever the dtype


def same(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two tensors hold the same vectors, up to rounding, whatever the axes in front."""
    if a is None or b is None or a.numel() != b.numel() or a.numel() == 0 or a.shape[-1] != b.shape[-1]:
        return False
    a, b = a.reshape(-1), b.reshape(-1)
    return bool((a - b).abs().max() <= NEAR * b.abs().max().clamp_min(1e-12))  # (false for NaN)


def multiple(a: Tensor, b: Tensor) -> Literal["number", "vector"] | None:
    """Whether b is a times one number, or times one number a dimension, the same for all tokens."""
    if a.numel() != b.numel() or a.shape[-1] != b.shape[-1]:
        return None
    a, b = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    if bool(b.abs().max() <= NEAR * a.abs().max()):
        return None
    if same(a * ((a * b).sum() / a.pow(2).sum().clamp_min(1e-30)), b):
        return "number"
    return "vector" if same(a * ((a * b).sum(0) / a.pow(2).sum(0).clamp_min(1e-30)), b) else None


def factor(module: nn.Module, a: Tensor, b: Tensor) -> tuple[str | None, Tensor | float]:
    """What a module holds that b is a times: the name of a number or the path of a vector, and its numbers."""
    form = multiple(a, b)
    a = a.reshape(b.shape) if form is not None else a
    if form == "number":
        for name, value in vars(module).items():
            if isinstance(value, float) and not name.startswith("_") and same(a * value, b):
                return name, value
    for path, vector in module.named_parameters() if form is not None else ():
        if vector.shape == a.shape[-1:] and same(a * vector, b):
            return path, vector.detach()
    return None, 1.0


@dataclass(frozen=True)
class NormKind:
    """What a norm computes. `one_plus`: the gain is 1 + weight; None: it has no weight."""

    kind: Literal["layer", "rms"]
    one_plus: bool | None


def norm_kind(module: nn.Module, before: Tensor, after: Tensor) -> NormKind | None:
    """What kind of norm gives `after` for `before`; None: no norm."""
    held: Any = module
    gain, bias = getattr(held, "weight", None), getattr(held, "bias", None)
    if any(True for _ in module.children()) or before.shape[-1] < 4 or same(before, after):
        return None
    if any(t is not None and (not isinstance(t, Tensor) or t.shape != before.shape[-1:]) for t in (gain, bias)):
        return None
    for kind, plus in product(("layer", "rms"), (False,) if gain is None else (False, True)):
        if same(Frozen(module, kind, plus).apply(before), after):  # type: ignore[arg-type]
            return NormKind(kind, None if gain is None else plus)  # type: ignore[arg-type]
    return None


def is_linear(module: nn.Module, read: Tensor) -> bool:
    """Whether a module without parts of its own is a linear map with weights (and a bias or none)."""
    if any(True for _ in module.children()) or not any(True for _ in module.parameters()):
        return False
    if type(module) is nn.Linear:
        return True
    other, zero = read.flip(-1), torch.zeros_like(read)
    try:
        total, parts, bias = module(read + other), module(read) + module(other), module(zero)
    except (RuntimeError, TypeError, IndexError):
        return False
    return isinstance(total, Tensor) and same(parts - bias, total)
