"""Texts that `small_decoder.py` trains its model on, in the words of planted prompts, and its tokenizer: words."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import mixlens
from mixlens.tasks.example import Example
from mixlens.tasks.planted import ATTRACTORS, FILLER, GIVEN, LINKS, NAMES, NUMBERS, OWNED, PLACES, SUBJECTS, VERBS

LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"
KEPT = {"needle": 8, "variables": 8, "ioi": 8, "agreement": 2}  # a set in so many is kept from training
FACT, LINE = re.compile(r"(\w+) has a (\w+)\."), re.compile(r"(\w) = (\w+)")
WORD = re.compile(r"[.,?:=\n]|[^ .,?:=\n]+")
SINGULAR = {form: pair[0] for pair in (*SUBJECTS, *ATTRACTORS) for form in pair}


def tokenizer_of() -> Any:
    """Words, marks and line ends are tokens, made from the words that planted prompts are made of."""
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.Split(Regex(r"[.,?:=\n]"), "isolated")]
    )
    marks = [".", ",", "?", ":", "=", "\n", *LETTERS]
    frames = "Question What does have Answer has a The value of is When and went to were in met near the gave"
    tables = [NAMES, OWNED, PLACES, NUMBERS, FILLER, GIVEN, LINKS, *SUBJECTS, *ATTRACTORS, *VERBS, (frames,)]
    text = " ".join(word for table in tables for word in table)
    words = dict.fromkeys(["<pad>", "<unk>", *marks, *sorted({word for word, _ in split.pre_tokenize_str(text)})])
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = split
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", clean_up_tokenization_spaces=False
    )


def held(kind: str, parts: Iterable[str]) -> bool:
    """Whether the set of what a prompt says is kept from training; each part of it stands in other prompts there."""
    return zlib.crc32(" ".join((kind, *sorted(parts))).encode()) % KEPT[kind] == 0


def parts_of(example: Example, kind: str) -> list[str]:
    """What a planted prompt says."""
    prompt = example.prompt
    if kind == "needle":
        return [" ".join(pair) for pair in FACT.findall(prompt)]
    if kind == "variables":
        return [" ".join(pair) for pair in LINE.findall(prompt)]
    if kind == "ioi":
        place, thing = re.findall(r"the (\w+),.* a (\w+) to$", prompt)[0]
        return [example.answer.strip(), example.foil.strip(), place, thing]
    subject, *rest = re.split(rf" ({'|'.join(LINKS)}) the ", prompt.removeprefix("The "))
    return [SINGULAR[subject], *(f"{link} {SINGULAR[noun]}" for link, noun in zip(rest[::2], rest[1::2], strict=True))]


class Text:
    """Words, and how much the loss of those that follow from what stands before them counts."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.counts: dict[int, float] = {}

    def add(self, text: str, counts: float = 0.0) -> None:
        if counts:
            self.counts[len(self.words)] = counts
        self.words += WORD.findall(text)


def needle(draw: random.Random, level: int) -> tuple[Text, list[str]]:
    """Facts, from `level` 2 on among filler, and five questions, two in five of them a fact begun again."""
    keys = min(2 + draw.randint(0, level), 5)
    facts = dict(zip(draw.sample(NAMES, keys), draw.sample(OWNED, keys), strict=True))
    lines = [f"{name} has a {value}." for name, value in facts.items()]
    if level > 1 and draw.random() < 0.6:
        lines += draw.sample(FILLER, draw.randint(0, min(6, 2 * (level - 1))))
    draw.shuffle(lines)
    text = Text()
    text.add(" ".join(lines))
    for name in draw.choices(list(facts), k=5):
        if draw.random() < 0.4:
            text.add(name)
        else:
            text.add(f"Question: What does {name} have? Answer:")
            text.add(name, counts=0.3)
        text.add("has a")
        text.add(facts[name], counts=1.0)
        text.add(".")
    return text, [" ".join(fact) for fact in facts.items()]


def variables(draw: random.Random, level: int) -> tuple[Text, list[str]]:
    """Mixed chains, of a line each at `level` 0, of up to three from 3 on, and six questions of any letters."""
    steps = 1 if level < 1 else draw.choice((1, 2, 2) if level < 3 else (1, 2, 2, 3))
    chains = draw.randint(2, 4) if level < 1 else draw.randint(2, 3)
    letters, numbers = draw.sample(LETTERS, steps * chains), draw.sample(NUMBERS, chains)
    order = draw.sample([chain for chain in range(chains) for _ in range(steps)], steps * chains)
    text, values, parts, done = Text(), {}, [], [0] * chains
    for chain in order:
        k = chain * steps + done[chain]
        right = letters[k - 1] if done[chain] else numbers[chain]
        values[letters[k]] = numbers[chain]
        text.add(f"{letters[k]} = {right}\n")
        parts.append(f"{letters[k]} {right}")
        done[chain] += 1
    for letter in draw.choices(list(values), k=6):
        text.add(f"The value of {letter} is")
        text.add(values[letter], counts=1.0)
        text.add("\n")
    return text, parts


def ioi(draw: random.Random, _: int) -> tuple[Text, list[str]]:
    """A prompt of `planted` with its answer."""
    (example,) = mixlens.planted("ioi", 1, seed=draw.randrange(1_000, 2**62))
    text = Text()
    text.add(example.prompt)
    text.add(example.answer, counts=1.0)
    return text, parts_of(example, "ioi")


def agreement(draw: random.Random, _: int) -> tuple[Text, list[str]]:
    """A subject, up to three nouns of either number behind it, and the subject's verb."""
    number, subject, verb = draw.randrange(2), draw.choice(SUBJECTS), draw.choice(VERBS)
    between = [(draw.choice(LINKS), noun) for noun in draw.sample(ATTRACTORS, draw.randint(0, 3))]
    text = Text()
    text.add(f"The {subject[number]}")
    for link, noun in between:
        text.add(f"{link} the {noun[1 - number if draw.random() < 0.75 else number]}")
    text.add(verb[number], counts=1.0)
    return text, [subject[0], *(f"{link} {noun[0]}" for link, noun in between)]


KINDS: dict[str, Callable[[random.Random, int], tuple[Text, list[str]]]] = {
    "needle": needle,
    "variables": variables,
    "ioi": ioi,
    "agreement": agreement,
}


def texts(kind: str, count: int, draw: random.Random, level: int) -> list[Text]:
    """`count` texts of a kind, none of a set that is kept from training."""
    out: list[Text] = []
    while len(out) < count:
        text, parts = KINDS[kind](draw, level)
        if not held(kind, parts):
            out.append(text)
    return out
