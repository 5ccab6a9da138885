"""Global Hidden Token Attribution: the Jacobian of the read-out vector by the input embeddings, text by text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import answer, take
from mixlens.attribute.method import Method
from mixlens.capture.graph import graph
from mixlens.cost import Cost, Sizes
from mixlens.errors import Undefined
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.finite import not_finite
from mixlens.subject.outputs import part_logits
from mixlens.subject.provenance import provenance

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.attribute.request import Request

HELD_BYTES = 512 << 20  # attention gradients of covectors taken back at once


def _bytes(sizes: Sizes, n: int) -> float:
    states = n * sizes.item * (30 * sizes.dim + 6 * sizes.hidden)
    return sizes.layers * (states + 8 * sizes.heads * sizes.square_bytes(n))


ROWS = Cost(
    "rows",
    "one pass forward, and one backward a dimension of the hidden states",
    lambda sizes, n: 2 * sizes.dim,
    _bytes,
    lambda sizes, n: 2 * HELD_BYTES,
    slow=True,
)


@dataclass(frozen=True)
class Jacobian(Method):
    """The norm of the read-out vector's Jacobian. `times_input`: its columns scaled by the input."""

    times_input: bool = False

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return ROWS

    def reads_row(self, options: Mapping[str, Any]) -> bool:
        return True

    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """One text at a time. Raises Undefined for the read-out "max"."""
        results: dict[int, Attribution] = {}
        for batch in subject.batches(ask.texts, 1):
            (i,) = batch.members
            tokens, at = ask.texts[i], [ask.answers[i]]
            g = graph(subject.model, subject.spec, batch.inputs, weights=True, at=at)
            logits = part_logits(g.output, subject.head.keys, at, [len(tokens)])
            known = None if logits is None else tuple(z.detach() for z in logits[0])
            resolved = answer(subject.head, ask.reads[i], known)
            if "max" in resolved.rows:
                raise Undefined(f"{ask.name} reads one vector, 'max' names none; pass readout= a position or 'mean'")
            leaf = g.hidden[0]
            with torch.enable_grad():
                vector = take(g.hidden[-1][0], resolved.rows)
            columns = leaf[0].detach() if self.times_input else None
            scores = frobenius(vector, leaf, columns, g.weights[0].numel())
            if not bool(torch.isfinite(scores).all()):
                raise not_finite(subject.model, "a Jacobian")
            results[i] = ask.result(tokens, scores.cpu(), None, resolved, provenance(subject, tokens))
            if ask.progress is not None:
                ask.progress(batch.number, batch.count)
        return [results[i] for i in range(len(ask.texts))]


def frobenius(
    vector: Float[Tensor, " dim"],
    leaf: Float[Tensor, "1 token dim"],
    columns: Float[Tensor, "token dim"] | None,
    weights: int,
) -> Float[Tensor, " token"]:
    """||d vector / d leaf_j||_F (token,), with the input's dimensions scaled by `columns` if given.

    `weights`: attention weights of a layer, what a covector's backward pass holds most of.
    """
    dim = len(vector)
    size = max(1, min(dim, HELD_BYTES // (4 * vector.element_size() * max(weights, leaf.numel()))))
    covectors = torch.eye(dim, dtype=vector.dtype, device=vector.device)
    squares = leaf.new_zeros(leaf.shape[1], dtype=torch.promote_types(leaf.dtype, torch.float32))
    for part in torch.split(covectors, size):
        (rows,) = torch.autograd.grad(vector, leaf, part, retain_graph=True, is_grads_batched=True)
        rows = rows[:, 0].to(squares.dtype)
        squares += (rows if columns is None else rows * columns).pow(2).sum((0, 2))
    return squares.sqrt()
