"""Mixing maps of texts, and the presets that read a row of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from mixlens.aggregate.flow import indices
from mixlens.attribute.gradients import take
from mixlens.attribute.kinds import Preset, Random
from mixlens.attribute.readout import Rows, answer, reading
from mixlens.attribute.target import Target
from mixlens.capture.run import layer_count
from mixlens.capture.text import Tokens
from mixlens.decompose import Block
from mixlens.errors import ModelError, TargetError, Undefined
from mixlens.mixing import MIXING
from mixlens.results import Attribution, LayerMaps
from mixlens.runners.passes import Progress, TextPass, Wanted
from mixlens.runners.request import Request, provenance, result


def mapper(method: str, options: Mapping[str, Any]) -> Callable[[Block], Tensor]:
    """The mixing method as a function of a Block alone."""
    return lambda block: MIXING[method].function(block, **options)


def layer_maps(
    lens: Any, one: TextPass, method: str, options: Mapping[str, Any], queries: tuple[int, ...] | None = None
) -> LayerMaps:
    """The LayerMaps of one text, `queries` being the rows that were made. Raises ModelError for zero maps."""
    return _layer_maps(lens, one, torch.stack(one.layers), method, options, queries=queries)


def _layer_maps(
    lens: Any,
    one: TextPass,
    scores: Tensor,
    method: str,
    options: Mapping[str, Any],
    *,
    queries: tuple[int, ...] | None = None,
    made: Tensor | None = None,
) -> LayerMaps:
    """`made` (layer, row): which rows of `scores` were made at all; the rest are zeros that nobody reads."""
    facts = MIXING[method]
    meta = provenance(lens, one.tokens)
    zero = (scores == 0).all(-1)
    zero = zero if made is None else zero & made
    if facts.needs != "forward" and bool(zero.any()):
        if bool((scores == 0).all()):
            raise ModelError(f"{method} is zero everywhere: no token reaches any other; the model ignores its input")
        meta["zero_rows"] = tuple(tuple(row) for row in zero.nonzero().tolist())
    with suppress(TargetError):  # the row that views show; where none is known they show the mean
        row = reading(lens.head, one.tokens, Target()).row
        if row is not None:
            meta["readout"] = row
    causal = len(one.tokens) > 1 and all(s.causal for s in one.sights)
    return LayerMaps(
        source=one.tokens,
        scores=scores,
        method=method,
        options=dict(options),
        meta=meta,
        rows_sum_to_one=facts.rows_sum_to_one and options.get("normalize") is not False,
        holds_residual=facts.holds_residual,
        signed=facts.signed,
        causal=causal,
        windows=tuple(s.window for s in one.sights) if causal and all(s.plain for s in one.sights) else None,
        queries=queries,
    )


def asked_rows(queries: Sequence[int] | None, method: str, lengths: Sequence[int]) -> list[tuple[int, ...]] | None:
    """The query rows of each text, negatives counted from its end. Raises Undefined, UnknownOption."""
    if queries is None:
        return None
    if not MIXING[method].queries:
        can = ", ".join(name for name, facts in MIXING.items() if facts.queries)
        raise Undefined(f"{method} cannot be had for some rows alone; leave queries= out, or use one of {can}")
    return [indices("queries", queries, n) for n in lengths]


def attributions(lens: Any, asks: Sequence[Request]) -> list[list[Attribution]]:
    """Every preset's Attributions of the texts: maps aggregated, the row read out. One batch's maps live at a time."""
    texts, count = asks[0].texts, len(asks[0].texts)
    depth = layer_count(lens.model, lens.spec)
    wanted = [read_rows(ask, depth) for ask in asks]
    make = [(mapper(cast(Preset, a.method).mixing, _own(a)), rows) for a, rows in zip(asks, wanted, strict=True)]
    flows = any(cast(Preset, ask.method).aggregation == "flow" for ask in asks)  # what takes the time is counted
    how: dict[str, Any] = {"progress": None if flows else asks[0].progress, "answers": asks[0].answers}
    how["batch_size"] = lambda n: min(ask.size_of(n) for ask in asks)
    out: list[list[Any]] = [[None] * count for _ in asks]
    done = 0
    for members, ran in lens.stream(texts, make, **how):
        for ask, rows, mine, passes in zip(asks, wanted, out, ran, strict=True):
            for at, (i, one) in enumerate(zip(members, passes, strict=True)):
                made = None if rows is None else [rows(i, k) for k in range(len(one.layers))]
                mine[i] = _attribution(lens, ask, i, one, made, _part(ask.progress, done + at, count))
                one.layers.clear()
        done += len(members)
    return out


def _own(ask: Request) -> dict[str, Any]:
    """The options of a preset's mixing method."""
    return {k: v for k, v in ask.options.items() if k not in ("receptive_field", "zero_cls")}


