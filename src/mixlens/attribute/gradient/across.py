"""Gradients of an encoder-decoder's answer by both streams: the source's and the answer's own embeddings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mixlens.attribute.gradient.functions import TextGraph
from mixlens.attribute.traced import Traced, padded
from mixlens.precision import widened
from mixlens.subject.finite import not_finite
from mixlens.target import Quantity


def rows_across(ask: Traced, use: Callable[[TextGraph], Tensor], *, of: Quantity, recompute: bool) -> Tensor:
    """(answer, source): `use` of each answer token's graph, whose text is the source and what the decoder has read.

    One pass, and a backward pass through both stacks an answer token. Raises NotFinite.
    """
    streams = ask.streams
    encoder, decoder = streams.graphs(recompute)
    leaves, scores = (encoder.hidden[0], decoder.hidden[0]), []
    with torch.enable_grad():
        logits = streams.logits(decoder.output, ask.rows)
        ask.logits = logits.detach()
        values = [answer.value((row,), of) for answer, row in zip(ask.answers, logits, strict=True)]
    for t, (row, value) in enumerate(zip(ask.rows, values, strict=True)):
        made = torch.autograd.grad(value, leaves, retain_graph=t + 1 < len(values))
        text = TextGraph(
            hidden=[_before(torch.cat([leaf.detach() for leaf in leaves], 1), row)],
            gradients=[_before(torch.cat(made, 1), row)],
            weights=[],
            weight_gradients=[],
            rows=(row,),
        )
        if not bool(torch.isfinite(text.gradients[0]).all()):
            raise not_finite(ask.subject.model, "a gradient")
        scores.append(use(text))
        if ask.progress is not None:
            ask.progress(t + 1, len(values))
    return padded(scores, len(ask.tokens))


def _before(t: Tensor, row: int) -> Tensor:
    return widened(t[0, : row + 1]).cpu()
