"""A method's name to its line of the table, or to a composition of mixing method and aggregation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixlens.aggregate import AGGREGATIONS
from mixlens.arguments import refuse_unknown
from mixlens.attribute.method import Method
from mixlens.attribute.preset import Preset
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.errors import Undefined, UnknownMethod, did_you_mean
from mixlens.mixing import MIXING

# Mixing methods whose rollout does not drain into the first token of a causal text: divided by that of uniform
# attention, which does, it would be the places of the tokens.
SPREAD = ("alti", "ifr")
COMMON = {"readout": None, "normalize": True}  # what every attribution may be asked


def known(name: str, options: Mapping[str, Any]) -> Method:
    """The method of a name, which has these options, for any model. Raises UnknownMethod, UnknownOption, Undefined."""
    chosen = method(name)
    refuse_unknown(name, options, {**chosen.options(), **COMMON})
    return chosen


def method(name: str) -> Method:
    """The method of a name: a line of the table, or `"M+rollout"`, `"M+flow"`, `"M+layer:k"`, `"M+mean"`, `"M+sum"`.

    Raises UnknownMethod, Undefined (a flow through maps whose rows do not sum to 1, a product of signed ones).
    """
    if isinstance(name, str) and name in ATTRIBUTIONS:
        return ATTRIBUTIONS[name]
    if not isinstance(name, str) or "+" not in name:
        hint = did_you_mean(name, ATTRIBUTIONS)
        if isinstance(name, str) and name in MIXING:
            hint = f"; {name} is a mixing method: ask for '{name}+rollout' or '{name}+layer:-1'"
        raise UnknownMethod(f"no attribution method {name!r}{hint}")
    mixing, _, rest = name.partition("+")
    if mixing not in MIXING:
        raise UnknownMethod(f"no mixing method {mixing!r} in {name!r}{did_you_mean(mixing, MIXING)}")
    aggregation, _, argument = rest.partition(":")
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
    field = None
    if aggregation == "rollout":
        field = False if mixing in SPREAD else None
        options = {"residual": None, "normalize": False, "head": None}
    facts = MIXING[mixing]
    if aggregation == "rollout" and facts.signed:
        raise Undefined(
            f"{mixing} is signed: products of signed maps let two wrongs make a right; use '{mixing}+mean' or "
            f"'{mixing}+layer:k'"
        )
    if aggregation == "flow":
        options = {"residual": None}
        if not facts.rows_sum_to_one:
            near = ", ".join(m for m, f in MIXING.items() if f.rows_sum_to_one)
            raise Undefined(
                f"the rows of {mixing} do not sum to 1, so a token would send more than there is of it; flow one of "
                f"{near}, or the maps themselves with their rows divided: lens.mixing(...).normalized().flow()"
            )
    return Preset(
        name,
        f"{facts.summary}, {rest}",
        facts.cite,
        signed=facts.signed,
        mixing=mixing,
        aggregation=aggregation,
        arguments=options,
        receptive_field=field,
    )
