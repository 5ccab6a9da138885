"""Abnar & Zuidema 2020 (attention rollout and flow): Tables 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mixlens.reproduce.claims import SLIGHT, Claim, beats
from mixlens.reproduce.findings import Findings, Method, Number, Panel, Values
from mixlens.reproduce.study import Study

_METHODS = {"Raw": "attention+rollout", "Rollout": "attention_rollout", "Flow": "attention_flow"}
_T1 = {
    "Raw": (0.69, 0.10, -0.11, -0.09, 0.20, 0.29),
    "Rollout": (0.32, 0.38, 0.51, 0.62, 0.70, 0.71),
    "Flow": (0.32, 0.44, 0.70, 0.70, 0.71, 0.70),
}
_T2 = {
    "Raw": (0.53, 0.16, -0.06, 0.00, 0.24, 0.46),
    "Rollout": (0.22, 0.27, 0.39, 0.47, 0.53, 0.54),
    "Flow": (0.22, 0.31, 0.54, 0.61, 0.60, 0.61),
}
_T3 = {"Raw": (0.12, 0.09, 0.08, 0.09), "Rollout": (0.11, 0.12, 0.13, 0.13), "Flow": (0.11, 0.11, 0.12, 0.14)}


def table1(study: Study) -> Findings:
    """Attention, rollout and flow against blank-out, by layer (verb number)."""
    return _verb(study, "blank_out", _T1, "abnar-blank-out")


def table2(study: Study) -> Findings:
    """The same against input gradients."""
    return _verb(study, "grad_sum", _T2, "abnar-gradients")


def _verb(study: Study, reference: str, published: Mapping[str, tuple[float, ...]], part: str) -> Findings:
    rows = [{"id": r["id"], "text": r["prefix"], "label": r["number"]} for r in study.rows("sva/test.jsonl")]
    panel = _panel(study, part, "verb_number", rows, reference, None)
    paper = {(m, k): v for m, column in published.items() for k, v in zip(panel.columns, column, strict=False)}
    panel = replace(panel, paper=paper)
    notes = (
        "Raw: the [CLS] row of a layer's own attention; rollout and flow up to the layer. The paper's model was "
        "trained from nothing (6 layers x 8 heads, its own vocabulary), ours is the tuned MiniLM (6 x 12).",
        "Blank-out: |p - p'|, [UNK]. Input gradients: |sum over dimensions| of the gradient of the gold class's logit.",
    )
    return Findings((panel,), notes)


def verb_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Rollout and flow against raw attention, flow against rollout, from the second layer up."""
    (panel,) = panels
    orders = (
        ("Rollout correlates better than raw attention", "Rollout", "Raw"),
        ("Flow correlates better than raw attention", "Flow", "Raw"),
        ("Flow is more reliable than rollout", "Flow", "Rollout"),
    )
    return [beats(panel, f"{text}, layer {k}", k, a, [b]) for text, a, b in orders for k in panel.columns[1:]]


def table3(study: Study) -> Findings:
    """Against input gradients on SST-2."""
    rows = study.rows("sst2/dev.jsonl", at_most=100)
    panel = _panel(study, "abnar-sst2", "sst2", rows, "grad_sum", (1, 3, 5, 6))
    paper = {(m, k): v for m, column in _T3.items() for k, v in zip(panel.columns, column, strict=False)}
    panel = replace(panel, paper=paper)
    return Findings(
        (panel,),
        ("The paper's model is DistilBERT. Its code takes the last class's logit, we the gold one's.",),
    )


def table3_claims(panels: Sequence[Panel]) -> list[Claim]:
    """Slightly better than raw attention."""
    (panel,) = panels
    text, last = "is slightly better than raw attention in the last layer", panel.columns[-1]
    return [beats(panel, f"{m} {text}", last, m, ["Raw"], SLIGHT) for m in ("Rollout", "Flow")]


def _panel(
    study: Study, part: str, role: str, rows: list[Any], reference: str, chosen: tuple[int, ...] | None
) -> Panel:
    options = {reference: {"absolute": True}}
    settings: dict[str, Any] = {"target": "label", "options": options}
    measures = (f"spearman:{reference}",)
    raw = study.evaluate(f"{part}-raw", role, rows, [("Raw", _METHODS["Raw"], {})], measures, layers="each", **settings)
    summed: list[Method] = [(name, method, {}) for name, method in _METHODS.items() if name != "Raw"]
    up_to = study.evaluate(f"{part}-up-to", role, rows, summed, measures, layers="upto", **settings)
    count = 1 + max(row.layer for row in raw if row.layer is not None)
    layers = [k for k in (chosen or range(1, count + 1)) if k <= count]
    values: dict[tuple[str, str], Values | Number] = {}
    for name in _METHODS:
        table = raw if name == "Raw" else up_to
        values |= {(name, str(k)): table.values("spearman", name, k - 1) for k in layers}
    return Panel(
        f"Spearman with {reference}",
        tuple(_METHODS),
        tuple(map(str, layers)),
        values,
        shape="lines",
        resamples=study.resamples,
    )
