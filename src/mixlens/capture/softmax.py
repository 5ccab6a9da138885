"""The seam of models that call no attention interface: the softmax of the attention module, and the next product.

A torch function mode around the module's forward sees the logits and the values; what a pass records and answers is a
`Call` as at the interface, whose query vectors are the logits themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mixlens.capture.attention import RECORDER, Call, repeat_heads

PLAIN = "eager"  # what such models run as: with another name they get a mask of another form, or fuse the softmax away
_PRODUCTS = frozenset(("matmul", "bmm", "__matmul__"))


def watch_softmax(attention: torch.nn.Module) -> None:
    """Put the seam on a shadow's attention module. Who records is asked when it runs."""
    attention.forward = partial(_watched, attention, attention.forward)


def _watched(attention: torch.nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    record = attention.__dict__.get(RECORDER)
    if record is None:
        return forward(*args, **kwargs)
    given = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.ndim == 3]
    with _Seam(record, len(given[0])):
        return forward(*args, **kwargs)


class _Seam(TorchFunctionMode):
    """Sees one module's forward. `carried`: the weights, and what was made of them without another tensor."""

    def __init__(self, record: Callable[[Call], Tensor | Call | None], batch: int) -> None:
        super().__init__()
        self.record, self.batch = record, batch
        self.logits: Tensor | None = None
        self.carried: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, first = getattr(func, "__name__", ""), args[0] if args else None
        carried = any(first is t for t in self.carried)
        if carried and name in _PRODUCTS:
            return self.product(func, *args)
        out = func(*args, **(kwargs or {}))
        if name == "softmax" and self.logits is None:
            self.logits, self.carried = first, [out]
        elif carried and isinstance(out, Tensor) and out.numel() == self.carried[0].numel():
            self.carried.append(out)
        return out

    def product(self, func: Any, weights: Tensor, values: Tensor) -> Tensor:
        """The weights' product with the values, recorded, and answered as the recorder says."""
        assert self.logits is not None
        call = at_softmax(*(t.view(self.batch, -1, *t.shape[-2:]) for t in (self.logits, values)))
        self.carried = []
        answer = self.record(call)
        if answer is None:
            out: Tensor = func(weights, values)
            return out
        if isinstance(answer, Call):
            out = answer.output()
        else:
            out = answer.to(values.dtype) @ repeat_heads(call.v, call.groups)
        return out.reshape(*weights.shape[:-1], values.shape[-1])


def at_softmax(logits: Tensor, values: Tensor) -> Call:
    """The call of an attention of which the logits (batch, head, query, key) are known, and neither queries nor keys.

    Visible are the keys whose logits are not as low as a mask makes them, in any head.
    """
    logits = logits.to(torch.promote_types(logits.dtype, values.dtype))
    visible = (logits > torch.finfo(logits.dtype).min / 2).any(1, keepdim=True)
    return Call(
        q=logits,
        k=values[..., :0],
        v=values,
        mask=None if bool(visible.all()) else visible,
        scaling=1.0,
        softcap=None,
        bias=None,
        causal=False,
        given=True,
    )
