"""A row of each task, by the task's own names for its columns, to an `Example`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixlens.capture.given import Words
from mixlens.errors import DataError
from mixlens.tasks.example import Chars, Example
from mixlens.tasks.fields import Fields, column_of, listed, plain, whole


def classification(fields: Fields, id: str, mask: str | None) -> Example:
    """A text and its class."""
    return Example(id, fields.text("text"), label=fields.label())


def pairs(fields: Fields, id: str, mask: str | None) -> Example:
    """Two texts and the class of the pair."""
    return Example(id, (fields.text("first"), fields.text("second")), label=fields.label())


def agreement(fields: Fields, id: str, mask: str | None) -> Example:
    """A sentence whose target word is masked, or, without a mask, cut off before it. Raises DataError."""
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
        label = fields.label()
        return Example(id, before, label, blank + target, blank + foil, cue=moved[0], phrase=moved[1])
    masked = text[:start] + mask + text[end:]
    moved = [_moved(fields.spans(name), start, end, len(mask)) for name in ("cue", "phrase")]
    label = fields.label()
    label = target if label is None else label
    return Example(id, masked, label=label, target=target, foil=foil, cue=moved[0], phrase=moved[1])


def question(fields: Fields, id: str, mask: str | None) -> Example:
    """A question, a context, and where the first answer stands in it. Raises DataError."""
    question, context = fields.text("question"), fields.text("context")
    value = fields.find("answer")
    answers = column_of("answers", fields.row)  # SQuAD's own column
    if isinstance(value, str) or (value is None and answers is None):
        answer, start = fields.text("answer"), fields.need("answer_start")
    else:
        first = _first(listed(value if value is not None or answers is None else fields.row[answers], "[{"))
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
    first = answers[0] if isinstance(answers, list) and answers else answers
    if first is None or first == []:
        return None
    parts = [plain(first.get(name)) for name in ("text", "answer_start")] if isinstance(first, Mapping) else []
    if parts == [[], []]:
        return None
    text, start = (v[0] if isinstance(v, list) and v else v for v in parts) if parts else (None, None)
    if not isinstance(text, str) or not whole(start):
        raise DataError(f"expected answers as {{'text': [...], 'answer_start': [...]}}, got {answers!r:.80}")
    return text, start


def rationales(fields: Fields, id: str, mask: str | None) -> Example:
    """A text and what people marked in it: characters, or a mark a word of each annotator. Raises DataError."""
    value, label = listed(fields.need("text")), fields.label()
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


def documents(fields: Fields, id: str, mask: str | None) -> Example:
    """A prompt, its documents, an answer (else the model's own) and what it is from. Raises DataError."""
    prompt = listed(fields.need("prompt"))
    given = listed(fields.find("documents"), "[{")
    if isinstance(given, (list, tuple)) and all(isinstance(document, str) for document in given):
        given = {f"document {k}": document for k, document in enumerate(given, 1)}
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(v, str) for v in given.values())):
        raise DataError(f"expected documents as {{name: text}} or a list of texts, got {given!r:.60}")
    gold = listed(fields.find("gold"))
    if gold is not None:
        gold = [gold] if isinstance(gold, (str, int)) else gold
        gold = tuple(tuple(span) if isinstance(span, (list, tuple)) else span for span in gold)
    answer = fields.find("answer")
    return Example(
        id, prompt=prompt, documents=given, answer=answer, gold=gold, units=None if given is None else "document"
    )


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
