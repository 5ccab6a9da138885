"""What a row of a data set means: the table `TASKS`, and `task()`, which fits a line of it to one's own columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from mixlens.arguments import checked
from mixlens.capture.given import Words
from mixlens.errors import DataError, UnknownOption, did_you_mean
from mixlens.tasks.example import Chars, Example
from mixlens.tasks.fields import Fields, Row, column_of, listed, plain, whole


@dataclass(frozen=True)
class Task:
    """A kind of labelled text. `names`: field -> columns. `read(fields, id, mask)`: a row to an Example.

    `measures`: those that mean something for it beside the ones that need a text alone. `optional`: fields that are
    read where a column is named for them, and only there.
    """

    name: str
    summary: str
    names: Mapping[str, tuple[str, ...]]
    function: Callable[[Fields, str, str | None], Example]
    measures: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def read(self, row: Row, number: int, mask: str | None = None) -> Example:
        """The Example of a row; its id is the row's, else its number. `mask`: the mask token. Raises DataError."""
        fields = Fields(row, self.names)
        given = fields.find("id")
        return self.function(fields, str(number if given is None else given), mask)


def _classification(fields: Fields, id: str, mask: str | None) -> Example:
    return Example(id, fields.text("text"), label=_label(fields.find("label")))


def _pairs(fields: Fields, id: str, mask: str | None) -> Example:
    return Example(id, (fields.text("first"), fields.text("second")), label=_label(fields.find("label")))


def _agreement(fields: Fields, id: str, mask: str | None) -> Example:
    text, target, foil = fields.text("text"), fields.text("target"), fields.text("foil")
    spans = fields.spans("target_span")
    if spans is None or len(spans) != 1:
        raise DataError(f"expected one [start, end) in 'target_span', got {spans}; it says where the target stands")
    ((start, end),) = spans
    if text[start:end] != target:
        raise DataError(f"expected {target!r} at characters {start} to {end}, got {text[start:end]!r} in {text!r:.80}")
    if mask is None:  # a model that reads on: what stands before the target, and the blank belongs to the target
        before = text[:start].rstrip()
        blank = " " if before and before != text[:start] else ""
        moved = [_before(fields.spans(name), len(before)) for name in ("cue", "phrase")]
        label = _label(fields.find("label"))
        return Example(id, before, label, blank + target, blank + foil, cue=moved[0], phrase=moved[1])
    masked = text[:start] + mask + text[end:]
    moved = [_moved(fields.spans(name), start, end, len(mask)) for name in ("cue", "phrase")]
    label = _label(fields.find("label"))
    label = target if label is None else label
    return Example(id, masked, label=label, target=target, foil=foil, cue=moved[0], phrase=moved[1])


def _question(fields: Fields, id: str, mask: str | None) -> Example:
    question, context = fields.text("question"), fields.text("context")
    given = fields.find("answer")
    answers = column_of("answers", fields.row)  # SQuAD's own column
    if isinstance(given, str) or (given is None and answers is None):
        answer, start = fields.text("answer"), fields.need("answer_start")
    else:
        first = _first(listed(given if given is not None or answers is None else fields.row[answers], "[{"))
        if first is None:
            return Example(id, (question, context))
        answer, start = first
    if not whole(start):
        raise DataError(f"expected the answer's first character in 'answer_start', got {start!r:.40}")
    start = int(start)
    if context[start : start + len(answer)] != answer:
        got = context[start : start + len(answer)]
        raise DataError(f"expected the answer {answer!r:.60} at character {start} of the context, got {got!r:.60}")
    return Example(id, (question, context), answer=(start, start + len(answer)))


def _first(answers: Any) -> tuple[str, Any] | None:
    """Text and start of the first of {"text": [...], "answer_start": [...]} or of [{"text": ..., "answer_start": ...}].

    None where there is none: the context does not answer. Raises DataError.
    """
    one = answers[0] if isinstance(answers, list) and answers else answers
    if one is None or one == []:
        return None
    found = [plain(one.get(name)) for name in ("text", "answer_start")] if isinstance(one, Mapping) else []
    if found == [[], []]:
        return None
    text, start = (v[0] if isinstance(v, list) and v else v for v in found) if found else (None, None)
    if not isinstance(text, str) or not whole(start):
        raise DataError(f"expected answers as {{'text': [...], 'answer_start': [...]}}, got {answers!r:.80}")
    return text, start