def _attribution(
    lens: Any,
    ask: Request,
    i: int,
    one: TextPass,
    rows_made: list[tuple[int, ...] | None] | None,
    progress: Progress | None,
) -> Attribution:
    """The Attribution of text i from its maps, of which `rows_made` alone are there (None: all)."""
    preset = cast(Preset, ask.method)
    said = answer(lens.head, ask.reads[i], one.logits)
    scores, made = _filled_up(one, rows_made)
    maps = _layer_maps(lens, one, scores, preset.mixing, _own(ask), made=made)
    asked = ask.options.get("receptive_field")
    field = maps.windows is not None if asked is None else bool(asked)
    own_rows = _own_rows(maps, said.rows, field) if ask.layered == "each" else None
    how, at = dict(preset.how), said.rows
    if preset.aggregation == "flow":  # the read-out rows, of the last layer alone unless all were asked for
        how |= {"normalize": ask.normalize, **({} if ask.layered == "upto" else {"layers": [-1]})}
        if all(isinstance(row, int) for row in at):
            how["queries"] = list(dict.fromkeys(at))
            at = tuple(how["queries"].index(row) for row in at)
        how["progress"] = progress
    maps = getattr(maps, preset.aggregation)(**how, receptive_field=field)
    rows = take(maps.scores, at)
    layers = None if preset.aggregation == "layer" or len(rows) == 1 < len(one.layers) else rows
    layers = layers if own_rows is None else own_rows
    if ask.options.get("zero_cls"):
        rows = without_cls(lens, one.tokens, rows)
        layers = layers if layers is None else without_cls(lens, one.tokens, layers)
    meta = {**maps.meta, "mixing": preset.mixing, "aggregation": maps.aggregation, "receptive_field": field}
    return result(ask, one.tokens, rows[-1], layers, said, meta)


def _part(progress: Progress | None, i: int, count: int) -> Progress | None:
    """The flow's progress of text i of `count`, in rows, all texts taken to have as many."""
    return None if progress is None else lambda done, total: progress(i * total + done, count * total)


def read_rows(ask: Request, depth: int) -> Wanted | None:
    """Which rows of which layers a preset reads, where it reads a part of them only.

    A product of maps needs all rows of every layer but the last; a mean, a sum or one layer needs the read-out row of
    each. Maps whose products are rescaled by their largest entry (`rollout_scaled`) are made whole.
    """
    preset = ask.method
    assert isinstance(preset, Preset)
    facts, rows = MIXING[preset.mixing], [(read.row,) for read in ask.reads if isinstance(read.row, int)]
    plain = facts.rows_sum_to_one or bool(preset.how.get("normalize"))
    if not facts.queries or len(rows) < len(ask.reads):
        return None
    if preset.aggregation in ("mean", "sum", "layer"):
        first = 0
    elif preset.aggregation == "rollout" and plain:
        first = depth - 1
    else:
        return None
    return lambda text, layer: rows[text] if layer >= first else None


def _filled_up(one: TextPass, made: list[tuple[int, ...] | None] | None) -> tuple[Tensor, Tensor | None]:
    """Whole maps (layer, query, key), zeros in the rows that were not made; and which were (layer, query)."""
    if made is None:
        return torch.stack(one.layers), None
    n = len(one.tokens)
    scores, there = one.layers[0].new_zeros(len(made), n, n), torch.zeros(len(made), n, dtype=torch.bool, device="cpu")
    for k, rows in enumerate(made):
        chosen = slice(None) if rows is None else list(rows)
        scores[k, chosen], there[k, chosen] = one.layers[k], True
    return scores, there


def _own_rows(maps: LayerMaps, rows: tuple[Rows, ...], field: bool) -> Tensor:
    """The read-out row of each layer's own map, (layer, token)."""
    alone = [maps.layer(k, receptive_field=field).scores for k in range(len(maps))]
    return torch.stack([take(one, rows)[-1] for one in alone])


def without_cls(lens: Any, tokens: Tokens, rows: Tensor) -> Tensor:
    """Scores (..., token) with 0 for [CLS]. Raises Undefined where the first token is none."""
    if not (tokens.special[0] or lens.head.pooled == "first"):
        raise Undefined("zero_cls=True needs a text that begins with [CLS], this one does not; leave it out")
    return torch.cat([torch.zeros_like(rows[..., :1]), rows[..., 1:]], -1)


def random_scores(lens: Any, ask: Request) -> list[Attribution]:
    """Uniform random scores; a text has its own whatever its batch."""
    assert isinstance(ask.method, Random)
    seed = ask.options.get("seed", 0)
    ran = lens.through(ask.texts, None, batch_size=ask.batch_size, progress=ask.progress, answers=ask.answers)
    out = []
    for read, one in zip(ask.reads, ran, strict=True):
        said = answer(lens.head, read, one.logits)
        scores = torch.from_numpy(np.random.default_rng([seed, *one.tokens.ids]).random(len(one.tokens)))
        out.append(result(ask, one.tokens, scores, None, said, provenance(lens, one.tokens)))
    return out
