"""Relevance methods: one pass inside autograd that keeps every linear map's input and output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from mixlens.answer import answer
from mixlens.architectures import Spec, submodule
from mixlens.attribute.method import Method, Scores
from mixlens.attribute.relevance.rules import LayerParts, Linear, TextRelevance, propagate, trans_att
from mixlens.capture.graph import graph
from mixlens.capture.run import LayerPass
from mixlens.cost import Cost, Sizes
from mixlens.errors import ModelError, Undefined
from mixlens.options import options_of
from mixlens.precision import widened
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.outputs import part_logits
from mixlens.subject.provenance import provenance

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.attribute.request import Request

# Share of the relevance that may be lost before the result is refused; seen on right models: 8e-8 and 6e-4.
LOST = {torch.float64: 1e-5, torch.float32: 5e-3}
LOST_ELSE = 0.05  # half precision


def _bytes(sizes: Sizes, n: int) -> float:
    states = n * sizes.item * (30 * sizes.dim + 6 * sizes.hidden)
    return sizes.layers * (states + 8 * sizes.heads * sizes.square_bytes(n))


ALL = Cost("relevance", "one pass forward, one backward, and relevance through every layer", lambda sizes, n: 6, _bytes)
LAST = Cost(
    "last relevance",
    "one pass forward, and relevance down to the last layer's attention",
    lambda sizes, n: 1.5,
    _bytes,
)


@dataclass(frozen=True)
class Relevance(Method):
    """A pure function of attention, its relevance and (but for "last") its gradients (Chefer 2021).

    `reads`: in every layer ("all"), or the relevance of the last layer's alone, so that it goes no further ("last").
    """

    function: Callable[..., Scores] = trans_att
    reads: Literal["all", "last"] = "all"
    class_specific: bool = True

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return ALL if self.reads == "all" else LAST

    def reads_row(self, options: Mapping[str, Any]) -> bool:
        return True

    def options(self) -> dict[str, Any]:
        return options_of(self.function)

    def for_spec(self, spec: Spec) -> Method:
        super().for_spec(spec)
        if spec.order != "post" or spec.attend.qkv is None or not spec.feeds:
            lacks = f"{spec.order}-LN"
            if spec.order == "post":
                lacks = f"its spec names no maps to {'query, key and value' if spec.feeds else 'hidden activations'}"
            raise Undefined(
                f"{self.name} has relevance rules for post-LN encoders, this model's layers are not such ({lacks}); "
                "use grad_sam or attcat"
            )
        return self

    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """One text at a time. Raises Undefined where there is no rule."""
        refuse_without_rules(subject, ask.name)
        results: dict[int, Attribution] = {}
        for batch in subject.batches(ask.texts, 1):  # the rules for sums take whole tensors
            (i,) = batch.members
            results[i] = _attribution(subject, ask, i, batch.inputs)
            if ask.progress is not None:
                ask.progress(batch.number, batch.count)
        return [results[i] for i in range(len(ask.texts))]


def _attribution(subject: Subject, ask: Request[Relevance], i: int, inputs: dict[str, Tensor]) -> Attribution:
    ran: dict[int, Linear] = {}
    layers: list[LayerParts] = []
    tokens, method = ask.texts[i], ask.method

    def on_linear(module: nn.Linear, x: Tensor, y: Tensor) -> None:
        ran[id(module)] = _linear(module, x, y)

    def also(seen: LayerPass) -> None:
        if method.reads == "last":
            layers.clear()
        layers.append(_parts(subject.spec, seen, ran))
        ran.clear()

    at = [ask.answers[i]]
    g = graph(subject.model, subject.spec, inputs, weights=True, at=at, also=also, on_linear=on_linear)
    texts = part_logits(g.output, subject.head.keys, at, [len(tokens)])
    logits = None if texts is None else texts[0]
    resolved = answer(subject.head, ask.reads[i], None if logits is None else tuple(z.detach() for z in logits))
    if resolved.target.foil_index is not None or (resolved.target.of or "logit") != "logit":
        raise Undefined(f"{ask.name} propagates one logit; leave out foil= and of=, or use attcat or grad_sam")
    with torch.enable_grad():
        assert logits is not None
        value = resolved.value(logits, "logit")
        gradients = torch.autograd.grad(value, g.weights) if method.reads == "all" else ()
    with torch.no_grad():
        head = list(ran.values())
        weights = [widened(a[0].detach()) for a in g.weights[-len(layers) :]]
        kept, relevance = propagate(resolved.indices[0], head, layers, weights)
        if not abs(kept - 1) <= LOST.get(subject.model.dtype, LOST_ELSE):
            raise ModelError(
                f"expected the relevance to sum to 1 on its way down for {ask.name}, got {kept:.3f}: the model "
                "computes something that the rules do not know, or precision is lost; load it in float64, or use "
                "grad_sam"
            )
        text = TextRelevance(
            weights=weights,
            weight_gradients=[widened(d[0]) for d in gradients],
            relevance=relevance,
            rows=resolved.rows,
        )
        scores, per_layer = method.function(text, **ask.options)
    meta = {**provenance(subject, tokens), "of": "logit", "value": float(value.detach()), "conserved": kept}
    return ask.result(tokens, scores.cpu(), None if per_layer is None else per_layer.cpu(), resolved, meta)


def refuse_without_rules(subject: Subject, name: str) -> None:
    """Raises Undefined, naming the head that has no rule (`Relevance.for_spec` refuses architectures)."""
    if subject.head.task != "sequence" or subject.head.pooled != "first":
        raise Undefined(
            f"{name} has relevance rules for classifiers that read the first token, got {subject.head.in_words}; "
            "use grad_sam or attcat"
        )


def _linear(module: nn.Linear, x: Tensor, y: Tensor) -> Linear:
    x, y = (t.detach().reshape(-1, t.shape[-1]) for t in (x, y))  # one text: (token, dim)
    bias = None if module.bias is None else widened(module.bias.detach())
    return Linear(widened(module.weight.detach()), bias, widened(x), widened(y))


def _parts(spec: Spec, seen: LayerPass, ran: dict[int, Linear]) -> LayerParts:
    assert spec.attend.qkv is not None and spec.attend.norm is not None

    def of(path: str) -> Linear:
        record = ran.get(id(submodule(seen.module, path)))
        if record is None:
            raise Undefined(f"expected a plain linear map at '{path}' for relevance rules; merge adapters first")
        return record

    query, key, value = (of(path) for path in spec.attend.qkv)
    return LayerParts(
        x=widened(seen.x[0].detach()),
        query=query,
        key=key,
        value=value,
        out=of(spec.attend.out),
        middle=widened(seen.norms[spec.attend.norm][1][0].detach()),
        up=of(spec.feed.up[0]),
        down=of(spec.feed.down),
    )
