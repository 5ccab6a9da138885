"""DeepLIFT's rescale rule as an autograd function, in the place of elementwise activations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mixlens.capture.attention import NAME
from mixlens.capture.shadow import shadow

_MODULES = ("transformers.activations", "torch.nn.modules.activation")
_NOT_ELEMENTWISE = (nn.Softmax, nn.Softmin, nn.LogSoftmax, nn.Softmax2d, nn.GLU, nn.MultiheadAttention)
_FUNCTIONS = frozenset(
    {
        *(torch.tanh, torch.Tensor.tanh, F.tanh, torch.sigmoid, torch.Tensor.sigmoid, F.sigmoid),
        *(torch.relu, torch.Tensor.relu, F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.gelu, F.silu, F.mish),
        *(F.softplus, F.hardswish, F.hardtanh),
    }
)


class _Rescale(torch.autograd.Function):
    """f as it is; backwards (f(x) - f(b)) / (x - b) in the place of f'(x), where the batch is [x; b]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        y = f(x)
        ctx.save_for_backward(x, y)
        ctx.f = f
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        x, y = ctx.saved_tensors
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(ctx.f(leaf).sum(), leaf)
        (x, b), (fx, fb) = x.chunk(2), y.chunk(2)
        # Nearer than this the quotient is rounding: half the digits are lost either way.
        near = (x - b).abs() <= torch.finfo(x.dtype).eps ** 0.5 * (1 + x.abs())
        quotient = (fx - fb) / (x - b).masked_fill(near, 1.0)
        multiplier = torch.where(near, slope.chunk(2)[0], quotient)
        return grads[0] * torch.cat([multiplier, multiplier]), None


class _Module(nn.Module):
    """An activation of a model, rescaled as a whole (HF's own are several torch functions)."""

    def __init__(self, f: Any, pairs: int) -> None:
        super().__init__()
        self.f, self.pairs = f, pairs

    def forward(self, x: Tensor) -> Tensor:
        return _rescaled(self.f, x, self.pairs)


class _Functions(TorchFunctionMode):
    """The activations that a model calls as functions (RoBERTa's head, a soft cap), rescaled."""

    def __init__(self, pairs: int) -> None:
        super().__init__()
        self.pairs = pairs

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {k: v for k, v in (kwargs or {}).items() if k != "inplace"}
        if func not in _FUNCTIONS:
            return func(*args, **kwargs)
        return _rescaled(lambda t: func(t, *args[1:], **kwargs), args[0], self.pairs)


def _rescaled(f: Callable[[Tensor], Tensor], x: Tensor, pairs: int) -> Tensor:
    if not x.requires_grad or x.ndim < 2 or len(x) % (2 * pairs):  # (OPT has one axis for batch and token)
        return f(x)
    return _Rescale.apply(x, f)


@contextmanager
def rescaled(model: Any, pairs: int) -> Iterator[Any]:
    """A shadow whose elementwise activations are differentiated by DeepLIFT's rescale rule (Shrikumar 2017, Eq. 11).

    The batch has to be `pairs` inputs and then as many baselines. The gradient at an input is then its multiplier.
    Softmax, norms and products keep their gradient at the input, as in captum's DeepLift. `model` is left as it is.
    """
    twin = shadow(model, NAME)
    for parent in list(twin.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__module__ in _MODULES and not isinstance(child, _NOT_ELEMENTWISE):
                setattr(parent, name, _Module(child, pairs))
    with _Functions(pairs):
        yield twin
