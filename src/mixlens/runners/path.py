"""Methods between a baseline and the input, on texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.attribute.kinds import Path
from mixlens.attribute.outputs import Key, part_logits
from mixlens.attribute.paths import integrated_gradients, rescaled
from mixlens.attribute.readout import Answer, answer, outputs_read
from mixlens.capture.attention import NAME
from mixlens.capture.graph import graph
from mixlens.capture.offload import device_of
from mixlens.capture.run import run
from mixlens.capture.shadow import shadow
from mixlens.capture.text import Tokens
from mixlens.errors import NotConverged, Undefined, UnknownOption
from mixlens.results import Attribution
from mixlens.runners.graph import checked_layer, need_answer
from mixlens.runners.passes import groups
from mixlens.runners.request import Request, provenance, result
from mixlens.selfcheck import not_finite

LEAST = 1e-4  # what integrated gradients may be off, however little the outputs differ

Ways = tuple[list[Tensor], list[float]]  # of each text of a batch: scores (token,), and what the outputs differ by


def attributions(lens: Any, ask: Request) -> list[Attribution]:
    """The method's Attribution of every text. Raises TargetError, Undefined, UnknownOption, NotConverged."""
    method = ask.method
    assert isinstance(method, Path)
    need_answer(lens, ask)
    layer = checked_layer(lens, ask.options.get("layer", 0))
    asked = ask.options.get("baseline")
    kind = default_baseline(lens) if asked is None else asked
    others = [baseline_text(lens, tokens, kind) for tokens in ask.texts]
    twin = shadow(lens.model, NAME)
    if getattr(twin.config, "pad_token_id", None) is None:
        twin.config.pad_token_id = -1  # some heads refuse batches without one; all rows of a batch here are as long
    out: list[Any] = [None] * len(ask.texts)
    size = _texts_at_once(lens, ask) if method.steps else ask.batch_size
    for done, total, members, inputs in groups(lens.model, ask.texts, size, lens.pad, head=True):
        at = [ask.answers[i] for i in members]
        lengths = [len(ask.texts[i]) for i in members]
        x, output, below = layer_input(twin, lens.spec, inputs, layer, at=at)
        logits = part_logits(output, lens.head.keys, at, lengths)
        assert logits is not None
        said = [answer(lens.head, ask.reads[i], z) for i, z in zip(members, logits, strict=True)]
        base = _baseline(lens, twin, inputs, x, [others[i] for i in members], kind, layer)
        points = _Points(twin, lens.spec, inputs, layer, at, lengths, said, lens.head.keys, method.of, below)
        scores, differences = _integrated(points, x, base, ask) if method.steps else _rescaled(points, x, base)
        for b, i in enumerate(members):
            if not bool(torch.isfinite(scores[b]).all()):
                raise not_finite(lens.model, "a gradient")
            delta = float(scores[b].sum()) - differences[b]
            if method.steps:
                require_converged(lens, ask, delta, differences[b])
            meta = {
                **provenance(lens, ask.texts[i]),
                "of": said[b].chosen(method.of),
                "baseline": kind if isinstance(kind, str) else "given",
                "delta": delta,
                "difference": differences[b],
                **({} if method.steps else {"rules": "rescale for elementwise activations, else the gradient"}),
            }
            found = scores[b].abs() if ask.options.get("absolute") else scores[b]
            out[i] = result(ask, ask.texts[i], found, None, said[b], meta)
        if ask.progress is not None:
            ask.progress(done, total)
    return out


class _Points:
    """The explained numbers of a batch where the input of a layer is what we say."""

    def __init__(
        self,
        model: Any,
        spec: Any,
        inputs: Mapping[str, Tensor],
        layer: int,
        at: list[int],
        lengths: list[int],
        said: list[Answer],
        keys: Sequence[Key],
        of: Any,
        below: Sequence[type],
    ) -> None:
        self.model, self.spec, self.inputs, self.layer = model, spec, inputs, layer
        self.at, self.lengths, self.said, self.keys, self.of, self.below = at, lengths, said, keys, of, below
        self.tokens = outputs_read(said, of) if isinstance(model.get_output_embeddings(), nn.Linear) else None
        if self.tokens is not None:  # a vocabulary's other logits cost as much as a layer or more
            self.said = [one.among(self.tokens) for one in said]

    def values(self, leaf: Tensor, model: Any = None) -> Tensor:
        """(row,): the numbers of `leaf` (row, token, dim), whose rows are the batch's texts in turn, over and over."""
        times = len(leaf) // len(self.at)
        inputs = {name: t.repeat(times, *[1] * (t.ndim - 1)) for name, t in self.inputs.items()}
        here = leaf.to(next(self.model.parameters()).dtype)
        at = self.at * times
        how: dict[str, Any] = {"layer": self.layer, "at": at, "leaf": here, "skip": self.below, "tokens": self.tokens}
        output = graph(model or self.model, self.spec, inputs, **how).output
        logits = part_logits(output, self.keys, at, self.lengths * times)
        assert logits is not None
        return torch.stack([one.value(z, self.of) for one, z in zip(self.said * times, logits, strict=True)])


