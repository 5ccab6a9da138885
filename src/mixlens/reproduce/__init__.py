"""`mixlens reproduce NAME`: the papers' tables and figures, our numbers beside theirs; all in `REPRODUCTIONS`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mixlens.arguments import checked
from mixlens.errors import UnknownMethod, UnknownOption, did_you_mean
from mixlens.process import settled
from mixlens.progress import PartsProgress, barred
from mixlens.reproduce.claims import Claim
from mixlens.reproduce.findings import Findings, Number, Panel
from mixlens.reproduce.report import write
from mixlens.reproduce.study import BATCH, Study
from mixlens.reproduce.table import REPRODUCTIONS, Reproduction

__all__ = ["REPRODUCTIONS", "Claim", "Findings", "Number", "Panel", "Reproduction", "reproduce"]


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
    seeds: int | None = None,
    progress: PartsProgress | bool | None = None,
) -> Path:
    """Run one reproduction; its page (Markdown), numbers (CSV, JSON) and figures (PNG) stand in `out/NAME`.

    `data`: the folder of the data files (docs/reproduction.md). `limit`: at most so many texts a data set. `models`:
    role -> model for others than the embedded ones; the role "*" is all of them. `costly`: at most so many texts for
    integrated gradients, HTA and IMDB. `seeds`: of generated data (`known-source`: 3). Started again with the same
    arguments a killed run goes on. Raises UnknownMethod, UnknownOption, DataError, RunChanged. Returns the page's path.
    """
    if name not in REPRODUCTIONS:
        raise UnknownMethod(f"no reproduction {name!r}{did_you_mean(name, REPRODUCTIONS)}")
    entry, folder = REPRODUCTIONS[name], Path(out) / name
    for role in models or {}:
        if role not in (*entry.roles, "*"):
            raise UnknownOption(f"expected a model for {', '.join(entry.roles)} in {name}, got one for {role!r}")
    report: Any = progress  # a function or None, by `barred`
    where = None if data is None else Path(data)
    study = Study(
        name,
        where,
        folder,
        Path(out) / "runs",
        limit,
        models or {},
        device,
        batch_size,
        costly=costly,
        seeds=seeds,
        progress=report,
    )
    folder.mkdir(parents=True, exist_ok=True)
    findings = entry.run(study)
    return write(entry.cite, entry.title, study, findings, entry.claims(findings.panels))
