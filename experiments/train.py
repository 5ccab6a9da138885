"""Train a named recipe over the packaged MiniLM and write the tuned difference as one file.

    python experiments/train.py sst2 --data DIR --out src/mixlens/data/sst2.safetensors

DIR holds the recipe's JSON-lines files (`.gz` or plain); the texts aren't part of this repository.
Adding a task: one entry in RECIPES.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import gzip
import hashlib
import importlib.metadata
import json
import platform
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mixlens import embedded


@dataclass(frozen=True)
class Recipe:
    """What is tuned, on what, and how. File names are relative to --data."""

    train: str
    dev: str
    labels: tuple[str, ...]
    fields: tuple[str, ...] = ("text",)  # two fields make a sentence pair
    label: str = "label"  # a row's class: its index in labels, or its name
    rank: int = 8  # of the LoRA difference on every linear map of every layer
    lr: float = 1e-3
    epochs: int = 2
    batch: int = 64
    warmup: float = 0.06  # part of the steps; then linear decay to 0
    weight_decay: float = 0.01
    clip: float = 1.0  # largest gradient norm
    dropout: float = 0.1
    seed: int = 0


RECIPES = {
    "sst2": Recipe(
        "sst2/train_phrases.jsonl.gz",
        "sst2/dev.jsonl",
        ("negative", "positive"),
        epochs=1,
        dropout=0.0,  # a quarter faster on a CPU; phrases of one sentence overlap, but come once
    ),
}

Example = tuple[list[int], list[int], int]  # input ids, token types, class
Parameters = dict[str, nn.Parameter]
Facts = dict[str, Any]


def read_examples(path: Path, recipe: Recipe, tokenizer: Any) -> list[Example]:
    """A JSON-lines file's rows as token ids and a class. Raises ValueError on a strange label."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    columns = [[row[field] for row in rows] for field in recipe.fields]
    encoded = tokenizer(*columns, return_token_type_ids=True)
    names = list(recipe.labels)
    classes = [names.index(c) if isinstance(c := row[recipe.label], str) else c for row in rows]
    if not set(classes) <= set(range(len(names))):
        raise ValueError(f"expected labels 0 to {len(names) - 1} in {path}, got {set(classes)}")
    return list(zip(encoded["input_ids"], encoded["token_type_ids"], classes, strict=True))


def batches(examples: list[Example], size: int, rng: random.Random | None = None) -> Iterator[list[Example]]:
    """Batches of texts of like length, so with nearly no padding; shuffled if `rng` is given."""
    order = list(range(len(examples)))
    pool = len(order)
    if rng:
        rng.shuffle(order)
        pool = 64 * size  # sorting within pools keeps batches different from epoch to epoch
    cuts = []
    for start in range(0, len(order), pool):
        chunk = sorted(order[start : start + pool], key=lambda i: len(examples[i][0]))
        cuts += [chunk[at : at + size] for at in range(0, len(chunk), size)]
    if rng:
        rng.shuffle(cuts)
    for cut in cuts:
        yield [examples[i] for i in cut]


def collate(batch: list[Example]) -> tuple[dict[str, Tensor], Tensor]:
    """Model inputs (batch, longest), padded on the right with id 0, and the classes (batch,)."""
    longest = max(len(ids) for ids, _, _ in batch)

    ids, types, labels = zip(*batch, strict=True)
    rows = {"input_ids": ids, "token_type_ids": types}
    if any(len(row) < longest for row in ids):
        rows["attention_mask"] = tuple([1] * len(row) for row in ids)
    inputs = {name: torch.tensor([row + [0] * (longest - len(row)) for row in some]) for name, some in rows.items()}
    return inputs, torch.tensor(labels)


def accuracy(model: nn.Module, examples: list[Example]) -> float:
    """Part of the examples whose highest logit is that of their class; leaves eval mode on."""
    model.eval()
    right = 0
    with torch.no_grad():
        for batch in batches(examples, 32):
            inputs, labels = collate(batch)
            right += int((model(**inputs).logits.argmax(-1) == labels).sum())
    return right / len(examples)


def add_lora(linear: nn.Linear, rank: int) -> None:
    """Let `linear` answer W x + b + B (A x), B zero at first; A and B become its parameters."""
    linear.lora_A = nn.Parameter(torch.randn(rank, linear.in_features) * linear.in_features**-0.5)
    linear.lora_B = nn.Parameter(torch.zeros(linear.out_features, rank))
    linear.register_forward_hook(lambda m, args, out: out + (args[0] @ m.lora_A.T) @ m.lora_B.T)


