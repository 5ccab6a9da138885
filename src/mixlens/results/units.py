"""A prompt's and an answer's tokens to units: words, sentences, lines, paragraphs, turns, documents, named spans.

Every token is in one unit. Template tokens are in none of the text's and stand together as the last, `template`; what
no document and no named span holds stands together as `rest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import regex

from mixlens.arguments import is_whole, shown
from mixlens.capture.sentences import sentences
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens
from mixlens.capture.words import units as words
from mixlens.errors import InputError, Undefined, UnknownOption, did_you_mean

Where = Literal["prompt", "answer", "template"]
NAMES = ("token", "word", "sentence", "line", "paragraph", "turn", "document")
TEMPLATE, REST = "template", "rest of the prompt"
Named = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class TraceUnit:
    """Tokens of a prompt or an answer that stand together: `indices` count from the prompt's first token on."""

    name: str  # a document's or a span's own name, a turn's role, else the unit's text
    text: str
    indices: tuple[int, ...]
    where: Where = "prompt"
    start: int | None = None  # characters of its own text, prompt or answer; None where they are not known
    end: int | None = None


def prompt_units(prompt: Stream, by: str | Named, documents: Named | None) -> list[TraceUnit]:
    """The units of a prompt. `documents`: name -> its tokens [first, last).

    Raises UnknownOption, Undefined, InputError.
    """
    if isinstance(by, Mapping):
        return _named(prompt, _tokens_of(prompt, by))
    if by == "document":
        if not documents:
            raise Undefined(
                "expected documents in the prompt, got none; put them there by name, lens.trace(prompt, "
                "documents={'name': text}), or name spans of characters: units({'name': (start, end)})"
            )
        return _named(prompt, {name: range(*span) for name, span in documents.items()})
    out = _cut(prompt, known(by), [edge for span in (documents or {}).values() for edge in span])
    if by not in ("token", "word") and len(out) == 1 and len(out[0].indices) > 1:
        raise Undefined(
            f"expected more than one {by} in the prompt, got one: {by}s cut nothing here; choose smaller units, as "
            "'sentence' or 'word', or name spans of characters: units({'name': (start, end)})"
        )
    return out


def answer_units(answer: Stream, by: str | Named, first: int) -> list[TraceUnit]:
    """The units of an answer whose first token is the `first`-th of all.

    By document and by named spans, which are the prompt's, it is cut by sentence where its text is known; a turn is
    the whole of it. Raises as `prompt_units`.
    """
    if isinstance(by, Mapping) or known(by) == "document":
        by = "sentence" if answer.has_words else "turn"
    if by == "turn":
        indices = [i for i, special in enumerate(answer.special) if not special]
        out = [_unit(answer, indices, "answer")] if indices else []
    else:
        out = _cut(answer, by, ())
    return [replace(unit, indices=tuple(i + first for i in unit.indices), where="answer") for unit in out]


def template(special: Sequence[bool], units: Sequence[TraceUnit], start: int = 0) -> TraceUnit | None:
    """The special tokens that no unit holds, as one; None where there is none."""
    held = {i for unit in units for i in unit.indices}
    rest = tuple(i for i in range(start, len(special)) if i not in held)
    return TraceUnit(TEMPLATE, TEMPLATE, rest, "template") if rest else None


def known(by: Any) -> str:
    """The name of a kind of units. Raises UnknownOption."""
    if not isinstance(by, str) or by not in NAMES:
        hint = did_you_mean(by, NAMES) if isinstance(by, str) else "; or {'name': (start, end)}, or a pair of them"
        raise UnknownOption(f"expected by= one of {', '.join(NAMES)}, got {shown(by)}{hint}")
    return by


