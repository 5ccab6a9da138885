"""Frozen gradients: gradient times input, where parts of the model are held fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

import torch
from torch import Tensor, nn

from mixlens.answer import Answer, answer
from mixlens.attribute.frozen.engine import RuledPass, covectors, gradients, products, ruled_pass
from mixlens.attribute.frozen.rules import Rules, norms, prepare, ruled
from mixlens.attribute.gradient.backward import differentiate
from mixlens.attribute.gradient.family import BACKWARD, checked_layer, runs_again
from mixlens.attribute.gradient.functions import TextGraph
from mixlens.attribute.method import Deep, Method, Tracing
from mixlens.attribute.traced import Traced
from mixlens.budget import sizes_of
from mixlens.capture.run import run
from mixlens.cost import Cost
from mixlens.errors import Undefined, UnknownOption
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.finite import not_finite
from mixlens.subject.probe import probe_inputs
from mixlens.subject.provenance import provenance
from mixlens.target import Quantity

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.architectures.spec import Spec
    from mixlens.attribute.request import Request

REDUCE = ("sum", "l2")
PLAIN_NORMS = (nn.LayerNorm, nn.GroupNorm)  # the second in front of the layers
_TRIED: WeakSet[Any] = WeakSet()  # models whose norms have rules


# a softmax of another temperature: no fused kernel has its gradient
TEMPERED = replace(BACKWARD, passes=lambda sizes, n: BACKWARD.passes(sizes, n) + 1)


@dataclass(frozen=True)
class Frozen(Method):
    """Gradient times input by `rules`. Beyond the last layer the head, whatever it is, keeps its own gradient."""

    rules: Rules = Rules()  # noqa: RUF009 (frozen)
    of: Quantity = "log_odds"  # of a logit, what speaks for every likely answer is in it too: its source is found later
    signed: bool = True
    class_specific: bool = True

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return BACKWARD if self.rules.softmax in (None, 1.0) else TEMPERED

    def for_spec(self, spec: Spec) -> Method:
        super().for_spec(spec)
        if len(spec.attends) > 1:
            raise Undefined(
                f"{self.name} has rules for layers of one attention, got {len(spec.attends)}; use saliency or "
                "grad_x_input"
            )
        if spec.networks and (self.rules.activation, self.rules.gate) != ("exact", "exact"):
            raise Undefined(
                f"{self.name} has rules for a network's gate and activation, '{spec.networks[0].module}' is known as a "
                "whole alone (a mixture of experts, or another form than down(act(up))); use saliency or grad_x_input"
            )
        return self

    def tried(self, subject: Subject) -> None:
        """Raises Undefined for a model with a norm that has no rule: the first pass over one of a rare kind says so."""
        if self.rules.norm == "exact" or subject.model in _TRIED:
            return
        if subject.spec.norm != "layer" or any(type(norm) not in PLAIN_NORMS for norm in norms(subject.model)):
            inputs, change = probe_inputs(subject.model, subject.spec), partial(prepare, self.rules, subject.spec)
            with torch.no_grad():
                run(subject.model, subject.spec, inputs, lambda seen: None, prepare=change)
        _TRIED.add(subject.model)

    def options(self) -> dict[str, Any]:
        return {"reduce": "sum", "layer": 0}

    def layers(self, deep: Deep) -> Literal["again"] | None:
        return "again" if deep == "each" else None

    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """A batch of texts at a time. Raises TargetError, Undefined, UnknownOption."""
        if not _reads_vocabulary(subject):
            return self._through_the_head(subject, ask)
        ask.need_answer(subject)
        results: dict[int, Attribution] = {}
        for batch in subject.batches(ask.texts, ask.batch_size):
            members = batch.members
            at = [ask.answers[i] for i in members]
            passed = self.see(subject, batch.inputs, range(len(members)), at, ask.options)
            answers = [
                answer(subject.head, ask.reads[i], (row,)) for i, row in zip(members, passed.logits, strict=True)
            ]
            values, covector = covectors(subject.unembedding, passed.logits, answers, self.of, self.rules)
            scores = self.score(subject, passed, covector, at, ask.options, last=True)
            for b, i in enumerate(members):
                tokens = ask.texts[i]
                meta = {**provenance(subject, tokens), "of": answers[b].chosen(self.of), "value": float(values[b])}
                row = self.finite(subject, scores[b, : len(tokens)])
                results[i] = ask.result(tokens, row, None, answers[b], meta)
            if ask.progress is not None:
                ask.progress(batch.number, batch.count)
        return [results[i] for i in range(len(ask.texts))]

    def _through_the_head(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """Of an answer that is no row of a vocabulary's map behind the last norm."""
        ask.need_answer(subject)
        reduce, layer = self.settings(subject, ask.options)

        def use(i: int, graph: TextGraph, resolved: Answer, value: Tensor) -> Attribution:
            scores = products(graph.hidden[0], graph.gradients[0], reduce)
            meta = {**provenance(subject, ask.texts[i]), "of": resolved.chosen(self.of), "value": float(value)}
            return ask.result(ask.texts[i], scores, None, resolved, meta)

        return differentiate(
            subject,
            ask.texts,
            ask.answers,
            lambda i, logits: answer(subject.head, ask.reads[i], logits),
            use,
            of=self.of,
            layer=layer,
            recompute=runs_again(sizes_of(subject), max(map(len, ask.texts))),
            call=partial(ruled, self.rules),
            prepare=partial(prepare, self.rules, subject.spec),
            batch_size=ask.batch_size,
            progress=ask.progress,
        )

    def traced(self, subject: Subject, options: Mapping[str, Any]) -> Tracing:
        return "backward" if _reads_vocabulary(subject) else "alone"

    def rows(self, subject: Subject, ask: Traced) -> Tensor | None:
        """One forward pass, and one backward pass an answer token over its graph."""
        if self.traced(subject, ask.options) == "alone":
            return None
        (batch,) = subject.batches([ask.tokens], 1)
        count = len(ask.rows)
        passed = self.see(subject, batch.inputs, [0] * count, ask.rows, ask.options)
        ask.passed(passed.normed.detach())
        _, covector = covectors(subject.unembedding, ask.logits, ask.answers, self.of, self.rules)
        scores = []
        for t, row in enumerate(ask.rows):
            only = torch.zeros_like(covector)
            only[t] = covector[t]
            scores.append(self.score(subject, passed, only, [row], ask.options, last=t + 1 == count)[0])
            if ask.progress is not None:
                ask.progress(t + 1, count)
        return self.finite(subject, torch.stack(scores))

    def finite(self, subject: Subject, scores: Tensor) -> Tensor:
        """Themselves. Raises NotFinite."""
        if not bool(torch.isfinite(scores).all()):
            raise not_finite(subject.model, "a gradient")
        return scores

    def settings(self, subject: Subject, options: Mapping[str, Any]) -> tuple[str, int]:
        """How products are reduced, and the layer whose input is the variable. Raises UnknownOption."""
        reduce = options.get("reduce", "sum")
        if reduce not in REDUCE:
            raise UnknownOption(f"expected reduce='sum' or 'l2' for {self.name}, got {reduce!r}")
        return reduce, checked_layer(subject, options.get("layer", 0))

    def see(
        self,
        subject: Subject,
        inputs: Mapping[str, Tensor],
        texts: Sequence[int],
        rows: Sequence[int],
        options: Mapping[str, Any],
    ) -> RuledPass:
        """The pass that the scores are made of."""
        _, layer = self.settings(subject, options)
        again = runs_again(sizes_of(subject), inputs["input_ids"].shape[1])
        return ruled_pass(subject, inputs, texts, rows, self.rules, layer=layer, recompute=again)

    def score(
        self,
        subject: Subject,
        passed: RuledPass,
        covector: Tensor,
        rows: Sequence[int],
        options: Mapping[str, Any],
        *,
        last: bool,
    ) -> Tensor:
        """(text, token): the scores of the number whose gradient at the rows is `covector`. `rows`: of each text."""
        (gradient,) = gradients(passed, covector, [passed.leaf], last=last)
        return products(passed.leaf, gradient, options.get("reduce", "sum")).cpu()


def _reads_vocabulary(subject: Subject) -> bool:
    """Whether answers are logits of a vocabulary, of the last layer's rows by a norm and a matrix."""
    if subject.head.task != "causal":
        return False
    with suppress(Undefined):
        return subject.unembedding is not None
    return False
