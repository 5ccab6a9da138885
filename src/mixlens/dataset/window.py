"""The texts of a window to rows of a file: explained together, longest first, and written in the data's order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixlens.answer.classes import find
from mixlens.attribute.calls import attributions, request
from mixlens.attribute.over_windows import Windows, over_windows
from mixlens.capture.stream import Stream
from mixlens.errors import DataError, MissingExtra, NotFinite, TargetError, UnknownMethod, UnknownOption
from mixlens.evaluation.explain import Failure, failure, target_of
from mixlens.evaluation.log import Record
from mixlens.evaluation.walk import Window, read_rows
from mixlens.lens import Lens
from mixlens.progress import Progress
from mixlens.results import Attribution
from mixlens.results.shards import failed_row, row_of
from mixlens.subject.head import Head
from mixlens.tasks import Example, Task
from mixlens.tasks.classes import gold
from mixlens.tasks.fields import Fields, column_of

Read = tuple[int, Example, Stream]
Row = dict[str, Any]
TOGETHER = 256  # texts in one call: the results of so many live beside each other
LONGEST = 200  # characters of another column's value that is kept
_FATAL = (UnknownMethod, UnknownOption, MissingExtra)  # the call's fault, not a text's


class Stopped(Exception):
    """Nobody waits for these rows any more."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What all windows have in common."""

    lens: Lens
    method: str
    options: Mapping[str, Any]
    target: Any
    task: Task
    batch_size: int
    truncate: bool
    memory: int | None = None
    windows: Windows | None = None

    @property
    def written(self) -> dict[str, Any]:
        """The options of a text's Attribution."""
        return {**self.options, **({} if self.windows is None else self.windows.written)}


def rows_of(setting: Setting, window: Window, tick: Callable[[int], None]) -> list[Row]:
    """A row for each row of the window, in its order. `tick(rows done)`. Raises what is the call's own fault."""
    texts, out = read_window(setting, window)
    before = len(out)
    tick(before)
    out |= rows_of_texts(setting, window, texts, lambda count: tick(before + count))
    return [out[number] for number, _ in window.rows]


def read_window(setting: Setting, window: Window) -> tuple[list[Read], dict[int, Row]]:
    """The texts of a window, longest first, and the rows of what cannot be explained, by their numbers."""
    head = setting.lens.head
    mask = getattr(setting.lens.tokenizer, "mask_token", None) if head.task == "masked" else None
    good, bad = read_rows(setting.lens, window.rows, setting.task, mask, setting.truncate, setting.windows is not None)
    given = dict(window.rows)
    out = {record.number: _unread(record, given[record.number], setting.task) for record in bad}
    answers = [entry for entry in good if entry[1].traced]
    for number, example, _ in answers:
        why = failure(DataError("expected a text, got a prompt with its answer; trace it: lens.trace(prompt, answer)"))
        out[number] = failed_row(number, example.id, example.prompt, example.label, {}, why.text)
    return [entry for entry in good if not entry[1].traced], out


def rows_of_texts(
    setting: Setting,
    window: Window,
    texts: Sequence[Read],
    tick: Callable[[int], None],
    report: Progress | None = None,
) -> dict[int, Row]:
    """The rows of texts of a window, by their numbers. `report`: told of every step; `Stopped` may be raised there."""
    given, out, head = dict(window.rows), {}, setting.lens.head
    for start in range(0, len(texts), TOGETHER):
        part = texts[start : start + TOGETHER]
        for (number, example, _), result in zip(part, explained(setting, part, report), strict=True):
            data, label = other_columns(given[number], setting.task), label_of(example, head)
            if isinstance(result, Failure):
                out[number] = failed_row(number, example.id, example.text, label, data, result.text)
            else:
                out[number] = row_of(number, example.id, label, data, result)
        tick(len(out))
    return out


def explained(setting: Setting, texts: Sequence[Read], report: Progress | None = None) -> list[Attribution | Failure]:
    """The Attributions of texts, or why there is none; one that fails is found by halves."""
    if not texts:
        return []
    try:
        return list(_attributions(setting, texts, report))
    except (*_FATAL, Stopped):
        raise
    except Exception as error:
        if len(texts) == 1:
            return [failure(error)]
    half = len(texts) // 2
    return explained(setting, texts[:half], report) + explained(setting, texts[half:], report)


def _attributions(setting: Setting, texts: Sequence[Read], report: Progress | None) -> list[Attribution]:
    subject = setting.lens.subject
    goals = [target_of(example, tokens, setting.target, subject.head) for _, example, tokens in texts]
    tokens = [tokens for _, _, tokens in texts]
    name, size, memory = setting.method, setting.batch_size, setting.memory
    if setting.windows is not None:
        results = over_windows(subject, name, setting.options, goals, tokens, setting.windows, size, report, memory)
    else:
        ask = request(subject, name, setting.options, goals, tokens, size, report, memory)
        (results,) = attributions(subject, [ask])
    for result in results:
        if not bool(result.scores.isfinite().all()):
            raise NotFinite(f"expected finite scores of {setting.method}, got NaN or infinity among them")
    return results


def label_of(example: Example, head: Head) -> str | None:
    """The gold label, by the model's name of its class where it is one."""
    if example.label is None:
        return None
    if head.task in ("sequence", "token") and not head.regression:
        try:
            return head.labels[find(head, gold(example.label, head.labels.values()), len(head.labels))]
        except TargetError:
            pass
    return str(example.label)


def other_columns(row: Any, task: Task) -> dict[str, Any]:
    """What a row of the data holds beside the task's own columns: numbers, flags and short strings."""
    if not isinstance(row, Mapping) or "input_ids" in row:
        return {}
    names = [name for field, names in task.names.items() if field != "label" for name in names]
    used = {column_of(name, row) for name in names}
    kept = {str(name): plain(value) for name, value in row.items() if name not in used}
    return {name: value for name, value in kept.items() if value is not None}


def plain(value: Any) -> Any:
    """A value that a table of its own can be made by, or None."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if isinstance(value, str):
        return value if len(value) <= LONGEST else None
    return value if isinstance(value, (bool, int, float)) else None


def _unread(record: Record, row: Any, task: Task) -> dict[str, Any]:
    """A row that could not be read: with its text, where that stands alone, and its id and other columns, if any."""
    data: dict[str, Any] = {}
    id: Any = None
    try:
        data = other_columns(row, task)
        id = Fields(row, task.names).find("id") if isinstance(row, Mapping) else None
    except DataError:  # even its columns are at fault
        pass
    text = row if isinstance(row, (str, tuple)) else getattr(row, "text", None)
    label = getattr(row, "label", None)
    return failed_row(record.number, record.id if id is None else str(id), text, label, data, record.error or "")
