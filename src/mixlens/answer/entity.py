"""Several tokens of a token classifier asked about as one: a word, an entity, a stretch; and entities by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

import regex
import torch
from torch import Tensor

from mixlens.answer.classes import find, name
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens
from mixlens.capture.words import Unit, units
from mixlens.errors import TargetError, Undefined, did_you_mean
from mixlens.subject.head import Head
from mixlens.target import Target

_PART = re.compile(r"[BIESLU][-_](.+)")  # B-PER: where in an entity a token stands, and which entity


def entities(head: Head) -> dict[str, tuple[int, ...]]:
    """The entities that several labels are of, and these: PER of B-PER and I-PER."""
    out: dict[str, list[int]] = {}
    for index, label in head.labels.items():
        part = _PART.fullmatch(label)
        if part is not None:
            out.setdefault(part[1], []).append(index)
    return {entity: tuple(labels) for entity, labels in out.items() if len(labels) > 1}


def asks_entity(head: Head, target: Target) -> bool:
    """Whether target or foil name an entity, and no label."""
    names, labels = {e.casefold() for e in entities(head)}, {label.casefold() for label in head.labels.values()}
    words = (word.casefold() for word in (target.what, target.foil) if isinstance(word, str))
    return any(word in names and word not in labels for word in words)


def tokens_asked(stream: Stream, target: Target) -> tuple[int, ...]:
    """The tokens from the first to the last that is asked about. Raises TargetError, InputError, Undefined."""
    n, at = len(stream), target.position
    first, last = at if isinstance(at, tuple) and len(at) == 2 else (at, at)
    if target.word is not None:
        inside = word_tokens(stream, target.word)
        if at is not None and (first, last) != (inside[0], inside[-1]):
            raise TargetError(
                f"expected a word or a position, got word={target.word!r} (tokens {inside[0]} to {inside[-1]}) and "
                f"position={at}; leave one out"
            )
        return inside
    if first is None or last is None:
        raise TargetError(f"an entity stands at tokens: pass word= a word of the text, or position=0 to {n - 1}")
    if not (-n <= first < n and -n <= last < n and first % n <= last % n):
        raise TargetError(f"expected position=(first, last), tokens of 0 to {n - 1}, got {at}")
    return tuple(range(first % n, last % n + 1))


def word_tokens(stream: Stream, word: str | tuple[int, int]) -> tuple[int, ...]:
    """The tokens of a word or of several words of the text, or those that hold the characters [start, end).

    Raises TargetError where there is no such word, or more than one; InputError without offsets.
    """
    if not isinstance(stream, Tokens):
        raise Undefined(f"a word is of a text, and this is a row of {stream.units}; pass position=(first, last)")
    known = [unit for unit in units(stream) if unit.segment is not None]
    if not isinstance(word, str):
        return _holding(stream, known, word)
    fits = _matches(stream, known, word)
    if len(fits) == 1:
        return fits[0]
    if not fits:
        near = did_you_mean(word, [unit.text for unit in known if not unit.special])
        held = next((u.text for u in known if word.casefold() in u.text.casefold()), None)
        hint = f"; it is a part of {held!r} there: name that, or word=(start, end), its characters" if held else near
        raise TargetError(f"expected a word of the text, {word!r} is none of it{hint}")
    where = " or ".join(f"position={(tokens[0], tokens[-1])}" for tokens in fits)
    raise TargetError(
        f"expected a word that stands in the text once, {word!r} stands there {len(fits)} times; say which by its "
        f"tokens in place of word=: {where}"
    )


def _matches(stream: Tokens, known: list[Unit], word: str) -> list[tuple[int, ...]]:
    """The tokens of each place where the words stand, as they are written, else in any case."""
    pattern = r"\s+".join(map(regex.escape, word.split()))
    for flags in (0, regex.IGNORECASE):
        out = []
        for segment, text in enumerate(stream.text):
            mine = [unit for unit in known if unit.segment == segment]
            begins, ends = {unit.start for unit in mine}, {unit.end for unit in mine}
            for match in regex.finditer(pattern, text, flags, overlapped=True):
                if match.start() in begins and match.end() in ends:
                    out.append(_within(mine, match.start(), match.end()))
        if out:
            return out
    return []


def _within(known: list[Unit], start: int, end: int) -> tuple[int, ...]:
    """All tokens of the words that begin in characters [start, end)."""
    inside = [i for unit in known if unit.start is not None and start <= unit.start < end for i in unit.indices]
    return tuple(range(min(inside), max(inside) + 1))


def _holding(stream: Tokens, known: list[Unit], characters: tuple[int, int]) -> tuple[int, ...]:
    """The tokens that hold any of some characters of a single text."""
    start, end = characters
    if len(stream.text) > 1:
        raise TargetError(f"characters count in one text, got word={characters} of a pair; pass position=(first, last)")
    if not 0 <= start < end <= len(stream.text[0]):
        raise TargetError(f"expected word=(start, end), characters of 0 to {len(stream.text[0])}, got {characters}")
    spans = stream.spans or ()
    inside = [i for unit in known for i in unit.indices if (s := spans[i]) is not None and s[1] < end and s[2] > start]
    if not inside:
        raise TargetError(f"expected characters of a word, there is no token at {characters}")
    return tuple(range(min(inside), max(inside) + 1))


def labelled(
    head: Head, target: Target, tokens: tuple[int, ...], logits: tuple[Tensor, ...]
) -> tuple[Target, tuple[tuple[int, ...], ...], dict[str, object]]:
    """The target with its label and place, the classes of target and foil, and what is reported. Raises TargetError.

    The prediction of several tokens is the label or entity that is likeliest for all of them together.
    """
    z = torch.stack([logits[i].double() for i in tokens])
    groups = _groups(head)
    chances = {label: _log_chance(head, z, group) for label, group in groups.items()}
    best = max(chances, key=lambda label: chances[label])
    label, classes = (best, groups[best]) if target.what is None else named(head, target.what, z.shape[-1])
    chosen: tuple[tuple[int, ...], ...] = (classes,)
    reported: dict[str, object] = {"prediction": best, "probability": _chance(chances[best])}
    reported["target_probability"], foil = _chance(_log_chance(head, z, classes)), None
    if target.foil is not None:
        _, foil = named(head, target.foil, z.shape[-1])
        if set(foil) & set(classes):
            raise TargetError(f"expected a foil other than the target, got {target.foil!r} beside {label!r}")
        chosen = (classes, foil)
        reported["foil_probability"] = _chance(_log_chance(head, z, foil))
    single = [None if group is None or len(group) > 1 else group[0] for group in (classes, foil)]
    full = Target(
        target.what, target.foil, (tokens[0], tokens[-1]), target.of, single[0], label, single[1], target.word
    )
    return full, chosen, reported


def _groups(head: Head) -> Mapping[str, tuple[int, ...]]:
    """Every entity, and every label that is of none, with its classes; of heads whose classes exclude each other."""
    known = {} if head.multilabel else entities(head)
    inside = {index for group in known.values() for index in group}
    return {**known, **{name(head, i): (i,) for i in head.labels if i not in inside}}


def named(head: Head, choice: str | int, count: int) -> tuple[str, tuple[int, ...]]:
    """A label or an entity, and its classes. Raises TargetError."""
    known = {entity.casefold(): (entity, classes) for entity, classes in entities(head).items()}
    try:
        index = find(head, choice, count, () if head.multilabel else entities(head))
    except TargetError:
        if head.task != "token" or not isinstance(choice, str) or choice.casefold() not in known:
            raise
        if head.multilabel:
            raise TargetError(
                f"expected one label of a head whose classes have a probability each, {choice!r} is several"
            ) from None
        return known[choice.casefold()]
    return name(head, index), (index,)


def _log_chance(head: Head, z: Tensor, classes: tuple[int, ...]) -> Tensor:
    """ln of the probability that all tokens have one of some classes."""
    if head.multilabel:
        return torch.nn.functional.logsigmoid(z[:, list(classes)]).sum()
    return z.log_softmax(-1)[:, list(classes)].logsumexp(-1).sum()


def _chance(log: Tensor) -> float:
    return float(log.exp())
