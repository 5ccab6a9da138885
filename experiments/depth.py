"""How much of a rollout's scores is position, by depth: the figures of docs/methods/rollout.md, on SmolLM2.

    python experiments/depth.py

A rollout up to layer k of one pass is that of the model cut to k layers: what comes behind changes no map below.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

import mixlens
from mixlens.measure.ranks import rank_correlation
from mixlens.tasks import SAMPLE, source

LENGTH, DEPTHS = 64, (2, 8, 16, 30)
METHODS = ("attention_rollout", "norm_rollout", "globenc", "alti", "ifr+rollout")
TEXTS = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness, it "
    "was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of "
    "Darkness, it was the spring of hope, it was the winter of despair, we had everything before us.",
    "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse, and "
    "nothing particular to interest me on shore, I thought I would sail about a little and see the watery part of the "
    "world. It is a way I have of driving off the spleen and regulating the circulation.",
    "def quicksort(items):\n    if len(items) < 2:\n        return items\n    pivot = items[0]\n    low = [x for x in "
    "items[1:] if x < pivot]\n    high = [x for x in items[1:] if x >= pivot]\n    return quicksort(low) + [pivot] + "
    "quicksort(high)\n\nprint(quicksort([3, 1, 2]))\nprint(quicksort([5, 4, 9, 0]))\n",
    "Photosynthesis is the process by which green plants and some other organisms use sunlight to synthesize foods "
    "from carbon dioxide and water. Photosynthesis in plants generally involves the green pigment chlorophyll and "
    "generates oxygen as a by-product. It takes place in two stages, the light reactions and the Calvin cycle.",
    "Dear Ms. Weber, thank you for your letter of 14 March. We are sorry to hear that the parcel arrived damaged, and "
    "have sent a replacement today by express. You will not be charged for it. Please keep the broken item until our "
    "driver collects it, which should be on Tuesday or Wednesday next week between nine and five.",
)


def main() -> None:
    lens = mixlens.load("mixlens:smollm2")
    reviews = [str(row["text"]) for row in source(SAMPLE).rows()]
    texts = [*TEXTS, *(" ".join(reviews[9 * i : 9 * i + 9]) for i in range(3))]
    ids = [list(lens.subject.read(text).require()[0].ids)[:LENGTH] for text in texts]
    places = np.arange(LENGTH, dtype=np.float64)
    for method in METHODS:
        for field in (True, False):
            found = lens.attribute(ids, method, receptive_field=field)
            for depth in DEPTHS:
                rows = [attr.layers[depth - 1].double().numpy() for attr in found]
                texts_rho = np.mean([rank_correlation(a, b) for a, b in combinations(rows, 2)])
                places_rho = np.mean([rank_correlation(row, places) for row in rows])
                first = np.mean([row[0] / row.sum() for row in rows])
                print(
                    f"{method:18} field {field!s:5} {depth:2} layers: rho of two texts {texts_rho:5.2f}, with position "
                    f"{places_rho:5.2f}; the first token has {first:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
