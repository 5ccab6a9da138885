"""Scores of rows of a rollout: of maps that a batch left, or of one long text's layers from the last to the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mixlens.answer import answer
from mixlens.attribute.position import position_meta
from mixlens.attribute.preset.layered import without_cls
from mixlens.attribute.preset.rolled import Layers, Looked, one_hot, rolled
from mixlens.capture.sight import Sight, windows_of
from mixlens.capture.stream import Stream
from mixlens.mixing import MIXING
from mixlens.mixing.calls import mapper, require_something
from mixlens.precision import at_least_single
from mixlens.progress import Progress
from mixlens.results import Attribution
from mixlens.results.aggregation import RESIDUAL, require_field
from mixlens.subject import Subject
from mixlens.subject.descent import Descent
from mixlens.subject.provenance import provenance

if TYPE_CHECKING:
    from mixlens.attribute.preset.family import Preset
    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced


def kept_layers(maps: Sequence[Tensor], top: Sequence[int] | None) -> Layers:
    """Maps that a pass left, the last layer first; `top`: the only rows of that one that were made."""
    for k in reversed(range(len(maps))):
        yield k, iter([(slice(None) if top is None or k + 1 < len(maps) else list(top), maps[k])])


def descended(subject: Subject, ask: Request[Preset], i: int, progress: Progress | None) -> Attribution:
    """The Attribution of text i, of which one layer's maps live at a time. Raises TargetError."""
    read = ask.reads[i]
    top = [read.row] if isinstance(read.row, int) else None
    down = _descent(subject, ask.method, ask.texts[i], ask.options, top, progress, at=read.at)
    return rolled_text(subject, ask, i, down.layers(), down.sights, down.logits, down.off)


@torch.no_grad()
def rolled_text(
    subject: Subject,
    ask: Request[Preset],
    i: int,
    layers: Layers,
    sights: Sequence[Sight],
    logits: tuple[Tensor, ...] | None,
    off: float | None,
) -> Attribution:
    """The Attribution of text i from its layers, the last first. Raises TargetError."""
    preset, tokens = ask.method, ask.texts[i]
    resolved = answer(subject.head, ask.reads[i], logits)
    rows = [row for row in resolved.rows if isinstance(row, int)]
    looked = Looked(rows if ask.layered == "each" else ())
    made, windows, meta = _rolled(
        subject, preset, tokens, looked.at(layers), sights, rows, ask.options, upto=not looked.queries
    )
    scores = made.sum(1)
    each = looked.own_rows(windows, _even_share(preset)).to(scores) if looked.queries else scores
    meta |= _noticed(subject, preset, tokens, looked, off)
    if ask.options.get("zero_cls"):
        scores = without_cls(subject, tokens, scores)
        each = without_cls(subject, tokens, each)
    meta |= position_meta(scores[-1], resolved.rows[-1]) if windows_of(sights, len(tokens))[0] else {}
    return ask.result(tokens, scores[-1], each, resolved, meta)


def traced(subject: Subject, preset: Preset, ask: Traced) -> Tensor:
    """(answer, source): every answer token's row of the rollout of one text."""
    down = _descent(subject, preset, ask.tokens, ask.options, ask.rows, ask.progress)
    ask.passed(down.output.last_hidden_state[0, ask.rows])
    ask.off = down.off
    looked = Looked()
    made, _, _ = _rolled(subject, preset, ask.tokens, looked.at(down.layers()), down.sights, ask.rows, ask.options)
    _noticed(subject, preset, ask.tokens, looked, down.off)
    return without_cls(subject, ask.tokens, made[-1]) if ask.options.get("zero_cls") else made[-1]


def _descent(
    subject: Subject,
    preset: Preset,
    tokens: Stream,
    options: Mapping[str, Any],
    top: Sequence[int] | None,
    progress: Progress | None,
    at: int | None = None,
) -> Descent:
    make = mapper(preset.mixing, preset.maps_options(options))
    return Descent(subject, tokens, make, by_rows=MIXING[preset.mixing].queries, top=top, at=at, progress=progress)


def _rolled(
    subject: Subject,
    preset: Preset,
    tokens: Stream,
    layers: Layers,
    sights: Sequence[Sight],
    rows: Sequence[int],
    options: Mapping[str, Any],
    upto: bool = False,
) -> tuple[Tensor, tuple[int | None, ...] | None, dict[str, Any]]:
    """(layer, row, key); the windows of uniform attention, where scores are relative to it; what was done (`meta`)."""
    causal, windows = windows_of(sights, len(tokens))
    field, share = preset.by_field(windows, options), preset.arguments.get("residual") or 0.0
    if field:
        require_field(causal, windows)
    normalize = bool(preset.arguments.get("normalize"))
    made = rolled(
        layers,
        one_hot(rows, len(tokens), subject.device),
        share=share,
        normalize=normalize,
        upto=upto,
        windows=windows if field else None,
        uniform_share=RESIDUAL if MIXING[preset.mixing].holds_residual else share,
    )
    meta = {
        "residual": share or None,
        "normalize": normalize,
        "mixing": preset.mixing,
        "aggregation": "rollout",
        "receptive_field": field,
    }
    return made.to("cpu", at_least_single(subject.model.dtype)), windows if field else None, meta


def _even_share(preset: Preset) -> float:
    """The share of the identity beside uniform attention for one layer's own map."""
    return RESIDUAL if MIXING[preset.mixing].holds_residual else 0.0


def _noticed(subject: Subject, preset: Preset, tokens: Stream, looked: Looked, off: float | None) -> dict[str, Any]:
    """Where the maps come from, and which of their rows are zeros. Raises ModelError where all are."""
    meta = provenance(subject, tokens, off)
    if MIXING[preset.mixing].work != "forward" and looked.zeros:
        require_something(preset.mixing, not looked.nothing)
        meta["zero_rows"] = tuple(sorted(looked.zeros))
    return meta
