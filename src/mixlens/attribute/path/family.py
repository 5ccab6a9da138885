"""Methods between a baseline and the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mixlens.answer import Answer, answer, outputs_read
from mixlens.architectures import Spec
from mixlens.attribute.gradient.family import checked_layer, graph_bytes
from mixlens.attribute.method import Deep, Method
from mixlens.attribute.path.baselines import baseline, baseline_text, default_baseline, layer_input
from mixlens.attribute.path.integrated import integrated_gradients
from mixlens.attribute.path.rescale import rescaled
from mixlens.capture.attention import NAME
from mixlens.capture.graph import graph
from mixlens.capture.shadow import shadow
from mixlens.cost import Cost
from mixlens.errors import NotConverged, UnknownOption
from mixlens.precision import is_half
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.finite import not_finite
from mixlens.subject.outputs import Key, part_logits
from mixlens.subject.provenance import provenance
from mixlens.target import Quantity

if TYPE_CHECKING:
    from typing import Literal

    from typing_extensions import Self

    from mixlens.attribute.request import Request

LEAST = 1e-4  # what integrated gradients may be off, however little the outputs differ

Scored = tuple[list[Tensor], list[float]]  # of each text of a batch: scores (token,), and what the outputs differ by

PAIR = Cost(
    "pair",
    "two passes forward and one backward over text and baseline together",
    lambda sizes, n: 6,
    lambda sizes, n: 2 * graph_bytes(sizes, n),
)


@dataclass(frozen=True)
class Path(Method):
    """A method between a baseline and the input. `steps`: points on the path; None: the two ends alone."""

    steps: int | None = None
    of: Quantity = "logit"
    signed: bool = True
    class_specific: bool = True

    def cost(self, options: Mapping[str, Any]) -> Cost:
        if self.steps is None:
            return PAIR
        steps = max(1, options.get("steps", self.steps))  # none is refused by the method
        return Cost(
            "path",
            f"a pass forward and one backward a step ({self.steps})",
            lambda sizes, n: 3 * steps,
            graph_bytes,
            runs=lambda sizes, n: steps,
            fills=True,
            slow=True,
        )

    def layers(self, deep: Deep) -> Literal["again"] | None:
        return "again" if deep == "each" else None

    def options(self) -> dict[str, Any]:
        path = {} if self.steps is None else {"steps": self.steps, "rule": "gausslegendre", "tolerance": 0.01}
        return {**path, "baseline": None, "layer": 0, "absolute": False}

    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """A batch of texts and baselines at a time. Raises TargetError, Undefined, UnknownOption, NotConverged."""
        ask.need_answer(subject)
        layer = checked_layer(subject, ask.options.get("layer", 0))
        choice = ask.options.get("baseline")
        kind = default_baseline(subject) if choice is None else choice
        others = [baseline_text(subject, tokens, kind) for tokens in ask.texts]
        twin = shadow(subject.model, NAME)
        if getattr(twin.config, "pad_token_id", None) is None:
            twin.config.pad_token_id = -1  # some heads refuse batches without one; all rows of a batch are as long
        results: dict[int, Attribution] = {}
        size = _texts_at_once(subject, ask) if self.steps else ask.batch_size
        for batch in subject.batches(ask.texts, size):
            members, inputs = batch.members, batch.inputs
            at = [ask.answers[i] for i in members]
            lengths = [len(ask.texts[i]) for i in members]
            x, output, below = layer_input(twin, subject.spec, inputs, layer, at=at)
            logits = part_logits(output, subject.head.keys, at, lengths)
            assert logits is not None
            answers = [answer(subject.head, ask.reads[i], z) for i, z in zip(members, logits, strict=True)]
            base = baseline(subject, twin, inputs, x, [others[i] for i in members], kind, layer)
            points = _Points(twin, subject.spec, inputs, layer, at, lengths, answers, subject.head.keys, self.of, below)
            scores, differences = _integrated(points, x, base, ask) if self.steps else _rescaled(points, x, base)
            for b, i in enumerate(members):
                if not bool(torch.isfinite(scores[b]).all()):
                    raise not_finite(subject.model, "a gradient")
                delta = float(scores[b].sum()) - differences[b]
                if self.steps:
                    require_converged(subject, ask, delta, differences[b])
                meta = {
                    **provenance(subject, ask.texts[i]),
                    "of": answers[b].chosen(self.of),
                    "baseline": kind if isinstance(kind, str) else "given",
                    "delta": delta,
                    "difference": differences[b],
                    **({} if self.steps else {"rules": "rescale for elementwise activations, else the gradient"}),
                }
                signed = scores[b].abs() if ask.options.get("absolute") else scores[b]
                results[i] = ask.result(ask.texts[i], signed, None, answers[b], meta)
            if ask.progress is not None:
                ask.progress(batch.number, batch.count)
        return [results[i] for i in range(len(ask.texts))]


class _Points:
    """The explained numbers of a batch where the input of a layer is what we say."""

    def __init__(
        self,
        model: Any,
        spec: Spec,
        inputs: Mapping[str, Tensor],
        layer: int,
        at: list[int],
        lengths: list[int],
        answers: list[Answer],
        keys: Sequence[Key],
        of: Quantity,
        below: Sequence[type],
    ) -> None:
        self.model, self.spec, self.inputs, self.layer = model, spec, inputs, layer
        self.at, self.lengths, self.answers, self.keys, self.of, self.below = at, lengths, answers, keys, of, below
        self.tokens = outputs_read(answers, of) if isinstance(model.get_output_embeddings(), nn.Linear) else None
        if self.tokens is not None:  # a vocabulary's other logits cost as much as a layer or more
            self.answers = [answer.among(self.tokens) for answer in answers]

    def values(self, leaf: Tensor, model: Any = None) -> Tensor:
        """(row,): the numbers of `leaf` (row, token, dim), whose rows are the batch's texts in turn, over and over."""
        times = len(leaf) // len(self.at)
        inputs = {name: t.repeat(times, *[1] * (t.ndim - 1)) for name, t in self.inputs.items()}
        here = leaf.to(next(self.model.parameters()).dtype)
        at = self.at * times
        settings: dict[str, Any] = {
            "layer": self.layer,
            "at": at,
            "leaf": here,
            "skip": self.below,
            "tokens": self.tokens,
        }
        output = graph(model or self.model, self.spec, inputs, **settings).output
        logits = part_logits(output, self.keys, at, self.lengths * times)
        assert logits is not None
        return torch.stack([answer.value(z, self.of) for answer, z in zip(self.answers * times, logits, strict=True)])


