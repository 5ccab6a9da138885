"""Baselines: what a text is compared with, as tokens or as a layer's input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import TEXT, Spec
from mixlens.capture.batch import collate
from mixlens.capture.fed import fillers, listed
from mixlens.capture.run import Reading, Watch, run
from mixlens.capture.signal import Signal
from mixlens.capture.stream import Stream
from mixlens.capture.text import text_of
from mixlens.errors import Undefined, UnknownOption
from mixlens.precision import widened
from mixlens.subject import Subject


def layer_input(
    model: Any,
    spec: Spec,
    inputs: Mapping[str, Tensor],
    layer: int,
    *,
    at: list[int] | None = None,
    start: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Any, Sequence[type]]:
    """A layer's input (batch, token, dim) in at least float32, and the model's output (with its head if `at`).

    `start` gives another input of layer 0. Third, the forms of the layers below, where one can do without them.
    """
    kept: list[Tensor] = []
    forms: list[type | None] = []

    def on_input(index: int, x: Tensor) -> Tensor | None:
        new = None if start is None or index else start(x)
        if index == layer:
            kept.append(x if new is None else new)
        return new

    with torch.no_grad():
        watch = Watch(lambda seen: forms.append(seen.form), on_input)
        output = run(model, spec, inputs, watch, Reading(at is not None, at))
    (x,) = kept
    below = [form for form in forms[:layer] if form is not None]
    return widened(x), output, below if len(below) == layer else ()


def default_baseline(subject: Subject) -> str:
    """[CLS] [MASK] ... [SEP] where there is a mask token, else zeros; of a picture its own mean everywhere, of a
    sound silence.
    """
    if fillers(subject.head.fed):
        return fillers(subject.head.fed)[0]
    return "zeros" if subject.head.mask is None else "mask"


def baseline_text(subject: Subject, tokens: Stream, kind: Any) -> Stream:
    """The text that is the baseline: all but special tokens replaced. Raises Undefined, UnknownOption."""
    if isinstance(kind, Tensor) or kind == "zeros":
        return tokens
    if isinstance(tokens, Signal):
        if isinstance(kind, str) and kind in tokens.fillers:
            return tokens.filled(kind)
        raise UnknownOption(
            f"expected baseline='zeros' (of embeddings), {listed(tokens.fillers)} (of the input), or a tensor, got "
            f"{kind!r}"
        )
    tokens = text_of(tokens)
    if kind not in ("mask", "pad"):
        raise UnknownOption(f"expected baseline='mask', 'zeros', 'pad' or a tensor, got {kind!r}")
    filler = subject.head.mask if kind == "mask" else getattr(subject.model.config, "pad_token_id", None)
    if filler is None:
        raise Undefined(f"baseline={kind!r} needs a {kind} token, this model has none; use baseline='zeros'")
    ids = tuple(i if special else filler for i, special in zip(tokens.ids, tokens.special, strict=True))
    return replace(tokens, ids=ids)


def baseline(
    subject: Subject, model: Any, inputs: Mapping[str, Tensor], x: Tensor, texts: list[Stream], kind: Any, layer: int
) -> Tensor:
    """h^layer of the baselines (batch, token, dim); a tensor stands for itself."""
    if isinstance(kind, Tensor):
        return _given(kind, x, [len(t) for t in texts])
    if kind == "zeros":
        return layer_input(model, subject.spec, inputs, layer, start=torch.zeros_like)[0]
    other = collate(texts, subject.pad, x.device, model.dtype, frozenset([TEXT]))
    return layer_input(model, subject.spec, {**inputs, **other}, layer)[0]


def _given(kind: Tensor, x: Tensor, lengths: list[int]) -> Tensor:
    n, dim = max(lengths), x.shape[-1]
    fits = kind.shape == (dim,) or (kind.shape == (n, dim) and set(lengths) == {n})
    numbers = kind.is_floating_point() and kind.layout is torch.strided and not kind.is_meta
    if not fits or not numbers or not bool(torch.isfinite(kind).all()):
        sizes = ", ".join(map(str, sorted(set(lengths))))
        raise UnknownOption(
            f"expected a dense baseline of finite numbers with the shape ({dim},) or (token, {dim}), got "
            f"{tuple(kind.shape)} of {kind.dtype} ({kind.layout}, {kind.device}) for texts of {sizes} tokens"
        )
    return kind.detach().to(x).expand_as(x).clone()
