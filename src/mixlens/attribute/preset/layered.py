"""Scores by way of `LayerMaps`: an aggregation that needs whole maps, or one that needs the read-out rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mixlens.answer import Readout, answer, take
from mixlens.attribute.position import position_meta
from mixlens.capture.stream import Stream
from mixlens.errors import Undefined
from mixlens.mixing.calls import layer_maps, mapper
from mixlens.progress import Progress
from mixlens.results import Attribution, LayerMaps
from mixlens.subject import Subject
from mixlens.subject.passes import TextPass

if TYPE_CHECKING:
    from mixlens.attribute.preset.family import Preset
    from mixlens.attribute.request import Request
    from mixlens.attribute.traced import Traced


def layered_text(
    subject: Subject, ask: Request[Preset], i: int, text_pass: TextPass, rowwise: bool, progress: Progress | None
) -> Attribution:
    """The Attribution of text i from its maps, of which the read-out row alone is there if `rowwise`."""
    preset, tokens = ask.method, text_pass.tokens
    resolved = answer(subject.head, ask.reads[i], text_pass.logits)
    at = resolved.rows
    only = [row for row in at if isinstance(row, int)] if rowwise else None
    maps = _maps(subject, preset, text_pass, ask.options, only)
    at = at if only is None else tuple(range(len(only)))
    field = preset.by_field(maps.windows, ask.options)
    own_rows = _own_rows(maps, at, field) if ask.layered == "each" else None
    arguments: dict[str, Any] = dict(preset.arguments)
    if preset.aggregation == "flow":  # the read-out rows, of the last layer alone unless all were asked for
        arguments |= {"normalize": ask.normalize, **({} if ask.layered == "upto" else {"layers": [-1]})}
        if all(isinstance(row, int) for row in at):
            arguments["queries"] = list(dict.fromkeys(at))
            at = tuple(arguments["queries"].index(row) for row in at)
        arguments["progress"] = progress
    maps = getattr(maps, preset.aggregation)(**arguments, receptive_field=field)
    rows = take(maps.scores, at)
    layers = None if preset.aggregation == "layer" or len(rows) == 1 < len(text_pass.layers) else rows
    layers = layers if own_rows is None else own_rows
    if ask.options.get("zero_cls"):
        rows = without_cls(subject, tokens, rows)
        layers = layers if layers is None else without_cls(subject, tokens, layers)
    meta = {**maps.meta, "mixing": preset.mixing, "aggregation": maps.aggregation, "receptive_field": field}
    meta |= position_meta(rows[-1], resolved.rows[-1]) if maps.causal else {}
    return ask.result(tokens, rows[-1], layers, resolved, meta)


def layered_trace(subject: Subject, preset: Preset, ask: Traced, rows: bool) -> Tensor:
    """(answer, source): every answer token's row, of maps that hold these `rows` alone where they may."""
    options, only = preset.maps_options(ask.options), ask.rows if rows else None
    ((_, ((text_pass,),)),) = subject.passes(
        [ask.tokens],
        [(mapper(preset.mixing, options), None if only is None else lambda text, layer: tuple(only))],
        batch_size=1,
        progress=ask.progress,
    )
    ask.off = text_pass.off
    maps = _maps(subject, preset, text_pass, ask.options, only)
    field = preset.by_field(maps.windows, ask.options)
    at, arguments = ask.rows if only is None else list(range(len(only))), dict(preset.arguments)
    if preset.aggregation == "flow":
        arguments |= {"normalize": False, "layers": [-1], "queries": ask.rows}
        at = list(range(len(ask.rows)))
    made = getattr(maps, preset.aggregation)(**arguments, receptive_field=field)
    scores = made.scores[-1][at]
    return without_cls(subject, ask.tokens, scores) if ask.options.get("zero_cls") else scores


def _maps(
    subject: Subject, preset: Preset, text_pass: TextPass, options: Mapping[str, Any], rows: Sequence[int] | None
) -> LayerMaps:
    """The maps of a pass, of all rows or of these."""
    scores, settings = torch.stack(text_pass.layers), preset.maps_options(options)
    return layer_maps(subject, text_pass, scores, preset.mixing, settings, rows=None if rows is None else tuple(rows))


def _own_rows(maps: LayerMaps, rows: tuple[Readout, ...], field: bool) -> Tensor:
    """The read-out row of each layer's own map, (layer, token)."""
    alone = [maps.layer(k, receptive_field=field).scores for k in range(len(maps))]
    return torch.stack([take(scores, rows)[-1] for scores in alone])


def without_cls(subject: Subject, tokens: Stream, rows: Tensor) -> Tensor:
    """Scores (..., token) with 0 for [CLS]. Raises Undefined where the first token is none."""
    if not (tokens.special[0] or subject.head.pooled == "first"):
        raise Undefined("zero_cls=True needs a text that begins with [CLS], this one does not; leave it out")
    return torch.cat([torch.zeros_like(rows[..., :1]), rows[..., 1:]], -1)
