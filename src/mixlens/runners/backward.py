"""Texts through the model inside autograd: one forward and one backward pass a batch, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec
from mixlens.attribute.gradients import TextGraph
from mixlens.attribute.outputs import Key, part_logits
from mixlens.attribute.readout import Answer
from mixlens.attribute.target import Quantity
from mixlens.capture.graph import Graph, graph
from mixlens.capture.text import Tokens
from mixlens.runners.passes import Progress, groups
from mixlens.selfcheck import not_finite

Resolve = Callable[[int, tuple[Tensor, ...]], Answer]  # number of the text, logits -> its answer


def differentiate(
    model: Any,
    spec: Spec,
    texts: Sequence[Tokens],
    answers: Sequence[int],
    resolve: Resolve,
    use: Callable[[int, TextGraph, Answer, Tensor], Any],
    *,
    keys: Sequence[Key],
    of: Quantity,
    layer: int = 0,
    all_hidden: bool = False,
    weights: bool = False,
    hide: Sequence[Sequence[bool]] | None = None,
    pad: int | None = None,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> list[Any]:
    """`use(number, graph, answer, value)` of every text, in order.

    `answers`: where each text's answer is read; `keys`: where the logits are in the model's output. `all_hidden`:
    gradients at every layer, not at the input of `layer` alone. `weights`: attention and its gradients too. `hide`:
    tokens that nobody may attend to in this pass. Raises NotFinite.
    """
    out: list[Any] = [None] * len(texts)
    for done, total, members, inputs in groups(model, texts, batch_size, pad, head=True):
        at = [answers[i] for i in members]
        if hide is not None:
            for b, i in enumerate(members):
                hidden_tokens = torch.tensor(hide[i], dtype=torch.bool, device=inputs["attention_mask"].device)
                inputs["attention_mask"][b, : len(texts[i])].masked_fill_(hidden_tokens, 0)
        g = graph(model, spec, inputs, layer=layer, weights=weights, at=at)
        with torch.enable_grad():
            said = part_logits(g.output, keys, at, [len(texts[i]) for i in members])
            assert said is not None
            resolved = [resolve(i, tuple(z.detach() for z in z_s)) for i, z_s in zip(members, said, strict=True)]
            values = [one.value(logits, of) for one, logits in zip(resolved, said, strict=True)]
            gradients, weight_gradients = _backward(torch.stack(values).sum(), g, all_hidden, weights)
        for b, i in enumerate(members):
            n = len(texts[i])
            kept = g.hidden if all_hidden else g.hidden[:1]
            text = TextGraph(
                hidden=[_wide(h[b, :n].detach()) for h in kept],
                gradients=[_wide(d[b, :n]) for d in gradients],
                weights=[_wide(a[b, :, :n, :n].detach()) for a in g.weights],
                weight_gradients=[_wide(d[b, :, :n, :n]) for d in weight_gradients],
                rows=resolved[b].rows,
            )
            if not all(bool(torch.isfinite(d).all()) for d in (*text.gradients, *text.weight_gradients)):
                raise not_finite(model, "a gradient")
            out[i] = use(i, text, resolved[b], values[b].detach())
        if progress is not None:
            progress(done, total)
    return out


def _backward(value: Tensor, g: Graph, all_hidden: bool, weights: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients of hidden states and attention weights; zeros where the answer does not depend on one."""
    states = g.hidden if all_hidden else g.hidden[:1]
    wanted = [*states, *(g.weights if weights else [])]
    found = torch.autograd.grad(value, wanted, allow_unused=True)
    filled = [torch.zeros_like(t) if d is None else d for t, d in zip(wanted, found, strict=True)]
    return filled[: len(states)], filled[len(states) :]


def _wide(t: Tensor) -> Tensor:
    return (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t).cpu()
