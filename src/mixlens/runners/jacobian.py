"""Global Hidden Token Attribution: the Jacobian of the read-out vector by the input embeddings, text by text."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mixlens.attribute.gradients import take
from mixlens.attribute.kinds import Jacobian
from mixlens.attribute.outputs import part_logits
from mixlens.attribute.readout import answer
from mixlens.capture.graph import graph
from mixlens.errors import Undefined
from mixlens.results import Attribution
from mixlens.runners.passes import groups
from mixlens.runners.request import Request, provenance, result
from mixlens.selfcheck import not_finite

HELD_BYTES = 512 << 20  # attention gradients of covectors taken back at once


def attributions(lens: Any, ask: Request) -> list[Attribution]:
    """The method's Attribution of every text. Raises Undefined for the read-out "max"."""
    method = ask.method
    assert isinstance(method, Jacobian)
    out: list[Any] = [None] * len(ask.texts)
    for done, total, (i,), inputs in groups(lens.model, ask.texts, 1, lens.pad, head=True):
        n = len(ask.texts[i])
        g = graph(lens.model, lens.spec, inputs, weights=True, at=[ask.answers[i]])
        logits = part_logits(g.output, lens.head.keys, [ask.answers[i]], [n])
        known = None if logits is None else tuple(z.detach() for z in logits[0])
        said = answer(lens.head, ask.reads[i], known)
        if "max" in said.rows:
            raise Undefined(f"{ask.name} reads one vector, 'max' names none; pass readout= a position or 'mean'")
        leaf = g.hidden[0]
        with torch.enable_grad():
            vector = take(g.hidden[-1][0], said.rows)
        scores = frobenius(vector, leaf, leaf[0].detach() if method.times_input else None, g.weights[0].numel())
        if not bool(torch.isfinite(scores).all()):
            raise not_finite(lens.model, "a Jacobian")
        out[i] = result(ask, ask.texts[i], scores.cpu(), None, said, provenance(lens, ask.texts[i]))
        if ask.progress is not None:
            ask.progress(done, total)
    return out


def frobenius(vector: Tensor, leaf: Tensor, columns: Tensor | None, weights: int) -> Tensor:
    """||d vector / d leaf_j||_F (token,), with the input dimensions scaled by `columns` (token, dim) if given.

    `weights`: attention weights of a layer, what a covector's way back holds most of.
    """
    dim = len(vector)
    size = max(1, min(dim, HELD_BYTES // (4 * vector.element_size() * max(weights, leaf.numel()))))
    covectors = torch.eye(dim, dtype=vector.dtype, device=vector.device)
    squares = leaf.new_zeros(leaf.shape[1], dtype=torch.promote_types(leaf.dtype, torch.float32))
    for some in torch.split(covectors, size):
        (rows,) = torch.autograd.grad(vector, leaf, some, retain_graph=True, is_grads_batched=True)
        rows = rows[:, 0].to(squares.dtype)
        squares += (rows if columns is None else rows * columns).pow(2).sum((0, 2))
    return squares.sqrt()
