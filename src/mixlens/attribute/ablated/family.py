"""Ablation of units: what the answer loses without parts of its prompt, whole sentences or documents at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mixlens.answer import Answer, answer
from mixlens.attribute.ablated.fits import Masks, coefficients, lasso, leave_one_out, random_masks
from mixlens.attribute.ablated.parts import log_odds_without, parts_of, together
from mixlens.attribute.method import Method, Tracing
from mixlens.attribute.removal import filler_id
from mixlens.attribute.span.asked import answer_spans
from mixlens.attribute.variants import Substitute
from mixlens.capture.joined import first as beginning
from mixlens.capture.text import Tokens, text_of
from mixlens.cost import Cost
from mixlens.errors import Undefined, UnknownOption
from mixlens.results import Attribution
from mixlens.results.units import TraceUnit
from mixlens.subject import Subject
from mixlens.subject.head import HeadTask
from mixlens.subject.provenance import provenance
from mixlens.subject.rows import row_logits

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced

ABLATIONS = 64


@dataclass(frozen=True)
class Ablated(Method):
    """The log-odds of an answer with parts of its prompt taken out. `fitted`: many at once, at random, and a linear
    model of what each adds (ContextCite); else each part alone.
    """

    fitted: bool = False
    signed: bool = True
    class_specific: bool = True
    heads: tuple[HeadTask, ...] | None = ("causal",)
    no_post_ln = "explains answers of decoders, this model's layers are post-LN; use blank_out"

    def cost(self, options: Mapping[str, Any]) -> Cost:
        if not self.fitted:
            return Cost("occlusion", "one pass a unit", lambda sizes, n: n, runs=lambda sizes, n: n)
        count = options.get("ablations", ABLATIONS)
        return Cost("occlusion", "one pass an ablation", lambda sizes, n: 1 + count, runs=lambda sizes, n: 1 + count)

    def options(self) -> dict[str, Any]:
        fit = {"ablations": ABLATIONS, "alpha": 0.01, "seed": 0} if self.fitted else {}
        return {"units": "sentence", "span": "token", "replace": "delete", **fit}

    def ready(
        self, subject: Subject, prompt: Tokens, documents: Mapping[str, tuple[int, int]], options: Mapping[str, Any]
    ) -> None:
        self._parts(subject, prompt, documents, {**self.options(), **options})

    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """The row that answers, of texts whose every unit may go. Raises TargetError, Undefined, UnknownOption."""
        ask.need_answer(subject)
        if any(read.row != read.at or read.at + 1 != len(t) for read, t in zip(ask.reads, ask.texts, strict=True)):
            raise Undefined(f"{ask.name} explains what follows a text; leave readout= and position= out")
        if ask.options.get("span", "token") != "token":
            raise UnknownOption(f"span= is of the tokens of an answer, for {ask.name} in lens.trace; leave it out here")
        results = []
        for number, (tokens, read) in enumerate(zip(ask.texts, ask.reads, strict=True), 1):
            resolved = answer(subject.head, read, tuple(row_logits(subject, tokens, [read.at])))
            scores = self._scores(subject, text_of(tokens), len(tokens), [resolved], {}, ask.options, ask.batch_size)
            results.append(ask.result(tokens, scores[0], None, resolved, provenance(subject, tokens)))
            if ask.progress is not None:
                ask.progress(number, len(ask.texts))
        return results

    def traced(self, subject: Subject, options: Mapping[str, Any]) -> Tracing:
        return "together"

    def rows(self, subject: Subject, ask: Traced) -> Tensor:
        """Every answer token out of the same ablations; tokens of a span have its row."""
        return self._scores(
            subject, text_of(ask.tokens), ask.first, ask.answers, ask.documents, ask.options, ask.batch_size
        )

    def _scores(
        self,
        subject: Subject,
        tokens: Tokens,
        first: int,
        answers: Sequence[Answer],
        documents: Mapping[str, tuple[int, int]],
        options: Mapping[str, Any],
        batch_size: int,
    ) -> Tensor:
        """(answer token, source): a unit's number spread evenly over its tokens; 0 where none may go."""
        options = {**self.options(), **options}
        spans = answer_spans(self.name, options["span"], len(answers))
        units, filler, masks = self._parts(subject, beginning(tokens, first), documents, options)
        removed = [tuple(sorted(i for u in np.flatnonzero(~kept) for i in units[u].indices)) for kept in masks]
        differences = log_odds_without(subject, tokens, first, answers, [(), *removed], filler, batch_size)
        whole, without = differences[:1], differences[1:]
        there = ~np.isnan(without).any(1)
        if self.fitted and there.sum() < 2:
            raise Undefined(f"{self.name} found no two ablations that leave some of the prompt; pass more ablations=")
        scores = torch.zeros(len(answers), len(tokens), dtype=torch.float64, device="cpu")
        for span in spans:
            members = [t for t in span if answers[t].target.foil_index is not None] or list(span)
            values = together(without[:, members])
            if self.fitted:
                each = coefficients(masks[there], values[there], alpha=float(options["alpha"]), tokens=len(members))
            else:
                each = np.where(there, together(whole[:, members]) - values, 0.0)
            for unit, number in zip(units, each.tolist(), strict=True):
                scores[span.start : span.stop, list(unit.indices)] = number / len(unit.indices)
        return scores

    def _parts(
        self, subject: Subject, prompt: Tokens, documents: Mapping[str, tuple[int, int]], options: Mapping[str, Any]
    ) -> tuple[list[TraceUnit], Substitute | None, Masks]:
        """What may be taken out, what is put in its place, and which parts each ablation keeps."""
        filler = filler_id(subject, self.name, options["replace"])
        if not self.fitted:
            units = parts_of(self.name, prompt, options["units"], documents, 1)
            return units, filler, leave_one_out(len(units))
        lasso()
        if options["ablations"] < 2:
            raise UnknownOption(f"expected ablations= of 2 or more for {self.name}, got {options['ablations']}")
        units = parts_of(self.name, prompt, options["units"], documents, 2)
        return units, filler, random_masks(len(units), options["ablations"], options["seed"])
