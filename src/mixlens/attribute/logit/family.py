"""Logit methods: the terms of a language model's answer, without a backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer, answer
from mixlens.attribute.logit.direct import RowsPass, directions, head_logits, rows_pass
from mixlens.attribute.method import Deep, Method
from mixlens.cost import Cost, Sizes
from mixlens.errors import Undefined
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.provenance import provenance
from mixlens.target import Quantity

if TYPE_CHECKING:
    from typing import Literal

    from typing_extensions import Self

    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced


def _bytes(sizes: Sizes, n: int) -> float:
    """Keys and values of every layer, twice where they are widened, and a row of every head."""
    return sizes.layers * 4 * n * sizes.heads * sizes.width * sizes.item


DIRECT = Cost("logit", "one pass", held=_bytes)


@dataclass(frozen=True)
class Logit(Method):
    """What every head carries straight to the logits of the row that answers, summed over layers and heads."""

    of: Quantity = "log_odds"
    class_specific: bool = True

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return DIRECT

    def options(self) -> dict[str, Any]:
        return {"signed": False}

    def layers(self, deep: Deep) -> Literal["own"] | None:
        return "own" if deep == "each" else None

    @torch.no_grad()
    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """One text at a time. Raises TargetError, Undefined for what is no language model."""
        ask.need_answer(subject)
        _refuse_other_heads(subject, ask.name)
        if any(read.row != read.at for read in ask.reads):
            raise Undefined(f"{ask.name} reads the row that answers; leave readout= out")
        results = []
        for number, (tokens, read) in enumerate(zip(ask.texts, ask.reads, strict=True), 1):
            seen = rows_pass(subject, tokens, [read.at])
            resolved = answer(subject.head, read, (seen.logits[0],))
            layers = self._layers(subject, seen, seen.logits, [resolved], ask.options)[:, 0]
            meta = {**provenance(subject, tokens), "of": resolved.chosen(self.of)}
            results.append(ask.result(tokens, layers.sum(0), layers, resolved, meta))
            if ask.progress is not None:
                ask.progress(number, len(ask.texts))
        return results

    @torch.no_grad()
    def rows(self, subject: Subject, ask: Traced[Self]) -> Tensor:
        """Every answer token out of one pass."""
        _refuse_other_heads(subject, ask.name)
        seen = rows_pass(subject, ask.tokens, ask.rows)
        return self._layers(subject, seen, ask.logits, ask.answers, ask.options).sum(0)

    def _layers(
        self,
        subject: Subject,
        seen: RowsPass,
        logits: Tensor,
        answers: Sequence[Answer],
        options: Mapping[str, Any],
    ) -> Float[Tensor, "layer row source"]:
        u = directions(subject.unembedding, seen.last, logits, answers, self.of)
        return head_logits(seen.terms, u, signed=bool(options.get("signed"))).cpu()


def _refuse_other_heads(subject: Subject, name: str) -> None:
    if subject.head.task != "causal":
        raise Undefined(
            f"{name} reads the logits of a causal language model, got {subject.head.in_words}; use saliency, attcat or "
            "alti"
        )
