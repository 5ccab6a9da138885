"""Which method to believe on pictures: the table of docs/pictures.md, on the held-out digits of `mixlens:digits`.

    python experiments/patches.py [COUNT]

Marked: a patch of COUNT held-out digits gets the mark of another class, which the model was trained to follow; the
rank of that patch among the 36, and its part of the positive scores. Plain: what is left of the answer as the highest
patches of COUNT other held-out digits go (grey in their place).
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import mixlens
from mixlens import embedded_pictures
from mixlens.errors import MixlensError

SEED = 0
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("random", {}),
    ("attention", {}),
    ("attention_rollout", {}),
    ("norm_rollout", {}),
    ("globenc", {}),
    ("alti", {}),
    ("ifr", {}),
    ("value_zeroing", {}),
    ("cat", {}),
    ("attcat", {}),
    ("grads", {}),
    ("att_grads", {}),
    ("grad_sam", {}),
    ("saliency", {}),
    ("grad_l2", {}),
    ("grad_x_input", {}),
    ("cp_lrp", {}),
    ("attn_lrp", {}),
    ("gim", {}),
    ("deeplift", {}),
    ("integrated_gradients", {"steps": 50, "tolerance": float("inf")}),
    ("blank_out", {"replace": "grey"}),
    ("blank_out", {"replace": "blur"}),
    ("blank_out", {"replace": "zero"}),
]


def interval(values: list[float]) -> str:
    half = 1.96 * np.std(values) / len(values) ** 0.5
    return f"{np.mean(values):.2f} ± {half:.2f}"


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    lens, held, rng = mixlens.load("mixlens:digits"), embedded_pictures.held_out(), np.random.default_rng(SEED)
    cases = []
    for picture, label in held[:count]:
        other = int(rng.choice([k for k in range(10) if k != label]))
        row, column = (int(v) for v in rng.integers(0, 6, 2))
        cases.append((embedded_pictures.marked(picture, other, row, column), other, f"patch {row + 1},{column + 1}"))
    answers = lens.attribute([picture for picture, _, _ in cases], method="random")
    followed = [str(other) == attr.meta["prediction"] for attr, (_, other, _) in zip(answers, cases, strict=True)]
    print(f"marks followed: {sum(followed)} of {count}", flush=True)
    plain = [mixlens.Example(str(i), text=p) for i, (p, _) in enumerate(held[count : 2 * count])]
    for name, options in METHODS:
        begun = time.monotonic()
        label = " ".join([name, *(str(v) for k, v in options.items() if k == "replace")])
        try:
            results = lens.attribute([picture for picture, _, _ in cases], method=name, **options)
        except MixlensError as error:
            print(f"| {label} | {type(error).__name__}: {str(error)[:80]} |", flush=True)
            continue
        ranks, parts = [], []
        for attr, (_, _, patch) in zip(results, cases, strict=True):
            scores = attr.scores.double().numpy()
            there = [i for i, special in enumerate(attr.special) if not special]
            at = attr.tokens.index(patch)
            ranks.append(1 + sum(scores[i] >= scores[at] for i in there if i != at))
            total = scores[there].clip(0).sum()
            parts.append(max(scores[at], 0) / total if total else 0.0)
        seconds = time.monotonic() - begun
        entry = (label, name, options)
        table = mixlens.evaluate(lens, plain, methods=[entry], measures=["comprehensiveness", "sufficiency"])
        cells = [f"{table.row(m, label).mean:.2f}" for m in ("comprehensiveness", "sufficiency")]
        row = [label, interval([1 / r for r in ranks]), f"{np.mean([r == 1 for r in ranks]):.2f}"]
        print("| " + " | ".join([*row, f"{np.mean(parts):.2f}", *cells, f"{seconds:.0f} s"]) + " |", flush=True)


if __name__ == "__main__":
    main()
