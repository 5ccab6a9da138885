"""Several rows of one text at once: the answer tokens of a language model, each with what it is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer
from mixlens.capture.text import Tokens
from mixlens.progress import Progress
from mixlens.target import Quantity


@dataclass(frozen=True, eq=False)
class Traced:
    """What a method is asked of an answer behind its prompt in `tokens`, its first token at position `first`.

    Answer token t stands at position first + t and is predicted at row first + t - 1 (`rows`), where the model gives
    `logits`; `answers`: what is explained there, by default the token itself. `documents`: name -> its tokens
    [first, last) in the prompt.
    """

    options: Mapping[str, Any]
    tokens: Tokens
    first: int
    logits: Float[Tensor, "answer vocabulary"]
    answers: Sequence[Answer]
    progress: Progress | None = None
    documents: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    batch_size: int = 32

    @property
    def rows(self) -> list[int]:
        """The rows that predict the answer's tokens."""
        return [self.first + t - 1 for t in range(len(self.answers))]


def slopes(
    logits: Float[Tensor, "row vocabulary"], answers: Sequence[Answer], of: Quantity
) -> tuple[Float[Tensor, " row"], Float[Tensor, "row vocabulary"]]:
    """The explained number of each row, and its gradient by the logits there."""
    with torch.enable_grad():
        leaf = logits.detach().clone().requires_grad_()
        values = torch.stack([answer.value((row,), of) for answer, row in zip(answers, leaf, strict=True)])
        (weights,) = torch.autograd.grad(values.sum(), leaf)
    return values.detach(), weights


def padded(rows: Sequence[Tensor], width: int) -> Float[Tensor, "row width"]:
    """Rows of several lengths as one matrix, zeros behind each."""
    out = rows[0].new_zeros(len(rows), width)
    for row, scores in zip(out, rows, strict=True):
        row[: len(scores)] = scores
    return out
