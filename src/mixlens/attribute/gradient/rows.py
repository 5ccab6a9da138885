"""Gradients of every token of an answer over one graph: one pass, and a backward pass a token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mixlens.attribute.gradient.backward import beside_graph, require_finite
from mixlens.attribute.gradient.functions import TextGraph
from mixlens.attribute.traced import Traced, padded, slopes
from mixlens.capture.graph import graph
from mixlens.errors import Undefined
from mixlens.target import Quantity


def traced_rows(
    ask: Traced,
    use: Callable[[TextGraph], Tensor],
    *,
    of: Quantity,
    layer: int,
    all_hidden: bool,
    weights: bool,
    received: bool,
    recompute: bool,
) -> Tensor | None:
    """(answer, source): `use` of each answer token's graph, whose text ends before it; `layer` and the rest as in
    `differentiate`. None for a model whose logits are no map of its last norm. Raises NotFinite.
    """
    subject, rows = ask.subject, ask.rows
    try:
        unembedding = subject.unembedding
    except Undefined:
        return None
    (batch,) = subject.batches([ask.tokens], 1)
    lengths = [[row + 1 for row in rows]] if received else None
    settings: dict[str, Any] = {"weights": weights, "received": lengths, "recompute": recompute}
    g = graph(subject.model, subject.spec, batch.inputs, layer=layer, heads=False, **settings)
    with torch.enable_grad():
        normed = g.output.last_hidden_state[0, rows]
    ask.passed(normed.detach())
    _, by_logit = slopes(ask.logits, ask.answers, of)
    with torch.no_grad():
        covector = unembedding.combined(by_logit * unembedding.slope(ask.logits)).to(normed.dtype)
    states, scores = g.hidden if all_hidden else g.hidden[:1], []
    wanted = [*states, *g.weights]
    for t, row in enumerate(rows):
        only = torch.zeros_like(covector)
        only[t] = covector[t]
        last = t + 1 == len(rows)
        made = torch.autograd.grad(normed, wanted, only, retain_graph=not last, allow_unused=True)
        gradients = [torch.zeros_like(h) if d is None else d for h, d in zip(wanted, made, strict=True)]
        text = TextGraph(
            hidden=[_before(h.detach(), row) for h in states],
            gradients=[_before(d, row) for d in gradients[: len(states)]],
            weights=[_square(a.detach(), row) for a in g.weights],
            weight_gradients=[_square(d, row) for d in gradients[len(states) :]],
            rows=(row,),
            received=[beside_graph(a[0, t, : row + 1]) for a in g.received],
        )
        require_finite(subject, text)
        scores.append(use(text))
        if ask.progress is not None:
            ask.progress(t + 1, len(rows))
    return padded(scores, len(ask.tokens))


def _before(t: Tensor, row: int) -> Tensor:
    """Up to a row."""
    return beside_graph(t[0, : row + 1])


def _square(t: Tensor, row: int) -> Tensor:
    """Of attention, up to a row."""
    return beside_graph(t[0, :, : row + 1, : row + 1])
