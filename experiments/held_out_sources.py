"""Methods on planted prompts of seeds that no default was chosen on, with what the default is above each, paired.

python experiments/held_out_sources.py [--items 30] [--out held-out]     (an hour; goes on where it stopped)
"""

from __future__ import annotations

import random
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import mixlens
from mixlens.tasks.example import Example
from mixlens.tasks.planted import NAMES, OWNED, planted

TASKS = {
    "variables": ("variables", {"steps": 2, "chains": 2}),
    "indirect object": ("ioi", {}),
    "agreement": ("agreement", {"attractors": 1}),
    "needle": ("needle", {"keys": 3}),
    "facts": ("facts", {}),
    "indirect object, first": ("ioi first", {}),
    "agreement, first": ("agreement first", {}),
}
# the subject of a fact, what is said of it, and what may be put there; the last line is the asked fact's beginning
WORDINGS = (
    ("{}", "has a", OWNED),
    ("{}", "lives in", ("Paris", "London", "Rome", "Berlin", "Madrid", "Vienna")),
    ("{}", "works as a", ("teacher", "doctor", "baker", "lawyer", "farmer", "nurse")),
    ("{}", "likes to eat", ("apples", "bread", "cheese", "rice", "soup", "fish")),
    ("The favourite colour of {}", "is", ("red", "blue", "green", "yellow", "black", "white")),
    ("The friend of {}", "is called", NAMES),
    ("In the room of {} there", "is a", ("table", "piano", "mirror", "lamp", "clock", "bed")),
)
METHODS = (
    ("random", "random", {}),
    ("head_logit", "head_logit", {}),
    ("head_logit, signed", "head_logit", {"signed": True}),
    ("path_logit, terms alone", "path_logit", {"average": None, "clamp": "head"}),
    ("path_logit", "path_logit", {}),
    ("attn_lrp", "attn_lrp", {}),
    ("gim", "gim", {}),
)
DEFAULT = [label for label, _, _ in METHODS].index("path_logit")
SEEDS = (10, 11, 12)
RESAMPLES = 10_000


def facts(count: int, seed: int) -> list[Example]:
    """Three facts of one wording, the beginning of one again, no question; gold: its value."""
    examples = []
    for number in range(count):
        draw = random.Random(f"facts {seed} {number}")
        subject, verb, values = draw.choice(WORDINGS)
        names = draw.sample(NAMES, 3)
        chosen = draw.sample([value for value in values if value not in names], 3)
        lines = [f"{subject.format(name)} {verb} {value}." for name, value in zip(names, chosen, strict=True)]
        wanted = draw.randrange(3)
        end = sum(len(line) + 1 for line in lines[:wanted]) + len(lines[wanted]) - 1
        gold = ((end - len(chosen[wanted]), end),)
        prompt = " ".join([*lines, f"{subject.format(names[wanted])} {verb}"])
        assert prompt[slice(*gold[0])] == chosen[wanted]
        examples.append(Example(f"facts-{seed}-{number}", prompt=prompt, answer=f" {chosen[wanted]}", gold=gold))
    return examples


def first(kind: str, count: int, seed: int) -> list[Example]:
    """Prompts whose source is their first word, where heads look that have nothing to say."""
    examples = []
    for number, example in enumerate(planted(kind, count, seed=seed)):
        ((start, end),) = example.gold
        word = example.prompt[start:end]
        if kind == "ioi":  # "When Ann and Tom ...", in either order
            rest = f" and{example.foil} {example.prompt.split(maxsplit=4)[4]}"
        else:
            rest = example.prompt[end:]
        prompt = word[0].upper() + word[1:] + rest
        examples.append(replace(example, id=f"{kind}-first-{seed}-{number}", prompt=prompt, gold=((0, len(word)),)))
    return examples


def made_of(kind: str, count: int, seed: int, options: dict[str, Any]) -> list[Example]:
    """The prompts of a task."""
    if kind == "facts":
        return facts(count, seed)
    return first(kind.split()[0], count, seed) if kind.endswith("first") else planted(kind, count, seed=seed, **options)


def interval(values: np.ndarray) -> str:
    """The mean and its 95 % bootstrap over items."""
    at = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.quantile(values[at].mean(1), (0.025, 0.975))
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=30)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--out", type=Path, default=Path("held-out"))
    asked = parser.parse_args()
    lens = mixlens.load("mixlens:smollm2")
    for task in asked.tasks:
        kind, options = TASKS[task]
        parts = []
        for seed in SEEDS:
            made = made_of(kind, 2 * asked.items, seed, options)
            folder = asked.out / f"{kind.replace(' ', '-')}-{seed}"
            wrong = set(mixlens.evaluate(lens, made, ["random"], ["mrr"], folder.with_name(f"{folder.name}-all")).wrong)
            right = [example for example in made if example.id not in wrong][: asked.items]
            table = mixlens.evaluate(lens, right, METHODS, ["mrr"], folder)
            parts.append(np.stack([table.values("mrr", label) for label, _, _ in METHODS]))
        values = np.concatenate(parts, 1)
        print(f"{task}: {values.shape[1]} prompts")
        for (label, _, _), row in zip(METHODS, values, strict=True):
            print(f"  {label:24} {interval(row)}   path_logit less it {interval(values[DEFAULT] - row)}", flush=True)


if __name__ == "__main__":
    main()
