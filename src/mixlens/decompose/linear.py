"""Linear maps and norms of a layer, as plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def matrix(module: nn.Module, width: int) -> tuple[Tensor, Tensor | None]:
    """Weight (out, in) and bias of a linear map that reads vectors of `width`.

    A module of another class (a LoRA wrapper, a quantised map) is asked with the unit vectors; whether it is linear
    at all is the self-check's business.
    """
    if type(module) is nn.Linear:
        return module.weight, module.bias
    held: Any = module
    if type(module).__name__ == "Conv1D":  # transformers' (in, out) layout
        return held.weight.T, held.bias
    like = next(module.parameters())
    dtype = like.dtype if like.is_floating_point() else torch.float32
    zero = module(torch.zeros(1, width, dtype=dtype, device=like.device))
    unit = module(torch.eye(width, dtype=dtype, device=like.device))
    return (unit - zero).T, zero[0]


@dataclass(frozen=True, eq=False)
class Frozen:
    """A norm with its scale frozen at the actual vector: `scale * linear(u) + bias`."""

    module: nn.Module
    kind: Literal["layer", "rms"]
    one_plus: bool

    @property
    def gain(self) -> Tensor | None:
        """What each dimension is multiplied by; None: 1."""
        weight = getattr(self.module, "weight", None)
        return weight + 1 if weight is not None and self.one_plus else weight

    @property
    def bias(self) -> Tensor | None:
        """What is added at the end; None: nothing."""
        return getattr(self.module, "bias", None)

    @property
    def eps(self) -> float:
        """Inside the square root, where the model itself puts it."""
        eps = getattr(self.module, "eps", getattr(self.module, "variance_epsilon", None))
        if eps is None and not (hasattr(self.module, "eps") or hasattr(self.module, "variance_epsilon")):
            return 1e-5 if self.kind == "layer" else 0.0  # it keeps none: torch's default (the self-check says whether)
        return float(eps) if eps is not None else 0.0

    def scale(self, actual: Tensor) -> Tensor:
        """1 / standard deviation (or root mean square) of the actual vectors (..., dim) -> (...)."""
        if self.kind == "layer":  # torch's own kernel: `var` takes seven times as long
            return torch.native_layer_norm(actual, actual.shape[-1:], None, None, self.eps)[2].squeeze(-1)
        return (actual.pow(2).mean(-1) + self.eps).rsqrt()

    def linear(self, u: Tensor) -> Tensor:
        """The linear part without the scale, on the last axis."""
        if self.kind == "layer":
            u = u - u.mean(-1, keepdim=True)
            return u if self.gain is None else u.mul_(self.gain)
        return u if self.gain is None else u * self.gain

    def adjoint(self, u: Tensor) -> Tensor:
        """What stands on the other side of a product: u . linear(x) is this . x for every x."""
        scaled = u if self.gain is None else u * self.gain
        return scaled - scaled.mean(-1, keepdim=True) if self.kind == "layer" else scaled

    def apply(self, actual: Tensor) -> Tensor:
        """The whole frozen form at the actual vector: what the norm itself gives."""
        out = self.linear(actual) * self.scale(actual)[..., None]
        return out if self.bias is None else out + self.bias

    def push(self, w: Tensor, actual: Tensor) -> Tensor:
        """N w with N the norm's Jacobian at the actual vectors (..., dim), its scale moving; w (..., dim, any)."""
        out = self._project(w.mT, actual).mT
        return out if self.gain is None else out.mul_(self.gain[:, None])

    def pull(self, w: Tensor, actual: Tensor) -> Tensor:
        """The same from the other side: w N of w (..., any, dim)."""
        return self._project(w, actual, self.gain)

    def _project(self, w: Tensor, actual: Tensor, gain: Tensor | None = None) -> Tensor:
        """w, times gain, times the symmetric part of N: scale (I - 11'/dim - uu'/dim), u the norm's output without gain
        and bias, which is orthogonal to 1; RMS: without 11'.
        """
        scale = self.scale(actual)[..., None]
        if self.kind == "layer":
            actual = actual - actual.mean(-1, keepdim=True)
        u = actual * scale
        basis = torch.stack([u, torch.ones_like(u)] if self.kind == "layer" else [u], -2) * u.shape[-1] ** -0.5
        w = w * (scale if gain is None else scale * gain)[..., None, :]
        return w.sub_((w @ basis.mT) @ basis)


def in_place(act: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """An activation that writes over what it reads, where torch has one; else as it is."""
    kind = type(act).__name__
    inner = getattr(act, "act", None)
    if act is F.gelu or (kind == "GELUActivation" and inner is F.gelu):
        return lambda x: torch.ops.aten.gelu_(x)
    if type(act) is nn.GELU:
        return lambda x: torch.ops.aten.gelu_(x, approximate=act.approximate)
    if type(act) is nn.ReLU:
        return F.relu_
    if type(act) in (nn.SiLU,) or kind == "SiLUActivation":
        return lambda x: F.silu(x, inplace=True)
    return act
