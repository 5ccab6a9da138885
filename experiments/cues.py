"""Which methods find the word that decides how a word that sounds like another is written (docs/speech.md).

    python experiments/cues.py

Held-out sentences of `mixlens:tones` that the model writes as they are. Asked is why the letter is "k" rather than "c",
or the other way round, in the middle of its frames. Ranked are the five other words by the sum of their frames' scores.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import mixlens
from mixlens import embedded_sounds
from mixlens.embedded_sounds import Sentence

ASKED: dict[str, dict[str, Any]] = {
    "random": {},
    "attention": {},
    "attention_rollout": {},
    "norm_rollout": {},
    "globenc": {},
    "alti": {},
    "ifr": {},
    "value_zeroing": {},
    "value_zeroing+mean": {},
    "value_zeroing+layer:-1": {},
    "grads": {},
    "grad_x_input": {},
    "cp_lrp": {},
    "attn_lrp": {},
    "gim": {},
    "saliency": {},
    "grad_l2": {},
    "integrated_gradients": {"tolerance": float("inf")},
    "blank_out": {},
    "blank_out, words": {"words": True},
}


def target(lens: Any, made: Sentence) -> tuple[mixlens.Target, int] | None:
    """The letter that is asked about and its frame; None where the model does not write the sentence as it is."""
    (stream,) = lens.subject.read({k: v for k, v in made.sound.items() if k != "words"}).require()
    if stream.words is None or [w for w, _, _ in stream.words] != made.text.split():
        return None
    _, start, end = made.sound["words"][made.alike]
    letter = made.text.split()[made.alike][0]
    label = lens.head.tokenizer.convert_tokens_to_ids(letter)
    middles = [(a + b) / 2 for a, b in stream.places]
    frames = [i for i, t in enumerate(middles) if start <= t < end and stream.emitted[i] == label]
    if not frames:
        return None
    return mixlens.Target(letter, foil="c" if letter == "k" else "k", position=frames[len(frames) // 2]), len(frames)


def judged(attr: Any, made: Sentence) -> tuple[float, bool, float, bool]:
    """1 / rank of the deciding word among the others; if it is first; its part; if it has the highest frame."""
    words = [w for w in attr.words() if not w.special]
    others = [w for k, w in enumerate(words) if k != made.alike]
    cue = words[made.cue]
    ties = sum(w.score == cue.score for w in others) - 1
    rank = 1 + sum(w.score > cue.score for w in others) + 0.5 * ties
    positive = sum(max(w.score, 0) for w in words)
    frames = [i for i in range(len(attr.scores)) if i not in words[made.alike].indices]
    best = max(frames, key=lambda i: float(attr.scores[i]))
    return 1 / rank, rank == 1, max(cue.score, 0) / positive if positive else 0.0, best in cue.indices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sentences", type=int, default=100)
    asked = parser.parse_args()
    lens = mixlens.load("mixlens:tones")
    cases = [(s, t[0]) for s in embedded_sounds.held_out(asked.sentences) if (t := target(lens, s)) is not None]
    print(f"{len(cases)} of {asked.sentences} sentences are written as they are")
    print("| method | MRR | first | part | highest frame | time |\n| --- | --- | --- | --- | --- | --- |")
    for name, options in ASKED.items():
        begun = time.monotonic()
        rows = [
            judged(lens.attribute(made.sound, name.partition(",")[0], goal, **options), made) for made, goal in cases
        ]
        ranks, first, part, frame = np.array(rows, dtype=float).T
        margin = 1.96 * ranks.std(ddof=1) / len(ranks) ** 0.5
        means = " | ".join(f"{column.mean():.2f}" for column in (first, part, frame))
        seconds = time.monotonic() - begun
        print(f"| {name} | {ranks.mean():.2f} ± {margin:.2f} | {means} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
