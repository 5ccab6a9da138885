"""Several rows of one text at once: the answer tokens of a language model, each with what it is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer
from mixlens.attribute.method import Method
from mixlens.capture.text import Tokens
from mixlens.progress import Progress

M_co = TypeVar("M_co", bound=Method, covariant=True)


@dataclass(frozen=True, eq=False)
class Traced(Generic[M_co]):
    """What is asked of an answer that stands behind its prompt in `tokens`, its first token at position `first`.

    Answer token t stands at position first + t and is predicted at row first + t - 1 (`rows`), where the model gives
    `logits`; `answers`: what is explained there, by default the token itself.
    """

    name: str
    method: M_co
    options: Mapping[str, Any]
    tokens: Tokens
    first: int
    logits: Float[Tensor, "answer vocabulary"]
    answers: Sequence[Answer]
    batch_size: int = 32
    memory: Any = None
    progress: Progress | None = None

    @property
    def rows(self) -> list[int]:
        """The rows that predict the answer's tokens."""
        return [self.first + t - 1 for t in range(len(self.answers))]


def prefix(tokens: Tokens, count: int) -> Tokens:
    """The first tokens of a text as a text: all that a causal model's row `count - 1` sees."""
    return replace(
        tokens,
        ids=tokens.ids[:count],
        pieces=tokens.pieces[:count],
        special=tokens.special[:count],
        spans=None if tokens.spans is None else tokens.spans[:count],
        groups=None if tokens.groups is None else tokens.groups[:count],
        roles=None if tokens.roles is None else tokens.roles[:count],
        inputs={name: values[:count] for name, values in tokens.inputs.items()},
    )


def padded(rows: Sequence[Tensor], width: int) -> Float[Tensor, "row width"]:
    """Rows of several lengths as one matrix, zeros behind each."""
    out = rows[0].new_zeros(len(rows), width)
    for row, scores in zip(out, rows, strict=True):
        row[: len(scores)] = scores
    return out
