"""Rows of data files as examples: token ids and what is asked of them; batches of these."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from recipes import Recipe, Row
from torch import Tensor


@dataclass(frozen=True)
class Example:
    """A text as ids, and its class; or, for a masked text, where [MASK] stands and the token ids that compete there.

    Or, for a question and its context, the first and last token of the answer, and those of the context.
    """

    ids: list[int]
    types: list[int]
    label: int
    at: int | None = None
    among: tuple[int, ...] | None = None
    span: tuple[int, int] | None = None
    context: tuple[int, int] | None = None


def read_rows(paths: tuple[Path, ...]) -> list[Row]:
    """The rows of JSON-lines files, plain or `.gz`, one after the other."""
    rows = []
    for path in paths:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            rows += [json.loads(line) for line in lines]
    return rows


def read_examples(data: Path, recipe: Recipe, tokenizer: Any, training: bool) -> list[Example]:
    """The rows to train on, or to measure on.

    A row whose competing words are no single pieces, or that is longer than the model reads, is left out, and said.
    Raises ValueError on a strange label.
    """
    files = recipe.train if training else recipe.dev
    rows = list(enumerate(read_rows(tuple(data / file for file in files))))
    if recipe.train_part is not None:
        rows = [(number, row) for number, row in rows if recipe.train_part(row, number) == training]
    samples = [sample for number, row in rows if (sample := recipe.sample(row, number)) is not None]
    pairs = [s.text if isinstance(s.text, tuple) else (s.text, None) for s in samples]
    out = []
    for sample, (first, second) in zip(samples, pairs, strict=True):
        encoded = tokenizer(first, second, return_token_type_ids=True)
        ids, types = encoded["input_ids"], encoded["token_type_ids"]
        if len(ids) > tokenizer.model_max_length:
            continue
        if sample.answer is not None:
            tokens = [encoded.char_to_token(at, sequence_index=1) for at in (sample.answer[0], sample.answer[1] - 1)]
            out.append(Example(ids, types, 0, span=tuple(tokens), context=(types.index(1), len(ids) - 2)))
            continue
        if sample.words is None:
            if sample.label not in range(len(recipe.labels)):
                raise ValueError(f"expected labels 0 to {len(recipe.labels) - 1}, got {sample.label!r} in {files}")
            out.append(Example(ids, types, sample.label))
            continue
        among = tokenizer(list(sample.words), add_special_tokens=False)["input_ids"]
        if any(len(pieces) != 1 for pieces in among):
            continue
        at = ids.index(tokenizer.mask_token_id)
        out.append(Example(ids, types, 0, at, tuple(pieces[0] for pieces in among)))
    if len(out) < len(samples):
        count = len(samples) - len(out)
        print(f"left out of {files}: {count} rows with words of several pieces or too many tokens", flush=True)
    return out


def batches(examples: list[Example], size: int, rng: random.Random | None = None) -> Iterator[list[Example]]:
    """Batches of texts of like length, so with nearly no padding; shuffled if `rng` is given."""
    order = list(range(len(examples)))
    pool = len(order)
    if rng:
        rng.shuffle(order)
        pool = 64 * size  # sorting within pools keeps batches different from epoch to epoch
    cuts = []
    for start in range(0, len(order), pool):
        chunk = sorted(order[start : start + pool], key=lambda i: len(examples[i].ids))
        cuts += [chunk[at : at + size] for at in range(0, len(chunk), size)]
    if rng:
        rng.shuffle(cuts)
    for cut in cuts:
        yield [examples[i] for i in cut]


def collate(batch: list[Example], device: torch.device | str = "cpu") -> tuple[dict[str, Tensor], Tensor]:
    """Model inputs (batch, longest), padded on the right with id 0, and the classes (batch,)."""
    longest = max(len(example.ids) for example in batch)
    rows = {"input_ids": [e.ids for e in batch], "token_type_ids": [e.types for e in batch]}
    if any(len(example.ids) < longest for example in batch):
        rows["attention_mask"] = [[1] * len(example.ids) for example in batch]
    inputs = {
        name: torch.tensor([row + [0] * (longest - len(row)) for row in some], device=device)
        for name, some in rows.items()
    }
    return inputs, torch.tensor([example.label for example in batch], device=device)