def _cut(stream: Stream, by: str, edges: Sequence[int]) -> list[TraceUnit]:
    if by == "token":
        return _singles(stream)
    if by == "turn":
        return list(_turns(stream))
    if not isinstance(stream, Tokens):
        raise Undefined(f"{by}s are a text's, and this is a row of {stream.units}; choose by='token'")
    if not stream.has_words or len(stream.text) != 1:
        raise InputError(
            f"{by}s need offsets into a text: trace a str with a fast tokenizer, not token ids or a slow tokenizer; "
            "or choose by='token'"
        )
    if by == "word":
        return [
            TraceUnit(unit.text, unit.text, unit.indices, "prompt", unit.start, unit.end)
            for unit in words(stream)
            if not all(stream.special[i] for i in unit.indices)
        ]
    return [unit for region in _regions(stream, edges) for unit in _spans(stream, region, _RULES[by])]


def _singles(stream: Stream) -> list[TraceUnit]:
    """Every position by itself, under the name that a reader knows."""
    names, offsets = labels(stream), stream.offsets or (None,) * len(stream)
    known = isinstance(stream.raw, str)
    return [
        TraceUnit(name, name, (i,), "prompt", *(place if place is not None and known else (None, None)))
        for i, (name, place) in enumerate(zip(names, offsets, strict=True))
    ]


def _lines(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in regex.finditer(r"\S(?:[^\n]*\S)?", text)]


def _paragraphs(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in regex.finditer(r"\S(?:(?:(?!\n[^\S\n]*\r?\n).)*\S)?", text, regex.DOTALL)]


_RULES: dict[str, Callable[[str], list[tuple[int, int]]]] = {
    "sentence": sentences,
    "line": _lines,
    "paragraph": _paragraphs,
}


def _regions(stream: Tokens, edges: Sequence[int]) -> Iterator[list[int]]:
    """Runs of tokens that no template token, no turn and no document's edge parts."""
    region: list[int] = []
    for i, special in enumerate(stream.special):
        turn = region and stream.roles is not None and stream.roles[region[-1]] != stream.roles[i]
        if region and (special or turn or i in edges):
            yield region
            region = []
        if not special:
            region.append(i)
    if region:
        yield region


def _spans(stream: Tokens, region: list[int], rule: Callable[[str], list[tuple[int, int]]]) -> Iterator[TraceUnit]:
    """The units of a region: a token goes with the last one that begins no later than it does."""
    places = [(i, span) for i in region if (span := (stream.spans or ())[i]) is not None]
    if not places:
        yield _unit(stream, region)
        return
    low, high = min(s for _, (_, s, _) in places), max(e for _, (_, _, e) in places)
    starts = [low + start for start, _ in rule(stream.text[0][low:high])] or [low]
    groups: list[list[int]] = [[] for _ in starts]
    at = 0
    for i in region:
        span = (stream.spans or ())[i]
        # a token over two units (`.\n\nThe`) goes with the one of its first character
        while span is not None and at + 1 < len(starts) and starts[at + 1] <= span[1]:
            at += 1
        groups[at].append(i)
    yield from (_unit(stream, group) for group in groups if group)


def _turns(stream: Stream) -> Iterator[TraceUnit]:
    roles = getattr(stream, "roles", None)
    if roles is None:
        raise Undefined(
            "turns are a chat's, and this prompt is none; trace messages [{'role': ..., 'content': ...}], or choose "
            "by='paragraph' or 'sentence'"
        )
    runs: list[tuple[str, list[int]]] = []
    last = None
    for i, role in enumerate(roles):
        if role is not None and not stream.special[i]:
            if role != last:
                runs.append((role, []))
            runs[-1][1].append(i)
        last = role if role is not None else None
    total = {role: sum(r == role for r, _ in runs) for role, _ in runs}
    seen = dict.fromkeys(total, 0)
    for role, indices in runs:
        seen[role] += 1
        yield _unit(stream, indices, role if total[role] == 1 else f"{role} {seen[role]}")


