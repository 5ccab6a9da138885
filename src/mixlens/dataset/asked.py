"""What is asked of every text of a data set, checked before one is explained, or the run planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mixlens.answer import check_target
from mixlens.arguments import shown
from mixlens.attribute.calls import attribution_method
from mixlens.attribute.defaults import default_method
from mixlens.attribute.method import Method
from mixlens.attribute.over_windows import of_windows
from mixlens.dataset.window import Setting
from mixlens.errors import TargetError, Undefined, UnknownOption
from mixlens.evaluation.naming import source_named
from mixlens.evaluation.refusals import refuse_class
from mixlens.lens import Lens
from mixlens.tasks import Source, Task, source
from mixlens.tasks import task as task_named


def asked_of(
    lens: Lens,
    data: Any,
    method: str | None,
    options: Mapping[str, Any],
    target: Any,
    field: str | Mapping[str, str | Sequence[str]] | None,
    task: str | Task,
    encoding: str | None,
    truncate: bool,
    window: int | None,
    stride: int | None,
    batch_size: int,
) -> tuple[Setting, Method, Source]:
    """What all texts have in common, the method for this model, and the rows they stand in.

    Raises what is the call's own fault.
    """
    kind = _fields_of(task_named(task) if isinstance(task, str) else task, field)
    name = default_method(lens.subject, options) if method is None else method
    chosen = attribution_method(lens.subject, name, options)
    windows = of_windows(lens.subject, window, stride, truncate, options)
    _refuse_target(lens, target)
    rows = source_named(source(data, encoding), kind, lens.head, target)
    return Setting(lens, name, options, target, kind, batch_size, truncate, None, windows), chosen, rows


def _fields_of(task: Task, field: str | Mapping[str, str | Sequence[str]] | None) -> Task:
    """The task with the caller's columns. Raises UnknownOption."""
    if task.name == "documents":
        raise Undefined("explain_data explains texts, got the task documents; trace its answers: lens.trace(prompt)")
    if field is None:
        return task
    if isinstance(field, str):
        if "text" not in task.names:
            names = ", ".join(f"{name!r}: ..." for name in task.names if name not in ("id", "label"))
            raise UnknownOption(f"expected field= {{{names}}} for the task {task.name}, got {shown(field)}")
        field = {"text": field}
    if not isinstance(field, Mapping):
        raise UnknownOption(f"expected field= a column's name, or a mapping of fields to columns, got {shown(field)}")
    named = task_named(task.name, **field)  # checks them
    return replace(task, names={**task.names, **{name: named.names[name] for name in field}})


def _refuse_target(lens: Lens, target: Any) -> None:
    """Raises TargetError for what no text of this model can be explained for."""
    if isinstance(target, list):
        raise TargetError(
            "expected one target= for all texts, got a list; target='label' explains each text's gold label"
        )
    if isinstance(target, str) and target == "all" and "all" not in lens.head.labels.values():
        raise TargetError(
            "expected one class for all texts, got target='all', which is for one text; ask for each class in a folder "
            "of its own"
        )
    if target is not None and not (isinstance(target, str) and target == "label"):
        refuse_class(lens, check_target(target))