def _rationales(fields: Fields, id: str, mask: str | None) -> Example:
    value, label = listed(fields.need("text")), _label(fields.find("label"))
    if isinstance(value, str):
        return Example(id, value, label=label, rationale=fields.spans("rationale"))
    words = Words(map(str, value))
    marked = listed(fields.find("rationale"))
    if marked is None:
        return Example(id, words, label=label)
    votes = marked if not marked or isinstance(marked[0], (list, tuple)) else [marked]
    if any(len(vote) != len(words) for vote in votes):
        raise DataError(f"expected a mark for each of {len(words)} words, got {[len(vote) for vote in votes]}")
    spans, at = [], 0
    for i, word in enumerate(words):
        if votes and 2 * sum(float(vote[i]) for vote in votes) >= len(votes):
            spans.append((at, at + len(word)))
        at += len(word) + 1
    return Example(id, words, label=label, rationale=tuple(spans))


def _before(spans: tuple[Chars, ...] | None, end: int) -> tuple[Chars, ...]:
    return tuple(s for s in spans or () if s[1] <= end)


def _moved(spans: tuple[Chars, ...] | None, start: int, end: int, length: int) -> tuple[Chars, ...]:
    """Spans of the text after characters start to end became `length` others. Raises DataError for an overlap."""
    out, shift = [], length - (end - start)
    for a, b in spans or ():
        if a < end and b > start:
            raise DataError(f"expected a cue beside the target at {start} to {end}, got one at {a} to {b}")
        out.append((a, b) if b <= start else (a + shift, b + shift))
    return tuple(out)


def _label(value: Any) -> str | int | None:
    """A label as it is; numpy's and Arrow's numbers as Python's."""
    if value is None or isinstance(value, str):
        return value
    if whole(value):
        return int(value)
    raise DataError(f"expected a label's name or number, got {type(value).__name__}: {value!r:.40}")


_TEXT = ("text", "sentence", "review", "content")
_LABEL = ("label", "labels", "gold")


def _table(*tasks: Task) -> dict[str, Task]:
    return {t.name: replace(t, names=MappingProxyType({"id": ("id", "uid", "idx"), **t.names})) for t in tasks}


TASKS: dict[str, Task] = _table(
    Task(
        "classification",
        "one text and its class (SST-2, IMDB, Yelp)",
        {"text": _TEXT, "label": _LABEL},
        _classification,
    ),
    Task(
        "pairs",
        "two texts and the class of the pair (SNLI, MNLI, MRPC, QQP)",
        {
            "first": ("premise", "text_a", "sentence1", "question1", "first"),
            "second": ("hypothesis", "text_b", "sentence2", "question2", "second"),
            "label": _LABEL,
        },
        _pairs,
    ),
    Task(
        "agreement",
        "a sentence whose target word is masked, a foil, and the cue that decides between them (BLiMP, SVA)",
        {
            "text": _TEXT,
            "target": ("target",),
            "foil": ("foil",),
            "target_span": ("target_span",),
            "cue": ("cue", "cue_spans"),
            "phrase": ("phrase", "phrase_spans"),
        },
        _agreement,
        ("cue_dot", "cue_ap", "probes_needed"),
        optional=("label",),
    ),
    Task(
        "question",
        "a question, a context and the answer's place in it (SQuAD, XQuAD)",
        {
            "question": ("question",),
            "context": ("context",),
            "answer": ("answer",),
            "answer_start": ("answer_start",),
        },
        _question,
        ("precision_at_k",),
    ),
    Task(
        "rationales",
        "a text and what people marked in it (HateXplain: words and marks; toxic spans: characters)",
        {"text": ("tokens", *_TEXT), "label": _LABEL, "rationale": ("rationales", "rationale", "spans")},
        _rationales,
        ("token_f1", "auprc", "iou"),
    ),
)


@checked
def task(name: str, **columns: str | Sequence[str]) -> Task:
    """A task with one's own columns: `mixlens.task("classification", text="sentence", label="gold")`.

    Raises UnknownOption for a task or a field that does not exist.
    """
    if name not in TASKS:
        raise UnknownOption(f"no task {name!r}{did_you_mean(name, TASKS)}")
    found = TASKS[name]
    for field in columns:
        if field not in (*found.names, *found.optional):
            known = (*found.names, *found.optional)
            raise UnknownOption(f"the task {name} has no field {field!r}{did_you_mean(field, known)}")
    for field, value in columns.items():
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
            raise UnknownOption(f"expected {field}= a column's name, or several, got {value!r}")
    own = {field: (value,) if isinstance(value, str) else tuple(value) for field, value in columns.items()}
    return replace(found, names=MappingProxyType({**found.names, **own}))
