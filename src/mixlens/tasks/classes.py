"""The names of classes that a data set's own features hold beside the numbers in its label column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mixlens.errors import TargetError
from mixlens.tasks.fields import column_of
from mixlens.tasks.table import Task

Names = Mapping[str, tuple[str, ...]]  # column -> its classes' names, by number


def class_names(features: Any) -> dict[str, tuple[str, ...]]:
    """Of the features of a `datasets.Dataset`, or of their JSON form: the columns of ClassLabels."""
    if not isinstance(features, Mapping):
        return {}
    names = {k: f.get("names") if isinstance(f, Mapping) else getattr(f, "names", None) for k, f in features.items()}
    return {k: tuple(n) for k, n in names.items() if isinstance(n, list) and all(isinstance(name, str) for name in n)}


def arrow_names(schema: Any) -> dict[str, tuple[str, ...]]:
    """Of an Arrow schema: where `datasets` wrote the file, its features stand in the metadata."""
    try:
        metadata = json.loads((getattr(schema, "metadata", None) or {})[b"huggingface"])
        return class_names(metadata["info"]["features"])
    except (ValueError, KeyError, TypeError):
        return {}


def gold(label: str | int, known: Collection[str]) -> str | int:
    """A label as a target: `"1.0"`, which a table makes of 1 where one label is missing, is the number 1.

    Unless the model has a class of that very name.
    """
    if isinstance(label, str) and label not in known and re.fullmatch(r"\s*\d+\.0*\s*", label):
        return int(float(label))
    return label


def refuse_numbers(labels: Iterable[tuple[int, Any]], known: Sequence[str]) -> None:
    """Raises TargetError for gold labels, each beside its row, that are numbers beyond the classes of a model.

    The others mean no classes either: of stars from 1 to 5, 1 would be class 1. `known`: as in `named`.
    """
    for row, label in labels:
        number = None if label is None or label in known else gold(str(label).strip(), known)
        if known and str(number).isdecimal() and int(str(number)) >= len(known):
            raise TargetError(
                f"expected gold labels that are classes of the model ({_few(known)}) or their numbers, got {label!r} "
                f"in row {row}; are they stars? then map them to classes first, or leave target='label' out"
            )


def named(names: Names, task: Task, known: Sequence[str], explained: bool) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Rows with the names of their classes for numbers, in the label's columns; -1, where there is no label, is None.

    `known`: the labels of the model, none where it has no classes. A model that names none of its classes (LABEL_0,
    ...) takes the numbers. `explained`: the gold label is what is explained. Raises TargetError where it is and the
    model has none of the names.
    """
    columns_of_label = (column_of(name, names) for name in task.names.get("label", ()))
    columns = {k: _read(k, names[k], known, explained) for k in columns_of_label if k is not None}

    def rows(data: Iterator[Any]) -> Iterator[Any]:
        for row in data:
            if isinstance(row, Mapping):
                yield {**row, **{k: _label(row[k], columns[k]) for k in columns if k in row}}
            else:
                yield row

    return rows if columns else lambda data: data


def _read(column: str, names: tuple[str, ...], known: Sequence[str], explained: bool) -> tuple[str, ...]:
    """The names to read numbers by; () where the number itself is the label. Raises TargetError."""
    if names == tuple(str(i) for i in range(len(names))):
        return ()
    folded = {label.casefold() for label in known}
    if not folded or any(name.casefold() in folded for name in names):
        return names
    if len(names) == len(known) and all(re.fullmatch(r"LABEL_\d+", label) for label in known):
        return ()
    if not explained:
        return names
    raise TargetError(
        f"expected labels of the model ({_few(known)}), the data's column {column!r} has {_few(names)}; give its "
        f"classes the model's names, in their order: data.cast_column({column!r}, datasets.ClassLabel(names=[...]))"
    )


def _label(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return value
    try:
        number = int(value)
    except (TypeError, ValueError):
        return value
    if number < 0:
        return None
    return names[number] if number < len(names) else number


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
