"""One pass inside autograd: a layer's input is the leaf, and what stands behind it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec
from mixlens.capture.attention import Call, blocks
from mixlens.capture.run import LayerPass, OnLinear, Reading, Watch, run
from mixlens.errors import Undefined
from mixlens.precision import at_least_single

BLOCK_BYTES = 8 << 20  # attention weights held at a time


@dataclass(eq=False)
class Graph:
    """`hidden[k]` (batch, token, dim): the input of layer `first + k`; the last one is the last layer's output.

    `hidden[0]` is the leaf. `weights[k]` (batch, head, query, key): attention of layer `first + k`, where asked for;
    `received[k]` (batch, length, key): its mean over heads and so many queries, outside the graph.
    """

    first: int
    hidden: list[Tensor]
    weights: list[Tensor]
    output: Any
    received: list[Tensor] = field(default_factory=list)


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
    received: Sequence[Sequence[int]] | None = None,
    recompute: bool = False,
    heads: bool = True,
    call: Callable[[Call], Call] | None = None,
    prepare: Callable[[Any], None] | None = None,
) -> Graph:
    """Run the whole model with the input of `layer` cut off from what is below it.

    Layer 0's input is the embedding layer's output, `hidden_states[0]`. `leaf`: put this in its place (batch, token,
    dim); what is below may then be left out (`skip`, and `tokens` too: see `run`). `also` and `on_linear` see every
    layer and linear map. Parameters need no gradient and get none: only the leaf is a variable. `received`: by text the
    lengths at which the attention that tokens receive is wanted. `recompute`: see `Recorder`. `heads`: run the head
    too. `call` and `prepare`: what goes on in the place of an attention call, and changes the shadow first, with the
    same numbers but other gradients.
    Raises Undefined for weights of layers with several attentions.
    """
    if (weights or received is not None) and len(spec.attends) > 1:
        raise Undefined(
            f"attention weights in the graph are defined for layers of one attention, got {len(spec.attends)}; "
            "use a method that needs gradients of hidden states alone"
        )
    kept: list[Tensor] = []
    attention: dict[int, Tensor] = {}
    means: list[Tensor] = []

    def on_input(index: int, x: Tensor) -> Tensor | None:
        if index != layer:
            return None
        new = x.detach().requires_grad_() if leaf is None else leaf
        kept.append(new)
        return new

    def on_call(index: int, seen: Call) -> Tensor | Call | None:
        if index < layer:
            return None
        if not weights:
            return None if call is None else call(seen)
        made = seen.weights()
        attention.setdefault(index, made)  # a layer that runs again is told the same
        return made

    def on_layer(seen: LayerPass) -> Tensor | None:
        if also is not None:
            also(seen)
        if seen.index < layer:
            return None
        assert seen.y is not None
        if received is not None:
            means.append(_received(seen.attends[0].calls[0], received))
        kept.append(seen.y)
        return seen.y  # the very tensor that goes on, so that it has a gradient

    with torch.enable_grad():
        watch, reading = Watch(on_layer, on_input, on_call, on_linear), Reading(heads, at, tokens)
        output = run(model, spec, inputs, watch, reading, skip=skip, recompute=recompute, prepare=prepare)
    return Graph(layer, kept, list(attention.values()), output, means)


@torch.no_grad()
def _received(call: Call, lengths: Sequence[Sequence[int]]) -> Tensor:
    """(batch, length, key): the attention to each token, the mean over heads and a text's first `length` queries."""
    batch, heads, n, _ = call.q.shape
    count = torch.tensor([list(of_text) for of_text in lengths], dtype=torch.int64, device=call.q.device)[..., None]
    total = call.q.new_zeros(batch, count.shape[1], call.k.shape[2], dtype=at_least_single(call.q.dtype))
    inside = (torch.arange(n, dtype=torch.int64, device=call.q.device) < count).to(total.dtype)
    for rows in blocks(n, BLOCK_BYTES // (batch * heads * n * total.element_size())):
        total += inside[:, :, rows] @ call.weights(rows).sum(1, dtype=total.dtype)
    return total / (heads * count)
