"""Which method finds the words that make two texts alike, where these are known.

python experiments/alike.py [--pairs FILE] [--items 60]

`synonyms`: two sentences that share nothing but a word and its synonym; gold: that pair, among all pairs of words.
`matches`: premise and hypothesis of FILE (JSON lines, `premise`, `hypothesis`, `label`), entailed; gold: of each word
that stands once in both, itself, among the words of the other text. Reciprocal ranks, 95 % bootstraps over pairs.
"""

from __future__ import annotations

import json
import random
from argparse import ArgumentParser
from pathlib import Path

import numpy as np

import mixlens

SYNONYMS = (
    ("car", "automobile"), ("doctor", "physician"), ("child", "kid"), ("river", "stream"), ("boat", "ship"),
    ("house", "home"), ("picture", "photograph"), ("shop", "store"), ("coat", "jacket"), ("road", "street"),
    ("gift", "present"), ("movie", "film"), ("woods", "forest"), ("lawyer", "attorney"), ("rabbit", "bunny"),
)  # fmt: skip
FIRST = (
    "The {} was older than anybody had thought.", "We found a {} behind the hill on Sunday.",
    "Nobody wanted to talk about the {} any more.", "My uncle once painted a {} in bright colours.",
)  # fmt: skip
SECOND = (
    "She dreams of a {} every night.", "In the end the {} cost them a fortune.",
    "There is one {} left in our small town.", "He said that any {} would do for the story.",
)  # fmt: skip
COMMON = frozenset(
    "a an the and or of in on at to with is are was were be his her their its it he she they for by from as that this "
    "there two one some while near next".split()
)


def synonyms(count: int) -> list[tuple[str, str, list[tuple[str, str]]]]:
    draw = random.Random(0)
    out = []
    for _ in range(count):
        one, other = draw.choice(SYNONYMS)
        pair = (one, other) if draw.random() < 0.5 else (other, one)
        out.append((draw.choice(FIRST).format(pair[0]), draw.choice(SECOND).format(pair[1]), [pair]))
    return out


def matches(path: Path, count: int) -> list[tuple[str, str, list[tuple[str, str]]]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    random.Random(0).shuffle(rows)
    out = []
    for row in rows:
        texts = [row[key].lower() for key in ("premise", "hypothesis")]
        words = [text.replace(".", " ").replace(",", " ").split() for text in texts]
        both = [w for w in dict.fromkeys(words[0]) if all(part.count(w) == 1 for part in words) and w not in COMMON]
        if row["label"] == "entailment" and len(both) > 1 and len(words[1]) > 4:
            out.append((*texts, [(w, w) for w in both]))
        if len(out) == count:
            break
    return out


def reciprocal(scores: np.ndarray, gold: int, draw: np.random.Generator) -> float:
    """1 / the rank of one score, ties in a random order."""
    order = np.lexsort((draw.random(len(scores)), -scores))
    return 1 / (1 + int(np.flatnonzero(order == gold)[0]))


def rank(alike: mixlens.Similarity | None, golds: list[tuple[str, str]], rows: bool, sides: tuple) -> float:
    draw = np.random.default_rng(0)
    first, second, shares = sides
    if alike is None:
        shares = draw.random(shares.shape)
    kept = [[i for i, u in enumerate(part) if not u.special and u.text.isalnum()] for part in (first, second)]
    names = [[part[i].text.lower() for i in at] for part, at in zip((first, second), kept, strict=True)]
    table = np.asarray(shares)[np.ix_(*kept)]
    values = []
    for a, b in golds:
        i, j = names[0].index(a), names[1].index(b)
        if rows:
            values += [reciprocal(table[i], j, draw), reciprocal(table[:, j], i, draw)]
        else:
            values.append(reciprocal(table.ravel(), i * table.shape[1] + j, draw))
    return float(np.mean(values))


def interval(values: np.ndarray) -> str:
    at = np.random.default_rng(0).integers(0, len(values), (10_000, len(values)))
    low, high = np.quantile(values[at].mean(1), (0.025, 0.975))
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--methods", nargs="*")
    given = parser.parse_args()
    lens = mixlens.load("mixlens:minilm")
    tasks = {"synonyms": (synonyms(given.items), False)}
    if given.pairs is not None:
        tasks["matches"] = (matches(given.pairs, given.items), True)
    names = given.methods or [m["name"] for m in mixlens.methods() if m["stage"] == "similarity"]
    for task, (items, rows) in tasks.items():
        print(f"{task}: {len(items)} pairs of texts", flush=True)
        for name in ["random", *names]:
            values = []
            for a, b, golds in items:
                alike = lens.similarity(a, b, "token_products" if name == "random" else name)
                values.append(rank(None if name == "random" else alike, golds, rows, alike.words()))
            print(f"  {name:20} {interval(np.array(values))}", flush=True)


if __name__ == "__main__":
    main()
