"""Logit methods: the terms of a language model's answer, without a backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer, answer
from mixlens.attribute.logit.direct import RowsPass, directions, head_logits, rows_pass
from mixlens.attribute.logit.rolled import RolledPass, alti_logits, rolled_pass
from mixlens.attribute.method import Deep, Method, Tracing
from mixlens.capture.stream import Stream
from mixlens.cost import Cost, keys_and_values, rolled_down
from mixlens.mixing import MIXING
from mixlens.progress import Progress, part_of
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.head import HeadTask
from mixlens.subject.provenance import provenance
from mixlens.target import Quantity

if TYPE_CHECKING:
    from typing import Literal

    from typing_extensions import Self

    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced


DIRECT = Cost("logit", "one pass", held=keys_and_values)
_MAPS = rolled_down(MIXING["alti"].costs)
ROLLED = replace(_MAPS, held=lambda sizes, n: keys_and_values(sizes, n) + _MAPS.held(sizes, n))


@dataclass(frozen=True)
class Logit(Method):
    """What every head carries straight to the logits of the row that answers, summed over layers and heads."""

    of: Quantity = "log_odds"
    class_specific: bool = True
    heads: tuple[HeadTask, ...] | None = ("causal",)
    no_post_ln = (
        "is a sum of what heads add to one residual stream, this model's layers are post-LN: each has norms behind its "
        "sums; use saliency or attcat"
    )

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
        results = []
        for number, (tokens, read) in enumerate(zip(ask.texts, ask.reads, strict=True)):
            told = part_of(ask.progress, number, len(ask.texts))
            seen = self.see(subject, tokens, [read.at], ask.options, told)
            logits = subject.unembedding.logits(seen.normed)
            resolved = answer(subject.head, read, (logits[0],))
            scores, layers = self.score(subject, seen, logits, [resolved], ask.options)
            meta = {**provenance(subject, tokens, seen.off), "of": resolved.chosen(self.of)}
            results.append(ask.result(tokens, scores[0], None if layers is None else layers[:, 0], resolved, meta))
        return results

    def traced(self, subject: Subject, options: Mapping[str, Any]) -> Tracing:
        return "together"

    @torch.no_grad()
    def rows(self, subject: Subject, ask: Traced) -> Tensor:
        """Every answer token out of one pass."""
        seen = self.see(subject, ask.tokens, ask.rows, ask.options, ask.progress)
        ask.passed(seen.normed)
        ask.off = seen.off
        return self.score(subject, seen, ask.logits, ask.answers, ask.options)[0]

    def see(
        self,
        subject: Subject,
        tokens: Stream,
        rows: Sequence[int],
        options: Mapping[str, Any],
        progress: Progress | None,
    ) -> RowsPass:
        """The pass that the scores are made of."""
        return rows_pass(subject, tokens, rows, progress=progress)

    def score(
        self,
        subject: Subject,
        seen: RowsPass,
        logits: Tensor,
        answers: Sequence[Answer],
        options: Mapping[str, Any],
    ) -> tuple[Float[Tensor, "row source"], Float[Tensor, "layer row source"] | None]:
        """The scores of each row, and of each layer where it has some."""
        u = directions(subject.unembedding, seen.last, logits, answers, self.of)
        layers = head_logits(seen.terms, u, signed=bool(options.get("signed"))).cpu()
        return layers.sum(0), layers


@dataclass(frozen=True)
class AltiLogit(Logit):
    """The direct terms of the logit, each followed down to the input through the ALTI maps of the layers below."""

    of: Quantity = "logit"
    signed: bool = True

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return ROLLED

    def options(self) -> dict[str, Any]:
        return {"ffn": False, "p": 1}

    def layers(self, deep: Deep) -> Literal["own"] | None:
        return None

    def see(
        self,
        subject: Subject,
        tokens: Stream,
        rows: Sequence[int],
        options: Mapping[str, Any],
        progress: Progress | None,
    ) -> RolledPass:
        """The pass with a map of every layer."""
        return rolled_pass(subject, tokens, rows, options.get("p", 1), progress)

    def score(
        self,
        subject: Subject,
        seen: RowsPass,
        logits: Tensor,
        answers: Sequence[Answer],
        options: Mapping[str, Any],
    ) -> tuple[Float[Tensor, "row source"], None]:
        """The scores of each row."""
        assert isinstance(seen, RolledPass)
        u = directions(subject.unembedding, seen.last, logits, answers, self.of)
        return alti_logits(seen, u, ffn=bool(options.get("ffn"))).cpu(), None
