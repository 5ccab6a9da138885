"""Answers of language models whose source is known, since it was planted: prompts made from templates and a seed.

Any tokenizer reads them: what an answer is from is said by its characters. `PLANTED` is the list.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal

from mixlens.arguments import checked, shown
from mixlens.errors import UnknownOption, did_you_mean
from mixlens.options import options_of
from mixlens.tasks.example import Chars, Example

NAMES = tuple("Anna Tom Mary Peter Lucy James Sarah Ben Emma David Laura Paul".split())
OWNED = tuple("dog cat horse bird fish car boat house ball book".split())
PLACES = tuple("garden kitchen library harbour tower market station museum cellar office".split())
NUMBERS = tuple("two three four five six seven eight nine ten twelve".split())
FILLER = (
    "The rain had stopped before the morning began.",
    "Most of the shops open late on this side of the river.",
    "An old road leads from the hill down to the water.",
    "People here talk about the weather more than about money.",
    "In winter the trains are slow and often cold.",
    "A small dog slept in front of the bakery.",
    "The market closes when the last boats come home.",
    "Nobody remembers who planted the tall trees.",
    "Every window of the school looks to the south.",
    "It is said that the bridge was built in one summer.",
    "The bread is best when it is still warm.",
    "On clear days one can see the islands.",
)
GIVEN = tuple("book ring letter cup ball flower drink map".split())
# singular and plural of a subject; a verb whose form depends on the number
SUBJECTS = (("key", "keys"), ("author", "authors"), ("teacher", "teachers"), ("picture", "pictures"), ("car", "cars"))
ATTRACTORS = (("cabinet", "cabinets"), ("guard", "guards"), ("door", "doors"), ("tower", "towers"), ("horse", "horses"))
LINKS = ("near", "behind", "next to", "in front of")
VERBS = ((" is", " are"), (" was", " were"), (" has", " have"))


class _Text:
    """A text that is put together, and where its parts came to stand."""

    def __init__(self) -> None:
        self.text = ""

    def add(self, part: str) -> Chars:
        """Put a part behind; where it stands."""
        start = len(self.text)
        self.text += part
        return start, len(self.text)


def needle(
    draw: random.Random,
    *,
    keys: int = 3,
    filler: int = 0,
    depth: float | None = None,
    gold: Literal["value", "fact"] = "value",
) -> tuple[str, str, Any, tuple[Chars, ...]]:
    """Facts of one kind among filler; one is asked for.

    `keys`: how many facts, 1 to 8, those not asked for being distractors. `filler`: sentences around them. `depth`: how
    far down the asked fact stands, 0 to 1; None: by chance. `gold`: the value's characters or those of all of the fact.
    """
    _within("keys", keys, 1, 8)
    _within("filler", filler, 0, 10_000)
    if depth is not None and not (isinstance(depth, (int, float)) and 0 <= depth <= 1):
        raise UnknownOption(f"expected depth= None or a number of 0 to 1, got {shown(depth)}")
    if gold not in ("value", "fact"):
        raise UnknownOption(f"expected gold='value' or 'fact', got {shown(gold)}")
    names, values = draw.sample(NAMES, keys), draw.sample(OWNED, keys)
    wanted = draw.randrange(keys)
    lines: list[int | str] = [k for k in range(keys) if k != wanted]
    lines += [FILLER[k % len(FILLER)] for k in draw.sample(range(max(filler, len(FILLER))), filler)]
    draw.shuffle(lines)
    at = draw.randrange(len(lines) + 1) if depth is None else round(depth * len(lines))
    lines.insert(at, wanted)
    out, spans = _Text(), {}
    for line in lines:
        if isinstance(line, str):
            out.add(f"{line} ")
            continue
        start, _ = out.add(f"{names[line]} has a")
        value = out.add(f" {values[line]}")
        _, end = out.add(".")
        spans[line] = (start, end) if gold == "fact" else (value[0] + 1, value[1])
        out.add(" ")
    out.add(f"Question: What does {names[wanted]} have? Answer: {names[wanted]} has a")
    return out.text, f" {values[wanted]}", None, (spans[wanted],)


def variables(draw: random.Random, *, steps: int = 2, chains: int = 2) -> tuple[str, str, Any, tuple[Chars, ...]]:
    """X = seven. Y = X. ..., asked for the last of a chain; gold: the lines of that chain.

    `steps`: names in a chain, 1 to 6. `chains`: how many of them, mixed, 1 to 4.
    """
    _within("steps", steps, 1, 6)
    _within("chains", chains, 1, 4)
    letters = draw.sample("ABCDEFGHJKLMNPQRSTUVWXYZ", steps * chains)
    numbers = draw.sample(NUMBERS, chains)
    order = [chain for chain in range(chains) for _ in range(steps)]
    draw.shuffle(order)
    wanted, done, out, spans = draw.randrange(chains), [0] * chains, _Text(), []
    for chain in order:
        k = done[chain]
        right = numbers[chain] if k == 0 else letters[chain * steps + k - 1]
        span = out.add(f"{letters[chain * steps + k]} = {right}")
        out.add("\n")
        done[chain] += 1
        if chain == wanted:
            spans.append(span)
    out.add(f"The value of {letters[wanted * steps + steps - 1]} is")
    other = next((f" {n}" for n in numbers if n != numbers[wanted]), None)  # of another chain
    return out.text, f" {numbers[wanted]}", other, tuple(spans)


def ioi(draw: random.Random) -> tuple[str, str, Any, tuple[Chars, ...]]:
    """When A and B went to the market, B gave a book to -> A rather than B; gold: A."""
    a, b = draw.sample(NAMES, 2)
    place, thing = draw.choice(PLACES), draw.choice(GIVEN)
    out = _Text()
    verb = draw.choice(("went to", "were in", "met near"))
    out.add("When ")
    first = draw.random() < 0.5
    spans = [out.add(a if first else b)]
    out.add(" and ")
    spans.append(out.add(b if first else a))
    out.add(f" {verb} the {place}, {b} gave a {thing} to")
    return out.text, f" {a}", f" {b}", (spans[0 if first else 1],)


def agreement(draw: random.Random, *, attractors: int = 1) -> tuple[str, str, Any, tuple[Chars, ...]]:
    """The key near the cabinets -> is rather than are; gold: the subject.

    `attractors`: nouns of the other number between subject and verb, 0 to 3.
    """
    _within("attractors", attractors, 0, 3)
    number = draw.randrange(2)
    subject, verb = draw.choice(SUBJECTS), draw.choice(VERBS)
    out = _Text()
    out.add("The ")
    span = out.add(subject[number])
    for noun in draw.sample(ATTRACTORS, attractors):
        out.add(f" {draw.choice(LINKS)} the {noun[1 - number]}")
    return out.text, verb[number], verb[1 - number], (span,)


PLANTED: dict[str, Callable[..., tuple[str, str, Any, tuple[Chars, ...]]]] = {
    "needle": needle,
    "variables": variables,
    "ioi": ioi,
    "agreement": agreement,
}


@checked
def planted(name: str, count: int, *, seed: int = 0, **options: Any) -> list[Example]:
    """`count` answers whose source is known, of the kind "needle", "variables", "ioi" or "agreement".

    The same for the same seed and options, which are the kind's own (docs/known-source.md). Raises UnknownOption.

    Examples:
        >>> example = mixlens.planted("ioi", 1, seed=3)[0]
        >>> example.prompt[slice(*example.gold[0])] == example.answer.strip()
        True
    """
    if name not in PLANTED:
        raise UnknownOption(f"no planted sources {name!r}{did_you_mean(name, PLANTED)}")
    kind = PLANTED[name]
    known = options_of(kind)
    for option in options:
        if option not in known:
            raise UnknownOption(f"{name} has no option {option!r}{did_you_mean(option, known)}")
    _within("count", count, 1, 1_000_000)
    _within("seed", seed, 0, 2**63)
    out = []
    for number in range(count):
        prompt, answer, foil, gold = kind(random.Random(f"{name} {seed} {number}"), **options)
        out.append(Example(f"{name}-{seed}-{number}", prompt=prompt, answer=answer, foil=foil, gold=gold))
    return out


def _within(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UnknownOption(f"expected {name}= a whole number of {low} to {high}, got {shown(value)}")