def _integrated(points: _Points, x: Tensor, base: Tensor, ask: Request) -> Ways:
    how = {k: v for k, v in ask.options.items() if k in ("steps", "rule")}
    scores = integrated_gradients(points.values, x, base, at_once=ask.size_of(x.shape[1]), **how).detach().cpu()
    with torch.no_grad():
        here, there = points.values(torch.cat([x, base])).chunk(2)
    return [scores[b, :n] for b, n in enumerate(points.lengths)], (here - there).tolist()


def _texts_at_once(lens: Any, ask: Request) -> int:
    """On a CPU the points of one text fill a pass; other devices are idle unless many texts are under way."""
    return 1 if device_of(lens.model).type == "cpu" else ask.batch_size


def _rescaled(points: _Points, x: Tensor, base: Tensor) -> Ways:
    leaf = torch.cat([x, base]).requires_grad_()
    with torch.enable_grad(), rescaled(points.model, len(x)) as twin:
        values = points.values(leaf, twin)
    (multipliers,) = torch.autograd.grad(values[: len(x)].sum(), leaf)
    scores = ((x - base) * multipliers[: len(x)]).sum(-1).cpu()
    differences = (values[: len(x)] - values[len(x) :]).detach().tolist()
    return [scores[b, :n] for b, n in enumerate(points.lengths)], differences


def layer_input(
    model: Any,
    spec: Any,
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
        output = run(
            model, spec, inputs, lambda seen: forms.append(seen.form), heads=at is not None, at=at, on_input=on_input
        )
    (x,) = kept
    below = [form for form in forms[:layer] if form is not None]
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    return wide, output, below if len(below) == layer else ()


# --- baselines ---


def default_baseline(lens: Any) -> str:
    """[CLS] [MASK] ... [SEP] where there is a mask token, else zeros."""
    return "zeros" if lens.head.mask is None else "mask"


def baseline_text(lens: Any, tokens: Tokens, kind: Any) -> Tokens:
    """The text that is the baseline: all but special tokens replaced. Raises Undefined, UnknownOption."""
    if isinstance(kind, Tensor) or kind == "zeros":
        return tokens
    if kind not in ("mask", "pad"):
        raise UnknownOption(f"expected baseline='mask', 'zeros', 'pad' or a tensor, got {kind!r}")
    filler = lens.head.mask if kind == "mask" else getattr(lens.model.config, "pad_token_id", None)
    if filler is None:
        raise Undefined(f"baseline={kind!r} needs a {kind} token, this model has none; use baseline='zeros'")
    ids = tuple(i if special else filler for i, special in zip(tokens.ids, tokens.special, strict=True))
    return replace(tokens, ids=ids)


def _baseline(
    lens: Any, model: Any, inputs: Mapping[str, Tensor], x: Tensor, texts: list[Tokens], kind: Any, layer: int
) -> Tensor:
    """h^layer of the baselines (batch, token, dim); a tensor stands for itself."""
    if isinstance(kind, Tensor):
        return _given(kind, x, [len(t) for t in texts])
    if kind == "zeros":
        return layer_input(model, lens.spec, inputs, layer, start=torch.zeros_like)[0]
    ids = inputs["input_ids"].clone()
    for b, tokens in enumerate(texts):
        ids[b, : len(tokens)] = torch.tensor(tokens.ids, dtype=ids.dtype, device=ids.device)
    return layer_input(model, lens.spec, {**inputs, "input_ids": ids}, layer)[0]


def _given(kind: Tensor, x: Tensor, lengths: list[int]) -> Tensor:
    n, dim = max(lengths), x.shape[-1]
    fits = kind.shape == (dim,) or (kind.shape == (n, dim) and set(lengths) == {n})
    if not fits or not kind.is_floating_point() or not bool(torch.isfinite(kind).all()):
        raise UnknownOption(
            f"expected a baseline of finite numbers with the shape ({dim},) or (token, {dim}), got "
            f"{tuple(kind.shape)} of {kind.dtype} for texts of {', '.join(map(str, sorted(set(lengths))))} tokens"
        )
    return kind.detach().to(x).expand_as(x).clone()


def require_converged(lens: Any, ask: Request, delta: float, difference: float) -> None:
    """Raises NotConverged where the scores do not sum to the difference of the outputs, within `tolerance` of it."""
    share, steps = ask.options.get("tolerance", 0.01), ask.options.get("steps", 100)
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not share >= 0:
        raise UnknownOption(f"expected tolerance= a share of the difference, 0 or more, got {share!r}")
    allowed = max(share * abs(difference), LEAST)
    if abs(delta) <= allowed:
        return
    half = lens.model.dtype in (torch.float16, torch.bfloat16)
    what = "load the model in float32" if half else f"pass steps={4 * steps}, or a baseline nearer to the text"
    raise NotConverged(
        f"expected the scores of {ask.name} to sum to the difference of the outputs, {difference:.4g}, within "
        f"{allowed:.1g}; they are off by {delta:.2g} after {steps} steps of rule="
        f"{ask.options.get('rule', 'gausslegendre')!r}; {what} (tolerance=float('inf') takes them as they are)"
    )
