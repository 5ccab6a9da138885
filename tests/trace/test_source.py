"""Does a trace find the source of an answer? Facts are planted, one is asked for, on a real deep decoder."""

from __future__ import annotations

import random

import numpy as np
import pytest

import mixlens
from models import smollm2

NAMES = ("Anna", "Tom", "Mary", "Peter", "Lucy", "James", "Sarah", "Ben")
THINGS = ("dog", "cat", "horse", "bird", "fish", "car", "boat", "house")
METHODS = ("head_logit", "saliency", "alti", "attention_rollout", "random")


def planted(seed: int) -> tuple[str, str]:
    """A prompt of three facts that asks for one of them, and the answer."""
    draw = random.Random(seed)
    names, things = draw.sample(NAMES, 3), draw.sample(THINGS, 3)
    asked = draw.randrange(3)
    facts = " ".join(f"{name} has a {thing}." for name, thing in zip(names, things, strict=True))
    return f"{facts} {names[asked]} has a", f" {things[asked]}"


def reciprocal_rank(lens: mixlens.Lens, prompt: str, answer: str, method: str) -> float:
    """1 / rank of the planted token among the prompt's, by the method's scores of the answer's first token."""
    trace = lens.trace(prompt, answer, method)
    gold = trace.prompt.names.index("\u0120" + answer.strip())
    scores = trace.scores[0, : len(trace.prompt)]
    return 1 / (1 + int((scores > scores[gold]).sum()))


@pytest.mark.slow
@smollm2.needed
def test_the_default_method_finds_the_planted_source() -> None:
    """Of 8 prompts of three facts: head_logit above saliency above the rollouts, which are no better than chance."""
    lens = smollm2.lens()
    items = [planted(seed) for seed in range(8)]
    found = {m: np.mean([reciprocal_rank(lens, *item, m) for item in items]) for m in METHODS}
    assert found["head_logit"] > 0.8, found
    assert found["head_logit"] > found["saliency"] + 0.2, found
    assert found["saliency"] > max(found[m] for m in ("alti", "attention_rollout", "random")) + 0.1, found
