"""A preset over the two streams of an encoder-decoder: the source, and the answer's own tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mixlens.aggregate.functions import add_residual, rollout
from mixlens.aggregate.shares import normalize_rows
from mixlens.aggregate.streams import rollout_streams
from mixlens.capture.run import LayerPass
from mixlens.decompose import Block, CallCheck
from mixlens.errors import Undefined, UnknownOption
from mixlens.mixing import MIXING
from mixlens.options import options_of
from mixlens.precision import at_least_single

if TYPE_CHECKING:
    from mixlens.attribute.preset.family import Preset
    from mixlens.attribute.traced import Traced
    from mixlens.subject import Subject

TARGET, SOURCE = "target", "source"


def rows_across(subject: Subject, preset: Preset, ask: Traced) -> Tensor:
    """(answer, source): every answer token's row over the source's tokens and those that the decoder has read.

    Rollouts are products of a matrix of maps over what the encoder's rollout leaves of the source; "layer" and "mean"
    are of the decoder's maps alone, where a vector of the memory stands for its token. Rows of every map are divided by
    their sum, so that both streams' shares compare. Raises Undefined for options that mean nothing here.
    """
    options, share = _options(preset, ask.options), preset.arguments.get("residual") or 0.0
    streams, mixing = ask.streams, MIXING[preset.mixing]
    below: list[Tensor] = []
    maps: dict[str, list[Tensor]] = {TARGET: [], SOURCE: []}
    assert mixing.across is not None
    across = mixing.across

    sums = [CallCheck([ask.source], subject.encoder.layers)]
    sums += [CallCheck([len(ask.tokens) - ask.source], subject.layers) for _ in range(2)]

    def encoder_layer(seen: LayerPass) -> None:
        block = Block(subject.encoder.spec, seen)
        sums[0].look(block)
        made = mixing.function(block, **options)[0]
        below.append(add_residual(normalize_rows(made), share))
        _told(ask, seen.index)

    def decoder_layer(seen: LayerPass) -> None:
        blocks = Block(subject.spec, seen, 0), Block(subject.spec, seen, 1)
        for check, block in zip(sums[1:], blocks, strict=True):
            check.look(block)
        made = across(*blocks, **options)
        target, memory, carried = made.target[0], made.memory[0], share
        if made.carried is None:
            target, memory = add_residual(target, share), (1 - share) * memory
        else:
            carried = made.carried[0, :, None]
        maps[TARGET].append(carried * target)
        maps[SOURCE].append(memory)
        _told(ask, subject.encoder.layers + seen.index)

    rolls = preset.aggregation == "rollout"
    output = streams.decoded(streams.encoded(encoder_layer if rolls else None), decoder_layer)
    ask.off = max(check.require() for check in sums if check.layers)
    ask.logits = streams.logits(output, ask.rows)
    stacked = {name: torch.stack(parts) for name, parts in maps.items()}
    if rolls:
        source = rollout(torch.stack(below))[-1]
        rolled, _ = rollout_streams(
            {(TARGET, TARGET): stacked[TARGET], (TARGET, SOURCE): stacked[SOURCE]}, {(SOURCE, SOURCE): source}
        )
        parts = [rolled[TARGET, SOURCE][-1], rolled[TARGET, TARGET][-1]]
    elif preset.aggregation == "mean":
        parts = [stacked[name].double().mean(0) for name in (SOURCE, TARGET)]
    else:
        parts = [stacked[name][_layer(subject, preset)].double() for name in (SOURCE, TARGET)]
    rows = [row - ask.source for row in ask.rows]
    return torch.cat(parts, 1)[rows].to("cpu", at_least_single(subject.model.dtype))


def _options(preset: Preset, options: Mapping[str, Any]) -> dict[str, Any]:
    """The mixing method's options among a request's. Raises Undefined for what has no meaning for two streams."""
    function = MIXING[preset.mixing].across
    assert function is not None
    known, defaults = options_of(function), preset.options()
    for name, value in options.items():
        if name not in known and value not in (defaults[name], False):
            raise Undefined(f"{name}= has no meaning for {preset.name} of an encoder-decoder; leave it out")
    return {name: value for name, value in preset.maps_options(options).items() if name in known}


def _layer(subject: Subject, preset: Preset) -> int:
    """The decoder's layer that is asked for. Raises UnknownOption."""
    k = int(preset.arguments["k"])
    if not -subject.layers <= k < subject.layers:
        raise UnknownOption(f"expected a layer of {-subject.layers} to {subject.layers - 1} (the decoder's), got {k}")
    return k


def _told(ask: Traced, done: int) -> None:
    if ask.progress is not None:
        ask.progress(done + 1, ask.subject.encoder.layers + ask.subject.layers)
