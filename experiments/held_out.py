"""How the embedded models do on rows that share something with their training rows, and on those that share nothing.

    python experiments/held_out.py --data DIR

Prints a line a model and part: rows, accuracy, 95 % interval (Wilson). "Shares": `agreement`: task, target and cue
words stand together in a training row; `paraphrase`: one of the two sentences stands in a training pair; `sst2`,
`sst2_cut`: the sentence stands in train; letter case and blanks aside.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch
from examples import batches, collate, read_examples, read_rows
from recipes import RECIPES, Row
from scoring import scores

from mixlens.embedded import load_embedded


def plain(text: str) -> str:
    """Without letter case and doubled blanks."""
    return " ".join(text.lower().split())


def _agreement(row: Row) -> set[Any]:
    return {(row["uid"], row["target"], *row["cue_words"])}


def _paraphrase(row: Row) -> set[Any]:
    return {plain(row["text_a"]), plain(row["text_b"])}


def _text(row: Row) -> set[Any]:
    return {plain(row["text"])}


SHARED: dict[str, Callable[[Row], set[Any]]] = {
    "agreement": _agreement,
    "paraphrase": _paraphrase,
    "sst2": _text,
    "sst2_cut": _text,
}


def wilson(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share."""
    if not n:
        return float("nan"), float("nan")
    z, p = NormalDist().inv_cdf((1 + level) / 2), hits / n
    middle, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def rows_of(name: str, data: Path, training: bool) -> list[Row]:
    """The rows that a recipe trains or measures on, as `read_examples` chooses them."""
    recipe = RECIPES[name]
    rows = list(enumerate(read_rows(tuple(data / f for f in (recipe.train if training else recipe.dev)))))
    if recipe.train_part is not None:
        rows = [(number, row) for number, row in rows if recipe.train_part(row, number) == training]
    return [row for number, row in rows if recipe.sample(row, number) is not None]


def measure(name: str, data: Path) -> dict[str, tuple[int, int]]:
    """part -> (right, rows): all, those that share something with a training row, those that do not."""
    model, tokenizer = load_embedded(name)
    examples = read_examples(data, RECIPES[name], tokenizer, training=False)
    rows, key = rows_of(name, data, False), SHARED[name]
    if len(rows) != len(examples):
        raise ValueError(f"expected an example a row of {name}, got {len(examples)} of {len(rows)}")
    known = set().union(*map(key, rows_of(name, data, True)))
    right = {}
    with torch.no_grad():
        for batch in batches(examples, 32):
            inputs, labels = collate(batch)
            hits = scores(model, batch, inputs).argmax(-1) == labels
            right |= {id(example): bool(hit) for example, hit in zip(batch, hits, strict=True)}
    found = {"all": (0, 0), "shares": (0, 0), "shares nothing": (0, 0)}
    for row, example in zip(rows, examples, strict=True):
        for part in ("all", "shares" if key(row) & known else "shares nothing"):
            found[part] = found[part][0] + right[id(example)], found[part][1] + 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the data files")
    data = parser.parse_args().data
    for name in SHARED:
        for part, (hits, n) in measure(name, data).items():
            low, high = wilson(hits, n)
            share = hits / n if n else float("nan")
            print(json.dumps({"model": name, "part": part, "rows": n, "accuracy": round(share, 4)}), end=" ")
            print(f"[{low:.3f}, {high:.3f}]", flush=True)


if __name__ == "__main__":
    main()
