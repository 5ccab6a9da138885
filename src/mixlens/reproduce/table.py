"""The table of reproductions: one line a table or figure of a paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mixlens.reproduce import abnar, ferrando, known, modarressi, mohebbi, qiang, single
from mixlens.reproduce.claims import Claim
from mixlens.reproduce.findings import Findings, Panel
from mixlens.reproduce.study import Study

Claims = Callable[[Sequence[Panel]], list[Claim]]


def _none(_: Sequence[Panel]) -> list[Claim]:
    """Pictures alone claim nothing that could be tested."""
    return []


@dataclass(frozen=True)
class Reproduction:
    """One table or figure: what measures it, and what the paper claims of what was measured.

    `roles`: the embedded models that it uses, which `models` may replace.
    """

    cite: str
    title: str
    run: Callable[[Study], Findings]
    roles: tuple[str, ...]
    claims: Claims = _none


_MODARRESSI, _FERRANDO, _MOHEBBI = "Modarressi 2022", "Ferrando 2022", "Mohebbi 2023"
_ABNAR, _QIANG = "Abnar & Zuidema 2020", "Qiang 2022"
_THREE = ("sst2", "inference", "hate")
_SIX = ("sst2", "paraphrase", "inference")

REPRODUCTIONS: dict[str, Reproduction] = {
    "globenc-table1": Reproduction(
        f"{_MODARRESSI}, Table 1",
        "maps rolled out, against saliency",
        modarressi.table1,
        _THREE,
        modarressi.table1_claims,
    ),
    "globenc-table2": Reproduction(
        f"{_MODARRESSI}, Table 2", "single layers and rollout", modarressi.table2, ("sst2",), modarressi.table2_claims
    ),
    "globenc-figure3": Reproduction(
        f"{_MODARRESSI}, Figure 3", "rollout, layer by layer", modarressi.figure3, ("sst2",), modarressi.figure3_claims
    ),
    "globenc-figure4": Reproduction(
        f"{_MODARRESSI}, Figure 4",
        "single layers against HTA",
        modarressi.figure4,
        ("sst2",),
        modarressi.figure4_claims,
    ),
    "globenc-figure5": Reproduction(
        f"{_MODARRESSI}, Figure 5",
        "outlier weights of the LayerNorms",
        modarressi.figure5,
        ("sst2",),
        modarressi.figure5_claims,
    ),
    "alti-table2": Reproduction(
        f"{_FERRANDO}, Table 2",
        "rollouts against grad_l2 and blank-out",
        ferrando.table2,
        ("sst2", "masked_verb"),
        ferrando.table2_claims,
    ),
    "alti-figure3": Reproduction(
        f"{_FERRANDO}, Figure 3", "anisotropy", ferrando.figure3, ("sst2",), ferrando.figure3_claims
    ),
    "alti-figure6": Reproduction(
        f"{_FERRANDO}, Figure 6", "ranks of special tokens", ferrando.figure6, ("sst2",), ferrando.figure6_claims
    ),
    "alti-figure7": Reproduction(
        f"{_FERRANDO}, Figure 7",
        "consistency of two models",
        ferrando.figure7,
        ("sst2", "sst2_cut"),
        ferrando.figure7_claims,
    ),
    "alti-figures8-10": Reproduction(
        f"{_FERRANDO}, Figures 8 to 10", "three methods' maps", ferrando.figures8to10, ("sst2",)
    ),
    "vz-figure2": Reproduction(
        f"{_MOHEBBI}, Figure 2", "cue alignment by layer", mohebbi.figure2, ("agreement",), mohebbi.alignment_claims
    ),
    "vz-figure3": Reproduction(
        f"{_MOHEBBI}, Figure 3", "probing by layer", mohebbi.figure3, ("agreement",), mohebbi.figure3_claims
    ),
    "vz-table2": Reproduction(
        f"{_MOHEBBI}, Table 2", "cue alignment and probing", mohebbi.table2, ("agreement",), mohebbi.table2_claims
    ),
    "vz-table3": Reproduction(
        f"{_MOHEBBI}, Table 3", "scores against blank-out", mohebbi.table3, ("agreement",), mohebbi.table3_claims
    ),
    "vz-figureA1": Reproduction(
        f"{_MOHEBBI}, Figure A.1", "distance functions", mohebbi.figure_a1, ("agreement",), mohebbi.figure_a1_claims
    ),
    "vz-figureA2": Reproduction(
        f"{_MOHEBBI}, Figure A.2", "probes needed by layer", mohebbi.figure_a2, ("agreement",), mohebbi.alignment_claims
    ),
    "abnar-table1": Reproduction(
        f"{_ABNAR}, Table 1", "verb number, blank-out", abnar.table1, ("verb_number",), abnar.verb_claims
    ),
    "abnar-table2": Reproduction(
        f"{_ABNAR}, Table 2", "verb number, gradients", abnar.table2, ("verb_number",), abnar.verb_claims
    ),
    "abnar-table3": Reproduction(
        f"{_ABNAR}, Table 3", "SST-2, gradients", abnar.table3, ("sst2",), abnar.table3_claims
    ),
    "attcat-table1": Reproduction(f"{_QIANG}, Table 1", "AOPC and log-odds", qiang.table1, _SIX, qiang.table1_claims),
    "attcat-table2": Reproduction(f"{_QIANG}, Table 2", "Kendall confidence", qiang.table2, _SIX, qiang.table2_claims),
    "attcat-figure3": Reproduction(
        f"{_QIANG}, Figure 3", "Precision@20", qiang.figure3, ("question",), qiang.figure3_claims
    ),
    "attcat-figure4": Reproduction(
        f"{_QIANG}, Figure 4", "AttCAT layer by layer", qiang.figure4, ("sst2",), qiang.figure4_claims
    ),
    "abnar-figures1-3": Reproduction(
        f"{_ABNAR}, Figures 1 to 3", "single beginnings, three views", single.abnar_figures1to3, ("verb_number",)
    ),
    "globenc-figures1-A4": Reproduction(
        f"{_MODARRESSI}, Figures 1 and A.1 to A.4",
        "maps of single texts",
        single.globenc_figures,
        ("sst2", "inference"),
    ),
    "alti-figure5": Reproduction(
        f"{_FERRANDO}, Figure 5", "a sentence's map and [CLS] row", single.alti_figure5, ("sst2",)
    ),
    "alti-tables1-9": Reproduction(
        f"{_FERRANDO}, Tables 1 and 3 to 9",
        "single texts, by several methods",
        single.alti_tables,
        ("sst2", "masked_verb"),
    ),
    "vz-figure4": Reproduction(
        f"{_MOHEBBI}, Figure 4", "a sentence's scores, by several methods", single.vz_figure4, ("agreement",)
    ),
    "vz-figuresA5-A18": Reproduction(
        f"{_MOHEBBI}, Figures A.5 to A.18", "a sentence's maps, by several methods", single.vz_maps, ("agreement",)
    ),
    "attcat-figure5": Reproduction(
        f"{_QIANG}, Figure 5", "single texts, by several methods", single.attcat_figure5, ("question", "sst2")
    ),
    "known-source": Reproduction(
        "No paper's table", "which method finds the known source of an answer", known.table, ("smollm2",)
    ),
}
