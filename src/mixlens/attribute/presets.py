"""Attribution presets: a mixing method, how its layers are put together, and the read-out row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mixlens.aggregate import AGGREGATIONS
from mixlens.architectures.spec import Order
from mixlens.errors import Undefined, UnknownMethod, did_you_mean
from mixlens.mixing import MIXING


@dataclass(frozen=True)
class Preset:
    """What a method name of `Lens.attribute` stands for.

    `mixing` None: no map at all (`random`). `pre`: the preset for layers without norms behind their residual sums,
    where it differs. All presets here are class-agnostic: the target fixes the read-out row, nothing else.
    """

    name: str
    summary: str
    cite: str
    mixing: str | None
    aggregation: str = "rollout"
    how: Mapping[str, Any] = field(default_factory=dict)
    pre: Preset | None = None
    signed: bool = False
    class_specific: bool = False

    def for_order(self, order: Order) -> Preset:
        """The preset as it stands for a layer order. Raises Undefined where the mixing method is not defined."""
        chosen = self.pre if order != "post" and self.pre is not None else self
        if chosen.mixing is not None and order not in MIXING[chosen.mixing].orders:
            raise Undefined(
                f"{chosen.mixing} is defined for {', '.join(MIXING[chosen.mixing].orders)}-LN layers, this model's are "
                f"{order}-LN: no norm follows their residual sum; use norm_res or globenc"
            )
        return chosen


_ROLL = {"residual": None, "normalize": False, "head": None}
_ROWS = {**_ROLL, "normalize": True}
_HALF = {**_ROLL, "residual": 0.5}


def _table(*presets: Preset) -> dict[str, Preset]:
    return {p.name: p for p in presets}


ATTRIBUTIONS: dict[str, Preset] = _table(
    Preset("attention", "last layer's attention", "Vaswani 2017", "attention", "layer", {"k": -1}),
    Preset("attention_rollout", "attention with half residual, rolled out", "Abnar & Zuidema 2020", "attention", how=_HALF),
    Preset(
        "norm_rollout",
        "row-normalised norm_resln, rolled out (pre-LN: norm_res)",
        "Kobayashi 2021; Ferrando 2022",
        "norm_resln",
        how=_ROWS,
        pre=Preset("norm_rollout", "row-normalised norm_res, rolled out", "Kobayashi 2021", "norm_res", how=_ROWS),
    ),
    Preset(
        "globenc",
        "globenc maps, rolled out (pre-LN: row-normalised, since the next norm undoes a row's scale)",
        "Modarressi 2022",
        "globenc",
        how=_ROLL,
        pre=Preset("globenc", "row-normalised globenc maps, rolled out", "Modarressi 2022", "globenc", how=_ROWS),
    ),
    Preset("alti", "alti maps, rolled out", "Ferrando 2022", "alti", how=_ROLL),
    Preset("value_zeroing", "value_zeroing maps, rolled out", "Mohebbi 2023", "value_zeroing", how=_ROLL),
    Preset("random", "uniform random scores, seeded: the baseline of every table", "-", None),
)


def preset(name: str) -> Preset:
    """The preset of a method name: of the table, or `"M+rollout"`, `"M+layer:k"`, `"M+mean"`, `"M+sum"`.

    Raises UnknownMethod.
    """
    if name in ATTRIBUTIONS:
        return ATTRIBUTIONS[name]
    if not isinstance(name, str) or "+" not in name:
        hint = did_you_mean(name, ATTRIBUTIONS)
        if name in MIXING:
            hint = f"; {name} is a mixing method: ask for '{name}+rollout' or '{name}+layer:-1'"
        raise UnknownMethod(f"no attribution method {name!r}{hint}")
    mixing, _, how = name.partition("+")
    if mixing not in MIXING:
        raise UnknownMethod(f"no mixing method {mixing!r} in {name!r}{did_you_mean(mixing, MIXING)}")
    aggregation, _, argument = how.partition(":")
    if aggregation not in AGGREGATIONS:
        raise UnknownMethod(f"no aggregation {aggregation!r} in {name!r}{did_you_mean(aggregation, AGGREGATIONS)}")
    if (aggregation == "layer") != bool(argument):
        raise UnknownMethod(f"expected '{mixing}+layer:k' with a layer number, or no ':', got {name!r}")
    options: dict[str, Any] = {}
    if aggregation == "layer":
        try:
            options = {"k": int(argument)}
        except ValueError:
            raise UnknownMethod(f"expected a layer number in {name!r}, got {argument!r}") from None
    if aggregation == "rollout":
        options = dict(_ROLL)
    facts = MIXING[mixing]
    return Preset(name, f"{facts.summary}, {how}", facts.cite, mixing, aggregation, options, signed=facts.signed)