def _integrated(points: _Points, x: Tensor, base: Tensor, ask: Request[Path]) -> Scored:
    options = {k: v for k, v in ask.options.items() if k in ("steps", "rule")}
    scores = integrated_gradients(points.values, x, base, at_once=ask.size_of(x.shape[1]), **options).detach().cpu()
    with torch.no_grad():
        here, there = points.values(torch.cat([x, base])).chunk(2)
    return [scores[b, :n] for b, n in enumerate(points.lengths)], (here - there).tolist()


def _texts_at_once(subject: Subject, ask: Request[Path]) -> int:
    """On a CPU the points of one text fill a pass; other devices are idle unless many texts are under way."""
    return 1 if subject.device.type == "cpu" else ask.batch_size


def _rescaled(points: _Points, x: Tensor, base: Tensor) -> Scored:
    leaf = torch.cat([x, base]).requires_grad_()
    with torch.enable_grad(), rescaled(points.model, len(x)) as twin:
        values = points.values(leaf, twin)
    (multipliers,) = torch.autograd.grad(values[: len(x)].sum(), leaf)
    scores = ((x - base) * multipliers[: len(x)]).sum(-1).cpu()
    differences = (values[: len(x)] - values[len(x) :]).detach().tolist()
    return [scores[b, :n] for b, n in enumerate(points.lengths)], differences


def require_converged(subject: Subject, ask: Request[Path], delta: float, difference: float) -> None:
    """Raises NotConverged where the scores do not sum to the difference of the outputs, within `tolerance` of it."""
    share, steps = ask.options.get("tolerance", 0.01), ask.options.get("steps", 100)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not share >= 0:
        raise UnknownOption(f"expected tolerance= a share of the difference, 0 or more, got {share!r}")
    allowed = max(share * abs(difference), LEAST)
    if abs(delta) <= allowed:
        return
    half = is_half(subject.model.dtype)
    remedy = "load the model in float32" if half else f"pass steps={4 * steps}, or a baseline nearer to the text"
    raise NotConverged(
        f"expected the scores of {ask.name} to sum to the difference of the outputs, {difference:.4g}, within "
        f"{allowed:.1g}; they are off by {delta:.2g} after {steps} steps of rule="
        f"{ask.options.get('rule', 'gausslegendre')!r}; {remedy} (tolerance=float('inf') takes them as they are)"
    )
