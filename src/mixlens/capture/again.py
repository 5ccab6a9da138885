"""A layer, or an attention of one, run once more on other hidden states, all else as it was given in the pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from torch import Tensor

from mixlens.architectures import submodule
from mixlens.capture.attention import RECORDER, Call
from mixlens.capture.run import Arguments, AttendPass, with_hidden
from mixlens.precision import widened

Held = TypeVar("Held")


class _Enough(Exception):
    """Ends a module's forward where its attention is handed out."""


def attention_of(module: Any, attention: str, arguments: Arguments, x: Tensor) -> Call:
    """The attention call of a layer on hidden states x, in x's graph. `attention`: the path of its attention module.

    The layer's own hooks are left out: it is not a layer of a pass.
    """
    return _call(module.forward, submodule(module, attention), arguments, x)


def attention_alone(attention: Any, arguments: Arguments, x: Tensor) -> Call:
    """The attention call of an attention module itself on hidden states x (any, position, dim).

    Keys and values of another stream, and the mask, are as they were, so only the queries need fit the mask.
    """
    return _call(attention.forward, attention, arguments, x)


def of_text(value: Held, b: int, batch: int) -> Held:
    """Text b of every tensor whose first axis is the batch, in whatever holds it; vectors are no batches."""
    return each_tensor(value, lambda t: t[b : b + 1] if t.ndim > 1 and len(t) == batch else t)


def each_tensor(value: Held, f: Callable[[Tensor], Tensor]) -> Held:
    """`value` with f of every tensor in it."""
    kept: Any = value
    if isinstance(kept, Tensor):
        return f(kept)  # type: ignore[return-value]
    if isinstance(kept, (Call, AttendPass)):
        return replace(kept, **{each.name: each_tensor(getattr(kept, each.name), f) for each in fields(kept)})  # type: ignore[return-value]
    if isinstance(kept, Mapping):
        return {k: each_tensor(v, f) for k, v in kept.items()}  # type: ignore[return-value]
    if type(kept) in (tuple, list):
        return type(kept)(each_tensor(v, f) for v in kept)
    return value


def _call(forward: Callable[..., Any], attention: Any, arguments: Arguments, x: Tensor) -> Call:
    """What `attention` hands to the interface in `forward` on hidden states x; what comes behind is not run."""
    calls: list[Call] = []

    def record(call: Call) -> None:
        calls.append(call)
        raise _Enough

    args, kwargs = with_hidden(*each_tensor(arguments, _leaf), x)
    held = attention.__dict__.get(RECORDER)
    attention.__dict__[RECORDER] = record
    try:
        forward(*args, **kwargs)
    except _Enough:
        pass
    finally:
        attention.__dict__[RECORDER] = held
    (call,) = calls
    return call


def _leaf(t: Tensor) -> Tensor:
    """In at least float32, and such as autograd takes."""
    t = widened(t)
    return t.clone() if t.is_inference() else t
