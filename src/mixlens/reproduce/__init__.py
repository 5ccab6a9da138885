"""`mixlens reproduce NAME`: the papers' tables and figures, our numbers beside theirs; all in `REPRODUCTIONS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlens.arguments import checked
from mixlens.errors import UnknownMethod, UnknownOption, did_you_mean
from mixlens.process import settled
from mixlens.progress import barred
from mixlens.reproduce import abnar as b
from mixlens.reproduce import alti as a
from mixlens.reproduce import attcat as q
from mixlens.reproduce import globenc as g
from mixlens.reproduce import value_zeroing as v
from mixlens.reproduce.claims import Claim
from mixlens.reproduce.findings import Findings, Number, Panel
from mixlens.reproduce.report import write
from mixlens.reproduce.single import PAGES
from mixlens.reproduce.study import BATCH, Progress, Study

__all__ = ["REPRODUCTIONS", "Claim", "Findings", "Number", "Panel", "Reproduction", "reproduce"]


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


_GLOBENC, _ALTI, _VZ = "Modarressi 2022", "Ferrando 2022", "Mohebbi 2023"
_ABNAR, _QIANG = "Abnar & Zuidema 2020", "Qiang 2022"
_THREE = ("sst2", "inference", "hate")
_SIX = ("sst2", "paraphrase", "inference")

_LINES: tuple[tuple[str, str, str, str, Callable[[Study], Findings], tuple[str, ...], Claims], ...] = (
    # name, paper, what, title, run, roles, claims
    ("globenc-table1", _GLOBENC, "Table 1", "maps rolled out, against saliency", g.table1, _THREE, g.table1_claims),
    ("globenc-table2", _GLOBENC, "Table 2", "single layers and rollout", g.table2, ("sst2",), g.table2_claims),
    ("globenc-figure3", _GLOBENC, "Figure 3", "rollout, layer by layer", g.figure3, ("sst2",), g.figure3_claims),
    ("globenc-figure4", _GLOBENC, "Figure 4", "single layers against HTA", g.figure4, ("sst2",), g.figure4_claims),
    (
        "globenc-figure5",
        _GLOBENC,
        "Figure 5",
        "outlier weights of the LayerNorms",
        g.figure5,
        ("sst2",),
        g.figure5_claims,
    ),
    (
        "alti-table2",
        _ALTI,
        "Table 2",
        "rollouts against grad_l2 and blank-out",
        a.table2,
        ("sst2", "masked_verb"),
        a.table2_claims,
    ),
    ("alti-figure3", _ALTI, "Figure 3", "anisotropy", a.figure3, ("sst2",), a.figure3_claims),
    ("alti-figure6", _ALTI, "Figure 6", "ranks of special tokens", a.figure6, ("sst2",), a.figure6_claims),
    (
        "alti-figure7",
        _ALTI,
        "Figure 7",
        "consistency of two models",
        a.figure7,
        ("sst2", "sst2_cut"),
        a.figure7_claims,
    ),
    ("alti-figures8-10", _ALTI, "Figures 8 to 10", "three methods' maps", a.figures8to10, ("sst2",), _none),
    ("vz-figure2", _VZ, "Figure 2", "cue alignment by layer", v.figure2, ("agreement",), v.alignment_claims),
    ("vz-figure3", _VZ, "Figure 3", "probing by layer", v.figure3, ("agreement",), v.figure3_claims),
    ("vz-table2", _VZ, "Table 2", "cue alignment and probing", v.table2, ("agreement",), v.table2_claims),
    ("vz-table3", _VZ, "Table 3", "scores against blank-out", v.table3, ("agreement",), v.table3_claims),
    ("vz-figureA1", _VZ, "Figure A.1", "distance functions", v.figure_a1, ("agreement",), v.figure_a1_claims),
    ("vz-figureA2", _VZ, "Figure A.2", "probes needed by layer", v.figure_a2, ("agreement",), v.alignment_claims),
    ("abnar-table1", _ABNAR, "Table 1", "verb number, blank-out", b.table1, ("verb_number",), b.verb_claims),
    ("abnar-table2", _ABNAR, "Table 2", "verb number, gradients", b.table2, ("verb_number",), b.verb_claims),
    ("abnar-table3", _ABNAR, "Table 3", "SST-2, gradients", b.table3, ("sst2",), b.table3_claims),
    ("attcat-table1", _QIANG, "Table 1", "AOPC and log-odds", q.table1, _SIX, q.table1_claims),
    ("attcat-table2", _QIANG, "Table 2", "Kendall confidence", q.table2, _SIX, q.table2_claims),
    ("attcat-figure3", _QIANG, "Figure 3", "Precision@20", q.figure3, ("question",), q.figure3_claims),
    ("attcat-figure4", _QIANG, "Figure 4", "AttCAT layer by layer", q.figure4, ("sst2",), q.figure4_claims),
)
REPRODUCTIONS: dict[str, Reproduction] = {
    name: Reproduction(f"{paper}, {what}", title, run, roles, claims)
    for name, paper, what, title, run, roles, claims in _LINES
}
_KEYS = {"abnar": _ABNAR, "globenc": _GLOBENC, "alti": _ALTI, "vz": _VZ, "attcat": _QIANG}
REPRODUCTIONS |= {
    name: Reproduction(f"{_KEYS[paper]}, {what}", title, run, roles)
    for name, (paper, what, title, run, roles) in PAGES.items()
}


@settled
@barred
@checked
def reproduce(
    name: str,
    out: str | Path,
    *,
    data: str | Path | None = None,
    limit: int | None = None,
    models: Mapping[str, str] | None = None,
    device: str | None = None,
    batch_size: int = BATCH,
    costly: int | None = None,
    progress: Progress | bool | None = None,
) -> Path:
    """Run one reproduction; its page (Markdown), numbers (CSV, JSON) and figures (PNG) stand in `out/NAME`.

    `data`: the folder of the data files (docs/reproduction.md). `limit`: at most so many texts a data set. `models`:
    role -> model for others than the embedded ones; the role "*" is all of them. `costly`: at most so many texts for
    integrated gradients, HTA and IMDB. Started again with the same arguments
    a killed run goes on. Raises UnknownMethod, UnknownOption, DataError, RunChanged. Returns the page's path.
    """
    if name not in REPRODUCTIONS:
        raise UnknownMethod(f"no reproduction {name!r}{did_you_mean(name, REPRODUCTIONS)}")
    found, folder = REPRODUCTIONS[name], Path(out) / name
    for role in models or {}:
        if role not in (*found.roles, "*"):
            raise UnknownOption(f"expected a model for {', '.join(found.roles)} in {name}, got one for {role!r}")
    report: Any = progress  # a function or None, by `barred`
    where = None if data is None else Path(data)
    study = Study(
        name, where, folder, Path(out) / "runs", limit, models or {}, device, batch_size, costly, progress=report
    )
    folder.mkdir(parents=True, exist_ok=True)
    findings = found.run(study)
    return write(found.cite, found.title, study, findings, found.claims(findings.panels))
