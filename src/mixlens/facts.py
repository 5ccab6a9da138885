"""`mixlens.methods()` and `mixlens.measures()`: what there is, and the facts about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixlens.architectures import Spec

COST = {
    "forward": "one pass",
    "flow": "one pass and a maximum flow for every token, on the CPU",
    "decompose": "one pass and the terms",
    "finish": "one pass and the rest of each layer for every pair of tokens",
    "jacobian": "one pass and each layer's Jacobian: O(n dim^3 + n^2 dim^2)",
    "backward": "one pass forward and one backward",
    "pair": "two passes forward and one backward over text and baseline together",
    "path": "a pass forward and one backward a step (100)",
    "occlusion": "one pass a token",
    "rows": "one pass forward, and one backward a dimension of the hidden states",
    "relevance": "one pass forward, one backward, and relevance through every layer",
    "last relevance": "one pass forward, and relevance down to the last layer's attention",
}


def methods() -> list[dict[str, Any]]:
    """One dict a method: name, stage, summary, symbol, facts, needs, cost, architectures, options, cite.

    `architectures`: the model types for which it is defined, `"opt (do_layer_norm_before=False)"` where only some of
    a type's models are; None for aggregations, which see maps alone.
    """
    from mixlens.aggregate import AGGREGATIONS
    from mixlens.attribute import ATTRIBUTIONS
    from mixlens.mixing import MIXING

    mixing = [
        {
            "name": name,
            "stage": "mixing",
            "summary": m.summary,
            "symbol": m.symbol,
            "rows_sum_to_one": m.rows_sum_to_one,
            "holds_residual": m.holds_residual,
            "signed": m.signed,
            "class_specific": False,
            "needs": m.needs,
            "cost": COST[m.needs],
            "architectures": _architectures(m.defined),
            "options": m.options(),
            "cite": m.cite,
        }
        for name, m in MIXING.items()
    ]
    empty: dict[str, Any] = dict.fromkeys(mixing[0])
    aggregations = [
        {**empty, "name": name, "stage": "aggregate", "summary": a.summary, "cite": a.cite}
        for name, a in AGGREGATIONS.items()
    ]
    presets = [
        {
            **empty,
            "name": name,
            "stage": "attribute",
            "summary": p.summary,
            "signed": p.signed,
            "class_specific": p.class_specific,
            "needs": p.needs,
            "cost": COST[p.needs],
            "architectures": _architectures(p.defined),
            "options": p.options(),
            "cite": p.cite,
        }
        for name, p in ATTRIBUTIONS.items()
    ]
    return [*mixing, *aggregations, *presets]


def _architectures(defined: Callable[[Spec], bool]) -> list[str]:
    from mixlens.architectures import SPECS, variants

    out = []
    for kind in sorted(SPECS):
        found = {setting: defined(spec) for setting, spec in variants(kind).items()}
        out += [kind] if all(found.values()) else [f"{kind} ({setting})" for setting, yes in found.items() if yes]
    return out


def measures() -> list[dict[str, Any]]:
    """One dict a measure: name, summary, needs, higher_is_better, range, per_layer, options, cite."""
    from mixlens.measure import MEASURES

    return [
        {
            "name": name,
            "summary": m.summary,
            "needs": m.needs,
            "higher_is_better": m.higher_is_better,
            "range": m.range,
            "per_layer": m.per_layer,
            "options": m.options(),
            "cite": m.cite,
        }
        for name, m in MEASURES.items()
    ]
