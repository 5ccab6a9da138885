"""Several prompts in one call, each with its answer, foil and documents: one Trace each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mixlens.attribute.calls import attribution_method
from mixlens.attribute.defaults import default_method
from mixlens.capture.given import as_list, is_id
from mixlens.errors import EmptyInput, InputError
from mixlens.progress import Progress
from mixlens.results import Results, Trace
from mixlens.subject import Subject
from mixlens.subject.several import one_by_one
from mixlens.trace.calls import trace
from mixlens.trace.prompt import require_answers, rows_of


def prompts_of(data: Any) -> tuple[list[Any], bool]:
    """The prompts of a call, and whether it was a single one: a str, token ids, chat messages or model inputs of one
    row are one; a list of those, a tensor or model inputs of several rows are several. Raises InputError.
    """
    if isinstance(data, Mapping) and "input_ids" in data:
        rows = rows_of(data)
        return [*rows], len(rows) == 1
    if hasattr(data, "tolist"):
        rows, single = as_list(data)
        single = single or len(rows) == 1
        return [_require(row) for row in rows] if rows else [data], single
    listed = isinstance(data, (list, tuple)) and len(data) > 0
    if not listed or all(map(is_id, data)) or any(isinstance(part, Mapping) and "role" in part for part in data):
        return [data], True
    if all(isinstance(part, (str, list, tuple, Mapping)) or hasattr(part, "tolist") for part in data):
        return [*data], False
    return [data], True  # the prompt's own reader says what is wrong with it


def traces(
    subject: Subject,
    prompt: Any,
    answered: Any = None,
    *,
    foil: Any = None,
    documents: Any = None,
    errors: str = "raise",
    progress: Progress | None = None,
    **settings: Any,
) -> Trace | Results[Any]:
    """The Trace of one prompt, or `Results` of several, one after the other (see `Lens.trace`).

    Of several, `answered`, `foil` and `documents` are one for all or a list of one each; what is wrong with one is
    raised with its number, or (`errors="skip"`) None stands in its place. Raises InputError, MethodError, ModelError,
    OverBudget.
    """
    prompts, single = prompts_of(prompt)
    if single:
        return trace(subject, prompts[0], answered, foil=foil, documents=documents, progress=progress, **settings)
    require_answers(subject)
    name = default_method(subject) if settings.get("method") is None else settings["method"]
    attribution_method(subject, name, settings.get("options") or {})  # what is wrong with it is no prompt's fault
    count = len(prompts)
    replies = _each("answer", answered, count)
    others, files = _each("foil", foil, count), _each("documents", documents, count)

    def run(number: int) -> Trace:
        parts, alone = prompts_of(prompts[number])
        if not alone:
            raise InputError(
                "expected prompts in a list, each a str, token ids or chat messages, got a list of several in it: "
                f"{prompts[number]!r:.60}"
            )
        result = trace(subject, parts[0], replies[number], foil=others[number], documents=files[number], **settings)
        if progress is not None:
            progress(number + 1, count)
        return result

    return one_by_one(run, count, errors == "skip")


def _require(row: Any) -> Any:
    if isinstance(row, InputError):
        raise row
    return row


def _each(name: str, given: Any, count: int) -> list[Any]:
    """One for each prompt: a list of as many, or one (a str, token ids, a mapping, None) for all. Raises InputError."""
    if isinstance(given, (list, tuple)) and not all(map(is_id, given)):
        if len(given) != count:
            raise InputError(f"expected one {name}, or one for each of {count} prompts, got {len(given)}")
        return [*given]
    if isinstance(given, Sequence) and not len(given):
        raise EmptyInput(f"expected one {name}, or one for each of {count} prompts, got none")
    return [given] * count
