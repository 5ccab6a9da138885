"""One forward pass of a language model by rules, and gradients of the numbers explained at some of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.answer import Answer
from mixlens.architectures import base_model, layer_modules, submodule
from mixlens.attribute.frozen.rules import Rules, prepare, ruled
from mixlens.attribute.traced import slopes
from mixlens.capture.attention import Call
from mixlens.capture.run import LayerPass, Watch, run
from mixlens.precision import widened
from mixlens.subject import Subject
from mixlens.subject.unembedding import Unembedding
from mixlens.target import Quantity


@dataclass(eq=False)
class RuledPass:
    """`leaf` (text, token, dim): the input of the layer asked for. `normed` (row, dim): what the vocabulary's map reads
    at the rows. `written`: what the attention of each layer from there on writes, where it is kept; `seen`: what was
    kept of these layers.
    """

    logits: Float[Tensor, "row vocabulary"]
    normed: Tensor
    leaf: Tensor
    written: list[Tensor] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)


def ruled_pass(
    subject: Subject,
    inputs: Mapping[str, Tensor],
    texts: Sequence[int],
    rows: Sequence[int],
    rules: Rules,
    *,
    layer: int = 0,
    keep: Callable[[LayerPass], Any] | None = None,
    alone: Int[Tensor, "text row"] | None = None,
    recompute: bool = False,
) -> RuledPass:
    """One pass inside autograd; read at `rows` of the batch's `texts`. Parameters get no gradient.

    `keep`: what is kept of each layer, and what its attention writes; with `alone` (see `RuledCall`) at these rows
    only. `recompute`: see `Recorder`. Raises Undefined.
    """
    spec, unembedding = subject.spec, subject.unembedding
    leaves: list[Tensor] = []
    written: list[Tensor] = []
    layers: list[Any] = []
    looking = False

    def on_input(index: int, x: Tensor) -> Tensor | None:
        if index != layer:
            return None
        leaves.append(x.detach().requires_grad_())
        return leaves[0]

    def on_call(index: int, call: Call) -> Call | None:
        return ruled(rules, call, alone) if index >= layer else None

    def on_layer(seen: LayerPass) -> None:
        nonlocal looking
        if keep is not None and seen.index >= layer:
            looking = True  # a map that only its outputs say is asked for some
            try:
                layers.append(keep(seen))
            finally:
                looking = False

    def change(twin: Any) -> None:
        prepare(rules, spec, twin)
        if keep is not None:
            for module in layer_modules(base_model(twin), spec):
                submodule(module, spec.attend.out).register_forward_hook(kept)

    def kept(module: Any, args: Any, out: Tensor) -> Tensor | None:
        if not leaves or looking:
            return None
        part, new = (out, None) if alone is None else _at(out, leaves[0], alone)
        written.append(part)
        return new

    with torch.enable_grad():
        watch = Watch(on_layer, on_input, on_call)
        output = run(subject.model, spec, inputs, watch, recompute=recompute, prepare=change)
        normed = output.last_hidden_state[list(texts), list(rows)]
    with torch.no_grad():
        logits = unembedding.logits(normed)
    return RuledPass(logits, normed, leaves[0], list(written), layers)  # layers that run again write again


def _at(out: Tensor, like: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Some rows of an output, and the output whose gradient goes through these alone."""
    whole = out.view_as(like)
    at = rows[..., None].expand(-1, -1, whole.shape[-1])
    part = whole.gather(1, at)
    return part, whole.detach().scatter(1, at, part).view_as(out)


def covectors(
    unembedding: Unembedding,
    logits: Float[Tensor, "row vocabulary"],
    answers: Sequence[Answer],
    of: Quantity,
    rules: Rules,
) -> tuple[Float[Tensor, " row"], Float[Tensor, "row dim"]]:
    """The explained number of each row, and its gradient by what the vocabulary's map reads there."""
    values, weights = slopes(logits, answers, of)
    if unembedding.cap is not None and rules.activation == "slope":
        weights = weights * _slope_of_cap(logits / unembedding.cap)
    else:
        weights = weights * unembedding.slope(logits)
    return values, unembedding.combined(weights)


def _slope_of_cap(y: Tensor) -> Tensor:
    """tanh(x) / x at y = tanh(x)."""
    return torch.where(y == 0, 1.0, y / torch.atanh(y))


def gradients(passed: RuledPass, covector: Tensor, wanted: Sequence[Tensor], *, last: bool = True) -> list[Tensor]:
    """Gradients of sum over rows of covector . normed; the graph is kept for others but for the `last`."""
    slopes = torch.autograd.grad(
        passed.normed, list(wanted), covector.to(passed.normed.dtype), retain_graph=not last, allow_unused=True
    )
    return [torch.zeros_like(t) if g is None else g for t, g in zip(wanted, slopes, strict=True)]


def products(leaf: Tensor, gradient: Tensor, reduce: str) -> Float[Tensor, "*text token"]:
    """Gradient times input, summed over dimensions, or its L2 norm."""
    both = widened(leaf.detach()) * widened(gradient)
    return both.norm(dim=-1) if reduce == "l2" else both.sum(-1)
