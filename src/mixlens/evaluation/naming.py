"""Rows of a data set with the names that the data has for its labels' numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixlens.subject.head import Head
from mixlens.tasks import Source, Task
from mixlens.tasks.classes import named


def source_named(rows: Source, kind: Task, head: Head, target: Any) -> Source:
    """The rows, their labels by name where the data's features say it. Raises TargetError."""
    known = classes_of(head)
    read = named(rows.names, kind, known, isinstance(target, str) and target == "label")
    return replace(rows, rows=lambda: read(rows.rows()))


def classes_of(head: Head) -> list[str]:
    """The labels of a model of classes, by number; of another none."""
    return list(head.labels.values()) if head.task in ("sequence", "token") and not head.regression else []
