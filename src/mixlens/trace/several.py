"""Several prompts in one call, each with its answer, foil and documents: one Trace each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mixlens.arguments import checked
from mixlens.attribute.calls import attribution_method
from mixlens.attribute.defaults import default_method
from mixlens.capture.fed import SOUNDS
from mixlens.capture.given import as_list, is_id
from mixlens.errors import EmptyInput, InputError
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter
from mixlens.results import Results, Trace
from mixlens.subject import Subject
from mixlens.subject.several import one_by_one
from mixlens.trace import calls
from mixlens.trace.answered import rows_of
from mixlens.trace.prompt import require_answers
from mixlens.trace.sounds import sounds_of


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


@settled
@barred
@checked
def trace(
    subject: Subject,
    /,
    prompt: Any,
    answer: Any = None,
    method: str | None = None,
    foil: Any = None,
    *,
    documents: Mapping[str, str] | Sequence[Mapping[str, str] | None] | None = None,
    max_new_tokens: int = 64,
    generate: Mapping[str, Any] | None = None,
    exclude: str | Sequence[str] = (),
    batch_size: int = 32,
    memory: int | str | None = None,
    progress: Progress | bool | None = None,
    errors: str = "raise",
    **options: Any,
) -> Trace | Results[Any]:
    """Where the whole answer of a language model comes from: each answer token back to the prompt before it.

    `prompt`: a str, token ids, or chat messages (`[{"role": ..., "content": ...}]`; the tokenizer's template). A list
    of prompts gives a list of traces, one after the other: `answer`, `foil` and `documents` are then one for all or a
    list of one each, and `errors` says what becomes of one that fails, as in `mixing`. `documents`: texts by name, put
    where the prompt says `"{documents}"`, else in front (in a chat, of the last user's message). `answer`: a str or
    token ids; None: what the model generates, at most `max_new_tokens`, greedily unless `generate`, arguments of its
    own `generate`, says otherwise. `foil`: another answer as long, or one token: why this rather than that. `method`:
    as in `attribute`, with its default. `exclude`: sources left out before rows are divided: "first", "template", or
    roles of the chat. `batch_size`, `memory`, `progress` and `options`: as in `attribute`. One pass for methods of maps
    and logits, a backward pass beside it for each answer token for gradients at hidden states, else one call of
    `attribute` for each. Raises InputError, MethodError, ModelError, OverBudget.

    Examples:
        >>> chat = mixlens.load("mixlens:smollm2")  # doctest: +SKIP
        >>> prompt = "Anna has a red car. Tom has a blue bike. Anna has a red"  # doctest: +SKIP
        >>> trace = chat.trace(prompt, max_new_tokens=1)  # doctest: +SKIP
        >>> trace.answer.display, trace.top(1)[0].sources[0].unit.text  # doctest: +SKIP
        (('car',), 'car')
    """
    require_answers(subject)
    report = reporter(progress)
    settings: dict[str, Any] = {
        "method": method,
        "max_new_tokens": max_new_tokens,
        "generate": generate,
        "exclude": exclude,
        "batch_size": batch_size,
        "memory": memory,
        "options": options,
    }
    hears = subject.head.fed in SOUNDS
    prompts, single = sounds_of(prompt) if hears else prompts_of(prompt)
    if single:
        texts: Any = documents
        return calls.trace(subject, prompts[0], answer, foil=foil, documents=texts, progress=report, **settings)
    require_answers(subject)
    name = default_method(subject) if method is None else method
    attribution_method(subject, name, options)  # what is wrong with it is no prompt's fault
    count = len(prompts)
    replies = _each("answer", answer, count)
    others, files = _each("foil", foil, count), _each("documents", documents, count)

    def run(number: int) -> Trace:
        parts, alone = ([prompts[number]], True) if hears else prompts_of(prompts[number])
        if not alone:
            raise InputError(
                "expected prompts in a list, each a str, token ids or chat messages, got a list of several in it: "
                f"{prompts[number]!r:.60}"
            )
        result = calls.trace(
            subject, parts[0], replies[number], foil=others[number], documents=files[number], **settings
        )
        if report is not None:
            report(number + 1, count)
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
