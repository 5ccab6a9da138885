"""What there is: `mixlens.methods()` and `mixlens.measures()`, and which methods an architecture has.

The tables hold functions, and with them torch. What they say is also written down as data, `inventory.json`, so that
who asks what there is, or what to cite, waits for no import. `python tests/test_docs.py` writes it; a test holds it
against the tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mixlens.errors import Undefined
from mixlens.packing import pack, unpack

if TYPE_CHECKING:
    from mixlens.architectures import Spec
    from mixlens.mixing import Mixing
    from mixlens.subject.head import Head


def methods() -> list[dict[str, Any]]:
    """One dict a method: name, stage, summary, symbol, facts, heads, needs, cost, architectures, options, cite.

    `two_streams`: whether it goes over the two streams of an encoder-decoder too, a source and its translation.
    `architectures`: the model types for which it is defined, `"opt (do_layer_norm_before=False)"` where only some of
    a type's models are; None for aggregations, which see maps alone. `heads`: whose answers it explains; None: any.
    What stands here is of the newest transformers that is tested; an older one may lack some (`hta` of T5, whose
    attention went through no interface of transformers' there): `lens.check()` says what holds of a loaded model.

    Examples:
        >>> [method["name"] for method in mixlens.methods() if method["cost"] == "one pass a token"]
        ['blank_out']
    """
    return _written()["methods"]


def measures() -> list[dict[str, Any]]:
    """One dict a measure: name, summary, needs, higher_is_better, range, per_layer, options, cite.

    Examples:
        >>> [measure["name"] for measure in mixlens.measures() if measure["needs"] == "rationale"]
        ['token_f1', 'auprc', 'iou']
    """
    return _written()["measures"]


FILE = "inventory.json"


@cache
def _text() -> str:
    return (files("mixlens") / FILE).read_text("utf-8")


def _written() -> dict[str, list[dict[str, Any]]]:
    """Anew each time: what a caller does to it is the caller's."""
    kinds = json.loads(_text())
    return {kind: [{key: unpack(value) for key, value in fact.items()} for fact in kinds[kind]] for kind in kinds}


def to_write() -> str:
    """What `inventory.json` has to say, by the tables: a line a fact."""
    kinds = {"methods": _methods(), "measures": _measures()}
    lines = {kind: [json.dumps({key: pack(fact[key]) for key in fact}) for fact in kinds[kind]] for kind in kinds}
    return "{" + ",\n".join(f'"{kind}": [\n' + ",\n".join(lines[kind]) + "\n]" for kind in lines) + "}\n"


def _methods() -> list[dict[str, Any]]:
    from mixlens.aggregate import AGGREGATIONS
    from mixlens.attribute import ATTRIBUTIONS
    from mixlens.mixing import MIXING
    from mixlens.similarity import SIMILARITIES

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
            "two_streams": m.across is not None,
            "heads": None,
            "needs": m.work,
            "cost": m.costs.words,
            "architectures": _architectures(partial(_maps, m)),
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
            "two_streams": p.two_streams,
            "needs": p.work,
            "cost": p.cost({}).words,
            "heads": None if p.heads is None else list(p.heads),
            "architectures": _architectures(p.defined, p.heads),
            "options": p.options(),
            "cite": p.cite,
        }
        for name, p in ATTRIBUTIONS.items()
    ]
    similarities = [
        {
            **empty,
            "name": name,
            "stage": "similarity",
            "summary": s.summary,
            "signed": True,
            "cost": s.words,
            "options": s.options(),
            "cite": s.cite,
        }
        for name, s in SIMILARITIES.items()
    ]
    return [*mixing, *aggregations, *presets, *similarities]


def _measures() -> list[dict[str, Any]]:
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


def supports(spec: Spec, head: Head | None = None) -> dict[str, str | None]:
    """Method -> None where it is defined for an architecture, and a head if one is named; else the reason."""
    from mixlens.attribute import ATTRIBUTIONS
    from mixlens.mixing import MIXING

    # of an encoder-decoder maps are the encoder's, attributions an answer's, which decide where a name stands for both
    reasons = {name: mixing.lacks(spec.memory or spec) for name, mixing in MIXING.items()}
    for name, method in ATTRIBUTIONS.items():
        try:
            chosen = method.for_spec(spec)
            if head is not None:
                chosen.for_head(head)
            reasons.setdefault(name, None)
        except Undefined as error:
            reasons[name] = str(error) if spec.memory else reasons.get(name, str(error))
    return reasons


def _maps(mixing: Mixing, spec: Spec) -> bool:
    """Whether there are maps of a text: of an encoder-decoder its encoder's."""
    return mixing.defined(spec.memory or spec)


def _architectures(defined: Callable[[Spec], bool], heads: Sequence[str] | None = None) -> list[str]:
    from mixlens.architectures import SPECS, variants

    out = []
    for kind in sorted(SPECS):
        if heads == ("causal",) and kind not in _language_models():
            continue
        settings = {setting: defined(spec) for setting, spec in variants(kind).items()}
        named = [f"{kind} ({setting})" for setting, there in settings.items() if there]
        out += [kind] if all(settings.values()) else named
    return out


def _language_models() -> frozenset[str]:
    """The model types that transformers has a causal language model of."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return frozenset(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
