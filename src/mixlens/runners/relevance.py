"""Relevance methods on texts: one pass inside autograd that keeps every linear map's input and output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mixlens.architectures import Spec, submodule
from mixlens.attribute.kinds import Relevance
from mixlens.attribute.outputs import part_logits
from mixlens.attribute.readout import answer
from mixlens.attribute.relevance import LayerParts, Linear, TextRelevance, propagate
from mixlens.capture.graph import graph
from mixlens.capture.run import LayerPass
from mixlens.errors import ModelError, Undefined
from mixlens.results import Attribution
from mixlens.runners.passes import groups
from mixlens.runners.request import Request, provenance, result

# Share of the relevance that may be lost before the result is refused; seen on right models: 8e-8 and 6e-4.
LOST = {torch.float64: 1e-5, torch.float32: 5e-3}
LOST_ELSE = 0.05  # half precision


def attributions(lens: Any, ask: Request) -> list[Attribution]:
    """The method's Attribution of every text, one text at a time. Raises Undefined where there is no rule."""
    method = ask.method
    assert isinstance(method, Relevance)
    refuse_without_rules(lens, ask.name)
    out: list[Any] = [None] * len(ask.texts)
    # The rules for sums take whole tensors, so texts are not batched.
    for done, total, (i,), inputs in groups(lens.model, ask.texts, 1, lens.pad, head=True):
        out[i] = _one(lens, ask, method, i, inputs)
        if ask.progress is not None:
            ask.progress(done, total)
    return out


def _one(lens: Any, ask: Request, method: Relevance, i: int, inputs: dict[str, Tensor]) -> Attribution:
    ran: dict[int, Linear] = {}
    layers: list[LayerParts] = []

    def on_linear(module: nn.Linear, x: Tensor, y: Tensor) -> None:
        ran[id(module)] = _linear(module, x, y)

    def also(seen: LayerPass) -> None:
        if method.reads == "last":
            layers.clear()
        layers.append(_parts(lens.spec, seen, ran))
        ran.clear()

    g = graph(lens.model, lens.spec, inputs, weights=True, at=[ask.answers[i]], also=also, on_linear=on_linear)
    found = part_logits(g.output, lens.head.keys, [ask.answers[i]], [len(ask.texts[i])])
    logits = None if found is None else found[0]
    said = answer(lens.head, ask.reads[i], None if logits is None else tuple(z.detach() for z in logits))
    if said.target.foil_index is not None or (said.target.of or "logit") != "logit":
        raise Undefined(f"{ask.name} propagates one logit; leave out foil= and of=, or use attcat or grad_sam")
    with torch.enable_grad():
        assert logits is not None
        value = said.value(logits, "logit")
        gradients = torch.autograd.grad(value, g.weights) if method.reads == "all" else ()
    with torch.no_grad():
        head = list(ran.values())
        weights = [_wide(a[0].detach()) for a in g.weights[-len(layers) :]]
        kept, relevance = propagate(said.indices[0], head, layers, weights)
        if not abs(kept - 1) <= LOST.get(lens.model.dtype, LOST_ELSE):
            raise ModelError(
                f"expected the relevance to sum to 1 on its way down for {ask.name}, got {kept:.3f}: the model "
                "computes something that the rules do not know, or precision is lost; load it in float64, or use "
                "grad_sam"
            )
        text = TextRelevance(
            weights=weights,
            weight_gradients=[_wide(d[0]) for d in gradients],
            relevance=relevance,
            rows=said.rows,
        )
        scores, per_layer = method.function(text, **ask.options)
    meta = {**provenance(lens, ask.texts[i]), "of": "logit", "value": float(value.detach()), "conserved": kept}
    cpu = None if per_layer is None else per_layer.cpu()
    return result(ask, ask.texts[i], scores.cpu(), cpu, said, meta)


def refuse_without_rules(lens: Any, name: str) -> None:
    """Raises Undefined, naming the head that has no rule (`Relevance.for_spec` refuses architectures)."""
    if lens.head.task != "sequence" or lens.head.pooled != "first":
        raise Undefined(
            f"{name} has relevance rules for classifiers that read the first token, got {lens.head.in_words}; "
            "use grad_sam or attcat"
        )


def _linear(module: nn.Linear, x: Tensor, y: Tensor) -> Linear:
    x, y = (t.detach().reshape(-1, t.shape[-1]) for t in (x, y))  # one text: (token, dim)
    bias = None if module.bias is None else _wide(module.bias.detach())
    return Linear(_wide(module.weight.detach()), bias, _wide(x), _wide(y))


def _parts(spec: Spec, seen: LayerPass, ran: dict[int, Linear]) -> LayerParts:
    assert spec.attend.qkv is not None and spec.attend.norm is not None

    def of(path: str) -> Linear:
        found = ran.get(id(submodule(seen.module, path)))
        if found is None:
            raise Undefined(f"expected a plain linear map at '{path}' for relevance rules; merge adapters first")
        return found

    query, key, value = (of(path) for path in spec.attend.qkv)
    return LayerParts(
        x=_wide(seen.x[0].detach()),
        query=query,
        key=key,
        value=value,
        out=of(spec.attend.out),
        middle=_wide(seen.norms[spec.attend.norm][1][0].detach()),
        up=of(spec.feed.up[0]),
        down=of(spec.feed.down),
    )


def _wide(t: Tensor) -> Tensor:
    return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t
