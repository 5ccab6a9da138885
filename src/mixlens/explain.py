"""From what was asked to what is run, and from what was run to a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mixlens.architectures.spec import Order
from mixlens.attribute import Preset, preset
from mixlens.attribute.readout import Head, Rows, read_out, resolve
from mixlens.attribute.target import Target
from mixlens.capture.text import Tokens
from mixlens.decompose import Block
from mixlens.errors import ModelError, TargetError, Undefined, UnknownMethod, UnknownOption, did_you_mean
from mixlens.mixing import MIXING, Mixing
from mixlens.passes import TextPass
from mixlens.results import Attribution, LayerMaps


@dataclass(frozen=True)
class Plan:
    """An attribution as it will be run: the preset and the options, sorted by whom they are for."""

    preset: Preset
    mixing: Mapping[str, Any]
    readout: Any = None
    normalize: bool = True
    receptive_field: bool | None = None
    seed: int = 0

    @property
    def on_block(self) -> Callable[[Block], Tensor] | None:
        """What is computed at each layer; None: nothing (`random`)."""
        return None if self.preset.mixing is None else mapper(self.preset.mixing, self.mixing)


def mixing_facts(method: str, options: Mapping[str, Any], order: Order) -> Mixing:
    """The table's line of a mixing method. Raises UnknownMethod, UnknownOption, Undefined."""
    if method not in MIXING:
        raise UnknownMethod(f"no mixing method {method!r}{did_you_mean(method, MIXING)}")
    facts = MIXING[method]
    _refuse_unknown(method, options, facts.options())
    if order not in facts.orders:
        raise Undefined(
            f"{method} is defined for {', '.join(facts.orders)}-LN layers, this model's are {order}-LN: no norm "
            "follows their residual sum; use norm_res or globenc"
        )
    return facts


def mapper(method: str, options: Mapping[str, Any]) -> Callable[[Block], Tensor]:
    """The method as a function of a Block alone."""
    return lambda block: MIXING[method].function(block, **options)


def plan(method: str, options: Mapping[str, Any], order: Order) -> Plan:
    """What `attribute(method=..., **options)` will do. Raises UnknownMethod, UnknownOption, Undefined."""
    chosen = preset(method).for_order(order)
    if chosen.mixing is None:
        _refuse_unknown(method, options, {"seed": 0, "normalize": True})
        return Plan(chosen, {}, **options)
    facts = mixing_facts(chosen.mixing, {}, order)
    own = {k: v for k, v in facts.options().items() if k not in ("normalize", "per_head")}
    common = {"readout": None, "normalize": True, "receptive_field": None}
    _refuse_unknown(method, options, {**own, **common})
    return Plan(
        chosen,
        {k: v for k, v in options.items() if k in own},
        **{k: v for k, v in options.items() if k in common},
    )


def _refuse_unknown(method: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in options:
        if name not in known:
            has = f"its options are {', '.join(sorted(known))}" if known else "it has none"
            raise UnknownOption(f"{method} would ignore the option {name!r}; {has}")


@dataclass(frozen=True)
class Reading:
    """Which row of the maps speaks, and at which position the head's answer is read."""

    row: Rows
    answer: int
    answered: bool  # the head has an answer there


def reading(head: Head, tokens: Tokens, target: Target, readout: Any) -> Reading:
    """Rows for one text. Raises TargetError, UnknownOption."""
    row = read_out(head, tokens, target, readout)
    if head.task not in ("masked", "causal", "token"):
        return Reading(row, 0, head.task == "sequence")
    try:
        answer = read_out(head, tokens, target)
    except TargetError:  # the row was given, but no single position has the answer
        return Reading(row, 0, False)
    assert isinstance(answer, int)
    return Reading(row, answer, True)


def provenance(lens: Any, **more: Any) -> dict[str, Any]:
    """Where a result comes from: model, versions, and how far the self-check was off."""
    return {
        "model": lens.name,
        "architecture": lens.model.config.model_type,
        "dtype": str(lens.model.dtype).removeprefix("torch."),
        "mixlens": _version("mixlens"),
        "transformers": _version("transformers"),
        "torch": _version("torch"),
        "self_check": lens.self_check_residual,
        **more,
    }


def _version(package: str) -> str:
    import mixlens

    return mixlens.__version__ if package == "mixlens" else version(package)


def layer_maps(lens: Any, one: TextPass, method: str, options: Mapping[str, Any]) -> LayerMaps:
    """The LayerMaps of one text."""
    facts = MIXING[method]
    scores = torch.stack(one.layers)
    raw = options.get("normalize") is False
    meta = provenance(lens)
    if one.tokens.dropped:
        meta["dropped"] = one.tokens.dropped
    zero = (scores == 0).all(-1)
    if facts.needs != "forward" and bool(zero.any()):
        if bool(zero.all()):
            raise ModelError(f"{method} is zero everywhere: no token reaches any other; the model ignores its input")
        meta["zero_rows"] = tuple(tuple(row) for row in zero.nonzero().tolist())
    causal = len(one.tokens) > 1 and all(s.causal for s in one.sights)
    return LayerMaps(
        source=one.tokens,
        scores=scores,
        method=method,
        options=dict(options),
        meta=meta,
        rows_sum_to_one=facts.rows_sum_to_one and not raw,
        holds_residual=facts.holds_residual,
        signed=facts.signed,
        causal=causal,
        windows=tuple(s.window for s in one.sights) if causal and all(s.plain for s in one.sights) else None,
    )


def attribution(lens: Any, one: TextPass, plan: Plan, target: Target, read: Reading, name: str) -> Attribution:
    """The Attribution of one text: maps aggregated, the row read out, divided by its sum."""
    resolved, said = resolve(lens.head, target, one.logits if read.answered else None)
    chosen = plan.preset
    meta: dict[str, Any] = {"class_specific": chosen.class_specific, "readout": read.row, **said}
    if chosen.mixing is None:
        seeded = np.random.default_rng([plan.seed, *one.tokens.ids])  # a text has its scores whatever its batch
        scores, layers = torch.from_numpy(seeded.random(len(one.tokens))), None
        meta = provenance(lens, **meta, seed=plan.seed)
    else:
        maps = layer_maps(lens, one, chosen.mixing, plan.mixing)
        field = maps.windows is not None if plan.receptive_field is None else plan.receptive_field
        run = {"rollout": maps.rollout, "layer": maps.layer, "mean": maps.mean, "sum": maps.sum}[chosen.aggregation]
        maps = run(**chosen.how, receptive_field=field)
        rows = maps.scores.mean(-2) if read.row == "mean" else maps.row(read.row)
        layers = None if chosen.aggregation == "layer" else _shares(rows, plan.normalize and not chosen.signed)
        scores = _shares(rows[-1:], plan.normalize and not chosen.signed)[0]
        meta = {**maps.meta, **meta, "mixing": chosen.mixing, "aggregation": maps.aggregation, "receptive_field": field}
    if chosen.mixing is None and plan.normalize:
        scores = scores / scores.sum()
    if one.tokens.dropped:
        meta["dropped"] = one.tokens.dropped
    options = {**plan.mixing, **({} if plan.normalize else {"normalize": False})}
    return Attribution(one.tokens, scores, name, options, meta, target=resolved, layers=layers)


def _shares(rows: Tensor, normalize: bool) -> Tensor:
    """Rows divided by their sum, if asked for; a row that is all zero stays so."""
    total = rows.sum(-1, keepdim=True)
    return rows / total.masked_fill(total == 0, 1.0) if normalize else rows