def _named(prompt: Stream, spans: Mapping[str, Sequence[int]]) -> list[TraceUnit]:
    """Units with names in the order of their tokens, and what is left as `rest`."""
    content = [i for i, special in enumerate(prompt.special) if not special]
    out = []
    for name, indices in sorted(spans.items(), key=lambda item: item[1][0]):
        kept = [i for i in indices if not prompt.special[i]]
        if not kept:
            raise InputError(f"expected tokens in {name!r}, got template tokens alone; name a span of the text")
        out.append(_unit(prompt, kept, name))
    held = {i for unit in out for i in unit.indices}
    rest = tuple(i for i in content if i not in held)
    if len(out) == 1 and not rest and len(content) > 1:
        raise Undefined(
            f"expected units that cut the prompt, got {out[0].name!r}, which is all of it; name smaller ones"
        )
    return [*out, TraceUnit(REST, REST, rest)] if rest else out


def _tokens_of(prompt: Stream, spans: Named) -> dict[str, list[int]]:
    """The tokens of named spans of characters: each in the one that holds most of its characters."""
    if not isinstance(prompt, Tokens) or not prompt.has_words or len(prompt.text) != 1:
        raise InputError("named spans are of characters: trace a str with a fast tokenizer, not token ids")
    if not spans:
        raise UnknownOption("expected by= {'name': (start, end)} with at least one name, got none")
    size, end_before, before = len(prompt.text[0]), 0, ""
    for name, span in sorted(spans.items(), key=lambda item: item[1] if _is_span(item[1]) else (-1, -1)):
        if not isinstance(name, str) or not _is_span(span):
            raise UnknownOption(
                f"expected by= {{'name': (start, end)}}, characters of the prompt, got {shown({name: span})}"
            )
        start, end = span
        if not 0 <= start < end <= size:
            raise UnknownOption(
                f"expected {name!r} as characters (start, end) with 0 <= start < end <= {size}, the prompt's length, "
                f"got {(start, end)}"
            )
        if before and start < end_before:
            raise UnknownOption(
                f"expected spans that do not overlap, got {before!r} up to {end_before} and {name!r} from {start} on; "
                "a token has one unit"
            )
        end_before, before = end, name
    tokens: dict[str, list[int]] = {name: [] for name in spans}
    for i, place in enumerate(prompt.spans or ()):
        if place is None:
            continue
        _, a, b = place
        shares = {
            name: min(b, end) - max(a, start) for name, (start, end) in spans.items() if start <= a < end or a < b
        }
        best = max(shares, key=lambda name: shares[name], default=None)
        if best is not None and (shares[best] * 2 >= b - a and (shares[best] > 0 or a == b)):
            tokens[best].append(i)
    for name, indices in tokens.items():
        if not indices:
            raise UnknownOption(
                f"expected a token in {name!r}, got none at characters {tuple(spans[name])}: they hold blanks, or part "
                "of a token; widen the span"
            )
    return tokens


def _is_span(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_whole, value))


def excerpt(stream: Stream, indices: Sequence[int]) -> str:
    """The text of these positions, or their names put together where there is none."""
    text = stream.excerpt(indices[0], indices[-1])
    if text is not None:
        return text
    names = labels(stream)
    return "".join(names[i] for i in indices).replace("␣", " ").replace("↵", "\n").strip() or names[indices[0]]


def labels(stream: Stream) -> tuple[str, ...]:
    """The positions as a reader knows them; a vocabulary's names by what they stand for."""
    from mixlens.view.kit.spelling import spelled

    return stream.display if stream.raw is not None else tuple(spelled(name) for name in stream.names)


def _unit(stream: Stream, indices: Sequence[int], name: str | None = None) -> TraceUnit:
    """A unit of these positions, with its characters where they are known."""
    offsets = stream.offsets if isinstance(stream.raw, str) else None
    kept = [] if offsets is None else [place for i in indices if (place := offsets[i]) is not None]
    kept = [(a, b) for a, b in kept if a < b] or kept[:1]  # blanks count, but don't widen the unit
    if not kept:
        text = excerpt(stream, indices)
        return TraceUnit(name or text, text, tuple(indices))
    start, end = min(a for a, _ in kept), max(b for _, b in kept)
    text = (stream.raw or "")[start:end] if isinstance(stream.raw, str) else ""
    text = text or stream.display[indices[0]]
    return TraceUnit(name or text, text, tuple(indices), "prompt", start, end)
