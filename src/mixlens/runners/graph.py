"""Gradient methods on texts: those that read the same pass have it made once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor

from mixlens.attribute.gradients import TextGraph
from mixlens.attribute.kinds import Gradient
from mixlens.attribute.readout import Answer, answer
from mixlens.capture.run import layer_count
from mixlens.errors import TargetError, Undefined, UnknownOption
from mixlens.results import Attribution
from mixlens.runners.backward import differentiate
from mixlens.runners.request import Request, provenance, result


def attributions(lens: Any, asks: Sequence[Request]) -> list[list[Attribution]]:
    """Every method's Attributions of the texts, one forward and one backward pass a batch. Raises TargetError."""
    ask = asks[0]
    methods = [cast(Gradient, one.method) for one in asks]
    need_answer(lens, ask)
    layer = checked_layer(lens, ask.options.get("layer", 0))
    hide = hidden(ask) if ask.options.get("mask_special") else None
    of = methods[0].of
    # Hiding tokens makes another pass than the one that predicts: the prediction comes from the real one.
    fixed = None if hide is None else predictions(lens, ask)

    def resolve(i: int, logits: tuple[Tensor, ...]) -> Answer:
        return answer(lens.head, ask.reads[i], logits) if fixed is None else fixed[i]

    def use(i: int, graph: TextGraph, said: Answer, value: Tensor) -> list[Attribution]:
        out = []
        for one, method in zip(asks, methods, strict=True):
            own = {k: v for k, v in one.options.items() if k not in ("layer", "mask_special")}
            scores, layers = method.function(graph, **own)
            meta = {**provenance(lens, one.texts[i]), "of": said.chosen(of), "value": float(value)}
            out.append(result(one, one.texts[i], scores, layers, said, meta))
        return out

    found = differentiate(
        lens.model,
        lens.spec,
        ask.texts,
        ask.answers,
        resolve,
        use,
        keys=lens.head.keys,
        of=of,
        layer=layer,
        all_hidden=any(method.reads != "input" for method in methods),
        weights=methods[0].reads == "weights",
        hide=hide,
        pad=lens.pad,
        batch_size=min(one.batch_size for one in asks),
        progress=ask.progress,
    )
    return [[row[k] for row in found] for k in range(len(asks))]


def predictions(lens: Any, ask: Request) -> list[Answer]:
    """The answers of the plain passes."""
    ran = lens.through(ask.texts, None, batch_size=ask.batch_size, answers=ask.answers)
    return [answer(lens.head, read, one.logits) for read, one in zip(ask.reads, ran, strict=True)]


def hidden(ask: Request) -> list[tuple[bool, ...]]:
    """Which tokens of each text are special. Raises Undefined where none is known to be, or nothing else is."""
    for tokens in ask.texts:
        if len(set(tokens.special)) < 2:
            raise Undefined(
                f"mask_special=True needs texts with special tokens and others, got {list(tokens.pieces)!r:.60}; leave "
                "it out, or load the model with its tokenizer"
            )
    return [tokens.special for tokens in ask.texts]


def need_answer(lens: Any, ask: Request) -> None:
    """Raises TargetError where there is no answer to explain."""
    if not all(read.answered for read in ask.reads):
        raise TargetError(
            f"{ask.name} explains a model's answer, got {lens.head.in_words}, which gives none here; load it with "
            "its classification or language-model head, or pass mixlens.Target(position=...)"
        )


def checked_layer(lens: Any, layer: Any) -> int:
    """The layer whose input is the variable, negatives counted from the end. Raises UnknownOption."""
    count = layer_count(lens.model, lens.spec)
    if isinstance(layer, bool) or not isinstance(layer, int) or not -count <= layer < count:
        raise UnknownOption(f"expected layer=-{count} to {count - 1}, got {layer!r}")
    return layer % count
