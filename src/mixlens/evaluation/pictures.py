"""Which pictures a run will have, as far as its design tells: what has none is refused before hours of work."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from mixlens.evaluation.design import Design, Yardstick
from mixlens.evaluation.result import Table


def refuse_picture(design: Design, kind: str | None, measure: str | None) -> None:
    """Raises UnknownOption where the table of this design cannot have the picture, as `Table.plot` would say of it."""
    from mixlens.view import evaluation

    manifest = {
        "asked": list(design.shown),
        "measures": {y.name: _facts(y) for y in design.yardsticks},
        "corpora": {y.name: _facts(y) for y in design.corpora},
        "columns": [list(asdict(column).values()) for column in design.columns],
    }
    evaluation.drawn(Table((), manifest, Path()), kind, measure, ran=False)


def _facts(y: Yardstick) -> dict[str, Any]:
    return {"label": y.label, "reference": y.reference, "higher_is_better": y.measure.higher_is_better}
