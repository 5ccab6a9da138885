"""Span routes (FlashTrace): the information flow routes of a span of an answer, in hops through its reasoning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mixlens.answer import answer
from mixlens.attribute.logit.direct import rows_pass
from mixlens.attribute.method import Method, Tracing
from mixlens.attribute.span.asked import answer_spans, token_range
from mixlens.attribute.span.edges import sums
from mixlens.attribute.span.hops import Span, rows_of, span_rows
from mixlens.capture.text import Tokens, text_of
from mixlens.cost import Cost, beside, keys_and_values
from mixlens.errors import UnknownOption
from mixlens.progress import Progress, part_of
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.head import HeadTask
from mixlens.subject.provenance import provenance
from mixlens.subject.rows import row_logits

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced


ROUTES = Cost(
    "decompose",
    "one pass and the terms of every head, for the rows that are read",
    beside(lambda z, n: 6 * n * z.heads * z.dim),
    keys_and_values,
    compiles=True,
)


@dataclass(frozen=True)
class SpanRoutes(Method):
    """How near each source's terms come to what a span of rows is together; by hops through what it reasoned by."""

    heads: tuple[HeadTask, ...] | None = ("causal",)
    no_post_ln = (
        "sums what layers add to one residual stream, this model's layers are post-LN: each has norms behind its sums; "
        "use ifr"
    )

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return ROUTES

    def options(self) -> dict[str, Any]:
        return {"hops": 1, "span": "token", "reasoning": None}

    @torch.no_grad()
    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """The row that answers, `reasoning` being tokens of the text. Raises TargetError, Undefined, UnknownOption."""
        ask.need_answer(subject)
        if ask.options.get("span", "token") != "token":
            raise UnknownOption(f"span= is of the tokens of an answer, for {ask.name} in lens.trace; leave it out here")
        results = []
        for number, (tokens, read) in enumerate(zip(ask.texts, ask.reads, strict=True)):
            named = ask.options.get("reasoning")
            reasoning = range(0) if named is None else token_range(ask.name, "reasoning", named, len(tokens), 1)
            span = Span(range(read.at + 1, read.at + 2), reasoning)
            told = part_of(ask.progress, number, len(ask.texts))
            scores = self._scores(subject, text_of(tokens), [span], ask.options, told)[0]
            resolved = answer(subject.head, read, tuple(row_logits(subject, tokens, [read.at])))
            results.append(ask.result(tokens, scores, None, resolved, provenance(subject, tokens)))
        return results

    def traced(self, subject: Subject, options: Mapping[str, Any]) -> Tracing:
        return "together"

    @torch.no_grad()
    def rows(self, subject: Subject, ask: Traced) -> Tensor:
        """Every span out of one pass; its tokens have one row."""
        count, first = ask.count, ask.first
        named = ask.options.get("reasoning")
        reasoning = None if named is None else token_range(self.name, "reasoning", named, count)
        spans = []
        for mine in answer_spans(self.name, ask.options.get("span", "token"), count):
            through = (range(mine.start) or mine) if reasoning is None else reasoning
            through = range(through.start, min(through.stop, mine.stop))
            spans.append(Span(_moved(mine, first), _moved(through, first)))
        rows = self._scores(subject, text_of(ask.tokens), spans, ask.options, ask.progress, ask)
        return torch.cat([row.expand(len(span.tokens), -1) for row, span in zip(rows, spans, strict=True)])

    def _scores(
        self,
        subject: Subject,
        tokens: Tokens,
        spans: Sequence[Span],
        options: Mapping[str, Any],
        progress: Progress | None,
        ask: Traced | None = None,
    ) -> Tensor:
        rows = rows_of(spans)
        seen = rows_pass(subject, tokens, rows, sums, progress)
        if ask is not None and set(ask.rows) <= set(rows):
            ask.passed(seen.normed[[rows.index(row) for row in ask.rows]])
        return span_rows(seen.beside, rows, spans, options.get("hops", 1)).cpu()


def _moved(tokens: range, by: int) -> range:
    return range(tokens.start + by, tokens.stop + by) if tokens else range(0)
