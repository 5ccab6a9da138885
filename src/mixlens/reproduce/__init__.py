"""`mixlens reproduce NAME`: the papers' tables and figures, our numbers beside theirs; all in `REPRODUCTIONS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mixlens.arguments import checked
from mixlens.errors import UnknownMethod, UnknownOption, did_you_mean
from mixlens.process import settled
from mixlens.progress import barred
from mixlens.reproduce import abnar, alti, attcat, globenc, value_zeroing
from mixlens.reproduce.findings import Claim, Findings, Number, Panel
from mixlens.reproduce.report import write
from mixlens.reproduce.study import BATCH, Progress, Study

__all__ = ["REPRODUCTIONS", "Claim", "Findings", "Number", "Panel", "Reproduction", "reproduce"]


@dataclass(frozen=True)
class Reproduction:
    """One table or figure. `roles`: the embedded models that it uses, which `models` may replace."""

    cite: str
    title: str
    run: Callable[[Study], Findings]
    roles: tuple[str, ...]


_GLOBENC, _ALTI, _VZ = "Modarressi 2022", "Ferrando 2022", "Mohebbi 2023"
_ABNAR, _QIANG = "Abnar & Zuidema 2020", "Qiang 2022"
_THREE = ("sst2", "inference", "hate")
_SIX = ("sst2", "paraphrase", "inference")

REPRODUCTIONS: dict[str, Reproduction] = {
    "globenc-table1": Reproduction(f"{_GLOBENC}, Table 1", "maps rolled out, against saliency", globenc.table1, _THREE),
    "globenc-table2": Reproduction(f"{_GLOBENC}, Table 2", "single layers and rollout", globenc.table2, ("sst2",)),
    "globenc-figure3": Reproduction(f"{_GLOBENC}, Figure 3", "rollout, layer by layer", globenc.figure3, ("sst2",)),
    "globenc-figure4": Reproduction(f"{_GLOBENC}, Figure 4", "single layers against HTA", globenc.figure4, ("sst2",)),
    "globenc-figure5": Reproduction(
        f"{_GLOBENC}, Figure 5", "outlier weights of the LayerNorms", globenc.figure5, ("sst2",)
    ),
    "alti-table2": Reproduction(
        f"{_ALTI}, Table 2", "rollouts against grad_l2 and blank-out", alti.table2, ("sst2", "masked_verb")
    ),
    "alti-figure3": Reproduction(f"{_ALTI}, Figure 3", "anisotropy", alti.figure3, ("sst2",)),
    "alti-figure6": Reproduction(f"{_ALTI}, Figure 6", "ranks of special tokens", alti.figure6, ("sst2",)),
    "alti-figure7": Reproduction(f"{_ALTI}, Figure 7", "consistency of two models", alti.figure7, ("sst2", "sst2_cut")),
    "alti-figures8-10": Reproduction(f"{_ALTI}, Figures 8 to 10", "three methods' maps", alti.figures8to10, ("sst2",)),
    "vz-figure2": Reproduction(f"{_VZ}, Figure 2", "cue alignment by layer", value_zeroing.figure2, ("agreement",)),
    "vz-figure3": Reproduction(f"{_VZ}, Figure 3", "probing by layer", value_zeroing.figure3, ("agreement",)),
    "vz-table2": Reproduction(f"{_VZ}, Table 2", "cue alignment and probing", value_zeroing.table2, ("agreement",)),
    "vz-table3": Reproduction(f"{_VZ}, Table 3", "scores against blank-out", value_zeroing.table3, ("agreement",)),
    "vz-figureA1": Reproduction(f"{_VZ}, Figure A.1", "distance functions", value_zeroing.figure_a1, ("agreement",)),
    "vz-figureA2": Reproduction(
        f"{_VZ}, Figure A.2", "probes needed by layer", value_zeroing.figure_a2, ("agreement",)
    ),
    "abnar-table1": Reproduction(f"{_ABNAR}, Table 1", "verb number, blank-out", abnar.table1, ("verb_number",)),
    "abnar-table2": Reproduction(f"{_ABNAR}, Table 2", "verb number, gradients", abnar.table2, ("verb_number",)),
    "abnar-table3": Reproduction(f"{_ABNAR}, Table 3", "SST-2, gradients", abnar.table3, ("sst2",)),
    "attcat-table1": Reproduction(f"{_QIANG}, Table 1", "AOPC and log-odds", attcat.table1, _SIX),
    "attcat-table2": Reproduction(f"{_QIANG}, Table 2", "Kendall confidence", attcat.table2, _SIX),
    "attcat-figure3": Reproduction(f"{_QIANG}, Figure 3", "Precision@20", attcat.figure3, ("question",)),
    "attcat-figure4": Reproduction(f"{_QIANG}, Figure 4", "AttCAT layer by layer", attcat.figure4, ("sst2",)),
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
    """Run one reproduction; its page (Markdown), numbers (CSV) and figures (PNG) stand in `out/NAME`.

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
    return write(found.cite, found.title, study, found.run(study))
