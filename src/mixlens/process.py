"""What a process has set for torch changes no number: what is called here runs as in a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.overrides import TorchFunctionMode

P = ParamSpec("P")
R = TypeVar("R")

_DEVICES = ("cpu", "cuda", "mps", "xpu")
_FLOATS = frozenset((torch.empty, torch.eye, torch.linspace, torch.ones, torch.rand, torch.randn, torch.zeros))
_EITHER = frozenset((torch.arange, torch.full, torch.tensor))  # of the default dtype where floats come in


class _Single(TorchFunctionMode):
    """Others' allocations that name no dtype are float32, as in a fresh process (captum's steps are such)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("dtype") is None and func in _FLOATS:
            kwargs = {**kwargs, "dtype": torch.float32}
        elif kwargs.get("dtype") is None and func in _EITHER and not isinstance(args[0], torch.Tensor):
            made = func(*args, **kwargs)
            return (
                made
                if made.dtype is not torch.get_default_dtype()
                else func(*args, **{**kwargs, "dtype": torch.float32})
            )
        return func(*args, **kwargs)


@contextmanager
def fresh() -> Iterator[None]:
    """Without the caller's inference mode, autocast, default device and dtype; they are back behind it.

    Of this thread alone: the default dtype, which belongs to all, is left as it is and not used. Gradients are turned
    on and off where they are needed.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        for kind in _DEVICES:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.empty(0, dtype=torch.uint8).device.type != "cpu":
            stack.enter_context(torch.device("cpu"))
        if torch.get_default_dtype() is not torch.float32:
            stack.enter_context(_Single())
        yield


def settled(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run in a `fresh` state of the process."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with fresh():
            return function(*args, **kwargs)

    return run
