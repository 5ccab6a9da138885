"""Hidden states, attention weights and answers of a model in plain autograd, by hooks; no mixlens in here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from models import exact, families


@dataclass
class Trace:
    """One text's pass: `hidden` the input of each layer and the last one's output (token, dim), in the graph."""

    hidden: list[Tensor]
    weights: list[Tensor]  # (head, query, key)
    logits: Tensor  # (class,), or (token, class)


layers = exact.layers  # of a model, or of its part without heads


def trace(model: Any, ids: Sequence[int], leaf: Tensor | None = None, layer: int = 0, **inputs: Any) -> Trace:
    """The pass over one text; the input of `layer` is a leaf (`leaf`, or what it is), what is above depends on it."""
    hidden: list[Tensor] = []
    calls = 0
    last: list[Tensor] = []

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal calls
        x = args[0] if args else kwargs["hidden_states"]
        if calls == layer:
            x = (x.detach() if leaf is None else leaf[None].detach()).requires_grad_()
            args, kwargs = ((x, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": x})
        if calls >= layer:
            hidden.append(x)
        calls += 1
        return args, kwargs

    def after(module: Any, args: Any, kwargs: Any, out: Any) -> Any:
        y = (out[0] if isinstance(out, tuple) else out).view_as(hidden[-1]) if hidden else None
        if y is None:
            return None
        last[:] = [y]
        return (y.view_as(out[0]), *out[1:]) if isinstance(out, tuple) else y.view_as(out)

    handles = []
    for module in layers(model):
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after, with_kwargs=True))
    try:
        rows = {k: torch.tensor([v]) for k, v in inputs.items()}
        out = model(input_ids=torch.tensor([list(ids)]), output_attentions=True, **rows)
    finally:
        for handle in handles:
            handle.remove()
    return Trace([*hidden, *last], list(out.attentions)[layer:] if out.attentions else [], out.logits[0])


def model_of(name: str, head: str, **settings: Any) -> Any:
    """The family's model with attention whose weights stand in the graph."""
    return families.make(name, head, attention="exact", **settings)


def gradients(trace: Trace, value: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients of hidden states (token, dim) and attention weights (head, query, key); zeros where there is none."""
    wanted = [*trace.hidden, *trace.weights]
    found = torch.autograd.grad(value, wanted, allow_unused=True)
    found = [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, found, strict=True)]
    k = len(trace.hidden)
    return [g[0] for g in found[:k]], [g[0] for g in found[k:]]


def numpy(t: Tensor) -> Any:
    return t.detach().numpy()


def directional(f: Callable[[Tensor], Tensor], x: Tensor, along: Tensor, step: float = 1e-6) -> float:
    """The derivative of f at x along a direction, by a central difference."""
    with torch.no_grad():
        return float((f(x + step * along) - f(x - step * along)) / (2 * step))
