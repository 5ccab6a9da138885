"""Several rows of one text at once: the answer tokens of a language model, each with what it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer
from mixlens.capture.joined import predicting
from mixlens.capture.text import Tokens
from mixlens.errors import Undefined
from mixlens.progress import Progress
from mixlens.subject import EncoderDecoder, Subject
from mixlens.subject.rows import row_logits
from mixlens.subject.streams import Streams
from mixlens.target import Quantity


@dataclass(eq=False)
class Traced:
    """What a method is asked of an answer of `count` tokens behind its prompt in `tokens`, the first at `first`.

    Answer token t stands at position first + t and is predicted at row first + t - 1 (`rows`). `resolve`: the logits
    there to what is explained, by default the tokens themselves. `documents`: name -> its tokens [first, last) in the
    prompt. `source`: of an encoder-decoder, how many of the first tokens the encoder reads; the rest is the decoder's,
    and rows and places are counted through both.
    """

    subject: Subject
    options: Mapping[str, Any]
    tokens: Tokens
    first: int
    count: int
    resolve: Callable[[Tensor], list[Answer]]
    progress: Progress | None = None
    documents: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    batch_size: int = 32
    source: int = 0
    signal: Mapping[str, Tensor] | None = None  # what the encoder is fed, where that is no text
    off: float | None = field(default=None, init=False)  # how far the layers of the method's pass were off

    @property
    def streams(self) -> Streams:
        """The two passes of an encoder-decoder."""
        assert isinstance(self.subject, EncoderDecoder)
        return Streams(self.subject, self.tokens.ids, self.source, self.signal)

    @property
    def rows(self) -> list[int]:
        """The rows that predict the answer's tokens."""
        return predicting(self.first, self.count)

    @cached_property
    def logits(self) -> Float[Tensor, "answer vocabulary"]:
        """What the model gives at these rows: of the method's own pass, where it told of one, else of another."""
        if self.source:
            streams = self.streams
            with torch.no_grad():
                return streams.logits(streams.decoded(streams.encoded()), self.rows)
        return row_logits(self.subject, self.tokens, self.rows)

    @cached_property
    def answers(self) -> list[Answer]:
        """What is explained of each answer token."""
        return self.resolve(self.logits)

    @torch.no_grad()
    def passed(self, normed: Float[Tensor, "answer dim"]) -> None:
        """The method's own pass has run: the rows' vectors behind the final norm, of which the logits are made."""
        with suppress(Undefined):
            self.logits = self.subject.unembedding.logits(normed)


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
