"""What a run is made with, as its folder keeps it: a run goes on only where all of this is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mixlens.answer.spans import LONGEST_ANSWER
from mixlens.evaluation.design import Design, Yardstick
from mixlens.evaluation.fingerprint import model_facts, plain, versions
from mixlens.evaluation.given import Given
from mixlens.evaluation.scored import Setting
from mixlens.evaluation.vectors import layers_of
from mixlens.tasks import Source, Task


def manifest(setting: Setting, rows: Source, kind: Task, settings: Mapping[str, Any]) -> dict[str, Any]:
    """All that may change a number. `settings`: the rest of what was asked for."""
    design = setting.design
    corpora = {y.name: {**_facts(y), "layers": layers_of(setting.lens, y)} for y in design.corpora}
    return {
        "format": 2,
        "model": {"name": setting.lens.name, **model_facts(setting.lens)},
        "second": None if setting.second is None else model_facts(setting.second),
        "data": {"name": rows.name, "rows": rows.count, "fingerprint": rows.fingerprint},
        "task": {"name": kind.name, "fields": {k: list(v) for k, v in kind.names.items()}},
        "target": plain(setting.target),
        **settings,
        **({"exclude": list(setting.exclude)} if setting.exclude else {}),
        "batch_size": setting.batch_size,
        "methods": {label: plain(_job(design, label)) for label in design.methods},
        "asked": list(design.shown),
        "measures": {y.name: _facts(y) for y in design.yardsticks},
        **({"corpora": corpora} if corpora else {}),
        # (a run of before explained other spans of a question's context: it does not go on)
        **({"answers": f"spans of {LONGEST_ANSWER}"} if setting.lens.head.task == "question" else {}),
        "columns": [list(asdict(column).values()) for column in design.columns],
        "versions": versions(),
    }


def _facts(y: Yardstick) -> dict[str, Any]:
    return {
        "label": y.label,
        "measure": y.measure.name,
        "reference": y.reference,
        "reference_key": y.reference_key,
        "options": {**plain(y.options), **y.spans},
        "higher_is_better": y.measure.higher_is_better,
        "range": [str(end) for end in y.measure.range],
    }


def _job(design: Design, label: str) -> dict[str, Any]:
    """What a method's label stands for."""
    job = design.jobs[design.methods[label]]
    of = job.facts.record if isinstance(job.facts, Given) else {}
    return {"name": job.name, "options": dict(job.options), "layers": list(job.numbers), **of}