def choose_tuned(model: nn.Module, rank: int) -> Parameters:
    """Freeze all but biases, LayerNorms, pooler, head and a new LoRA on the layers' linear maps."""
    for name, module in list(model.named_modules()):
        if ".encoder." in name and isinstance(module, nn.Linear):
            add_lora(module, rank)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = (
            name.endswith((".bias", ".lora_A", ".lora_B"))
            or "LayerNorm" in name
            or name.startswith(("bert.pooler.", "classifier."))
        )
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def fit(model: nn.Module, tuned: Parameters, recipe: Recipe, train: list[Example], dev: list[Example]) -> None:
    """Train `tuned` in place; print loss and speed, and every 500 steps the dev accuracy.

    The last weights stand: dev accuracy picks no step.
    """
    steps = recipe.epochs * -(-len(train) // recipe.batch)
    warm = max(1, round(recipe.warmup * steps))
    optimizer = torch.optim.AdamW(tuned.values(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warm, (steps - s) / max(1, steps - warm))
    )
    rng = random.Random(recipe.seed)
    model.train()
    step, total, begun = 0, 0.0, time.monotonic()
    for _ in range(recipe.epochs):
        for batch in batches(train, recipe.batch, rng):
            inputs, labels = collate(batch)
            loss = cross_entropy(model(**inputs).logits, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(tuned.values(), recipe.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            step, total = step + 1, total + loss.item()
            if step % 50 == 0:
                ms = 1000 * (time.monotonic() - begun) / step
                print(f"step {step}/{steps} loss {total / 50:.4f} {ms:.0f} ms/step", flush=True)
                total = 0.0
            if step % 500 == 0:
                print(f"step {step} dev accuracy {accuracy(model, dev):.4f}", flush=True)
                model.train()
    model.eval()


def difference(tuned: Parameters, before: dict[str, Tensor]) -> dict[str, Tensor]:
    """What to store, in float16: LoRA factors as they are, everything else as change from `before`.

    A change is small, so its rounding is too: a LayerNorm gain of 1.02 stored as a value is off by
    up to 5e-4, stored as the change 0.02 by 8e-6.
    """
    return {
        name: (p.detach() if "lora_" in name else p.detach() - before[name]).half().contiguous()
        for name, p in tuned.items()
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(name: str, recipe: Recipe, data: Path, out: Path, base: Path | None = None) -> Facts:
    """Train, write `out`, load it as a user would, and put the accuracy so measured in its header.

    `base` is a folder with a BERT encoder and its tokenizer; default: the packaged MiniLM. Returns
    the provenance that stands in the header.
    """
    packaged = base is None
    base = base or embedded.base_folder()
    torch.manual_seed(recipe.seed)
    model, tokenizer = embedded.build(base, list(recipe.labels))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = recipe.dropout
    train = read_examples(data / recipe.train, recipe, tokenizer)
    dev = read_examples(data / recipe.dev, recipe, tokenizer)
    tuned = choose_tuned(model, recipe.rank)
    before = {key: parameter.detach().clone() for key, parameter in tuned.items()}
    begun = time.monotonic()
    fit(model, tuned, recipe, train, dev)
    facts: Facts = {
        "name": name,
        "labels": list(recipe.labels),
        "tuned": f"LoRA rank {recipe.rank} on every linear map of every layer, biases, LayerNorms, pooler, head",
        "recipe": dataclasses.asdict(recipe),
        "base": {
            "package": embedded.PACKAGE if packaged else None,
            "version": importlib.metadata.version(embedded.PACKAGE) if packaged else None,
            "sha256": sha256(base / "model.safetensors"),
        },
        "data_sha256": {file: sha256(data / file) for file in (recipe.train, recipe.dev)},
        "rows": {"train": len(train), "dev": len(dev)},
        "seconds": round(time.monotonic() - begun),
        "date": datetime.date.today().isoformat(),
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in ("torch", "transformers")},
    }
    tensors = difference(tuned, before)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out, {"provenance": json.dumps(facts)})
    facts["dev_accuracy"] = accuracy(embedded.load_tuned(out.read_bytes(), base)[0], dev)
    save_file(tensors, out, {"provenance": json.dumps(facts)})
    return embedded.provenance(out.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("--data", type=Path, required=True, help="folder with the data files")
    parser.add_argument("--out", type=Path, help="file to write (default: NAME.safetensors)")
    args = parser.parse_args()
    out = args.out or Path(f"{args.name}.safetensors")
    print(json.dumps(run(args.name, RECIPES[args.name], args.data, out), indent=2))


if __name__ == "__main__":
    main()
