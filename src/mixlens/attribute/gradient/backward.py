"""Texts through the model inside autograd: one forward and one backward pass a batch, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from mixlens.answer import Answer
from mixlens.attribute.gradient.functions import TextGraph
from mixlens.capture.attention import Call
from mixlens.capture.graph import Graph, graph
from mixlens.capture.stream import Stream
from mixlens.precision import widened
from mixlens.progress import Progress
from mixlens.subject import Subject
from mixlens.subject.finite import not_finite
from mixlens.subject.outputs import part_logits
from mixlens.target import Quantity

R = TypeVar("R")
Resolve = Callable[[int, tuple[Tensor, ...]], Answer]  # number of the text, logits -> its answer


def differentiate(
    subject: Subject,
    texts: Sequence[Stream],
    answers: Sequence[int],
    resolve: Resolve,
    use: Callable[[int, TextGraph, Answer, Tensor], R],
    *,
    of: Quantity,
    layer: int = 0,
    all_hidden: bool = False,
    weights: bool = False,
    received: bool = False,
    recompute: bool = False,
    hide: Sequence[Sequence[bool]] | None = None,
    call: Callable[[Call], Call] | None = None,
    prepare: Callable[[Any], None] | None = None,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> list[R]:
    """`use(number, graph, answer, value)` of every text, in order.

    `answers`: where each text's answer is read. `all_hidden`: gradients at every layer, not at the input of `layer`
    alone. `weights`: attention and its gradients too; `received`: the attention that tokens receive. `recompute`: see
    `Recorder`. `hide`: tokens that nobody may attend to in this pass. `call`, `prepare`: see `graph`.
    Raises NotFinite.
    """
    results: dict[int, R] = {}
    for batch in subject.batches(texts, batch_size):
        members, inputs = batch.members, batch.inputs
        at = [answers[i] for i in members]
        if hide is not None:
            for b, i in enumerate(members):
                hidden_tokens = torch.tensor(hide[i], dtype=torch.bool, device=inputs["attention_mask"].device)
                inputs["attention_mask"][b, : len(texts[i])].masked_fill_(hidden_tokens, 0)
        lengths = [len(texts[i]) for i in members]
        settings: dict[str, Any] = {
            "weights": weights,
            "received": [[n] for n in lengths] if received else None,
            "recompute": recompute,
            "call": call,
            "prepare": prepare,
        }
        g = graph(subject.model, subject.spec, inputs, layer=layer, at=at, **settings)
        with torch.enable_grad():
            logits = part_logits(g.output, subject.head.keys, at, lengths)
            assert logits is not None
            resolved = [resolve(i, tuple(z.detach() for z in parts)) for i, parts in zip(members, logits, strict=True)]
            values = [answer.value(parts, of) for answer, parts in zip(resolved, logits, strict=True)]
            gradients, weight_gradients = _backward(torch.stack(values).sum(), g, all_hidden, weights)
        for b, i in enumerate(members):
            n = len(texts[i])
            kept = g.hidden if all_hidden else g.hidden[:1]
            text = TextGraph(
                hidden=[beside_graph(h[b, :n].detach()) for h in kept],
                gradients=[beside_graph(d[b, :n]) for d in gradients],
                weights=[beside_graph(a[b, :, :n, :n].detach()) for a in g.weights],
                weight_gradients=[beside_graph(d[b, :, :n, :n]) for d in weight_gradients],
                rows=resolved[b].rows,
                received=[beside_graph(a[b, 0, :n]) for a in g.received],
            )
            require_finite(subject, text)
            results[i] = use(i, text, resolved[b], values[b].detach())
        if progress is not None:
            progress(batch.number, batch.count)
    return [results[i] for i in range(len(texts))]


def _backward(value: Tensor, g: Graph, all_hidden: bool, weights: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients of hidden states and attention weights; zeros where the answer does not depend on one."""
    states = g.hidden if all_hidden else g.hidden[:1]
    wanted = [*states, *(g.weights if weights else [])]
    gradients = torch.autograd.grad(value, wanted, allow_unused=True)
    filled = [torch.zeros_like(t) if d is None else d for t, d in zip(wanted, gradients, strict=True)]
    return filled[: len(states)], filled[len(states) :]


def require_finite(subject: Subject, text: TextGraph) -> None:
    """Raises NotFinite for a text whose attention or gradients are not."""
    if not all(bool(torch.isfinite(a).all()) for a in text.received):
        raise not_finite(subject.model, "attention")
    if not all(bool(torch.isfinite(d).all()) for d in (*text.gradients, *text.weight_gradients)):
        raise not_finite(subject.model, "a gradient")


def beside_graph(t: Tensor) -> Tensor:
    """Beside the graph, in at least float32."""
    return widened(t).cpu()
