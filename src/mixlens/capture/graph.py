"""One pass inside autograd: a layer's input is the leaf, and what stands behind it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec
from mixlens.capture.attention import Call
from mixlens.capture.run import LayerPass, OnLinear, run
from mixlens.errors import Undefined


@dataclass(eq=False)
class Graph:
    """`hidden[k]` (batch, token, dim): the input of layer `first + k`; the last one is the last layer's output.

    `hidden[0]` is the leaf. `weights[k]` (batch, head, query, key): attention of layer `first + k`, where asked for.
    """

    first: int
    hidden: list[Tensor]
    weights: list[Tensor]
    output: Any


def graph(
    model: Any,
    spec: Spec,
    inputs: Mapping[str, Any],
    *,
    layer: int = 0,
    weights: bool = False,
    at: Sequence[int] | None = None,
    leaf: Tensor | None = None,
    also: Callable[[LayerPass], None] | None = None,
    on_linear: OnLinear | None = None,
    skip: Sequence[type] = (),
    tokens: Sequence[int] | None = None,
) -> Graph:
    """Run the whole model with the input of `layer` cut off from what is below it.

    Layer 0's input is the embedding layer's output, `hidden_states[0]`. `leaf`: put this in its place (batch, token,
    dim); what is below may then be left out (`skip`, and `tokens` too: see `run`). `also` and `on_linear` see every
    layer and linear map. Parameters need no gradient and get none: only the leaf is a variable. Raises Undefined for
    weights of layers with several attentions.
    """
    if weights and len(spec.attends) > 1:
        raise Undefined(
            f"attention weights in the graph are defined for layers of one attention, got {len(spec.attends)}; "
            "use a method that needs gradients of hidden states alone"
        )
    kept: list[Tensor] = []
    attention: list[Tensor] = []

    def on_input(index: int, x: Tensor) -> Tensor | None:
        if index != layer:
            return None
        new = x.detach().requires_grad_() if leaf is None else leaf
        kept.append(new)
        return new

    def on_call(index: int, call: Call) -> Tensor | None:
        if not weights or index < layer:
            return None
        attention.append(call.weights())
        return attention[-1]

    def on_layer(seen: LayerPass) -> Tensor | None:
        if also is not None:
            also(seen)
        if seen.index < layer:
            return None
        assert seen.y is not None
        kept.append(seen.y)
        return seen.y  # the very tensor that goes on, so that it has a gradient

    with torch.enable_grad():
        how: dict[str, Any] = {"on_input": on_input, "on_call": on_call, "on_linear": on_linear}
        output = run(model, spec, inputs, on_layer, heads=True, at=at, skip=skip, tokens=tokens, **how)
    return Graph(layer, kept, attention, output)
