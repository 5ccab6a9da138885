"""Train a named recipe over the packaged MiniLM and write the tuned difference as one file.

    python experiments/train.py sst2 --data DIR --out src/mixlens/data/sst2.safetensors

DIR holds the recipe's JSON-lines files (`.gz` or plain); the texts aren't part of this repository. `all` trains every
recipe into the folder --out. Adding a model: one entry in recipes.py.
"""

from __future__ import annotations

import argparse
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
from recipes import RECIPES, Recipe, Row
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mixlens import embedded


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


Parameters = dict[str, nn.Parameter]
Facts = dict[str, Any]


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


def scores(model: Any, batch: list[Example], inputs: dict[str, Tensor]) -> Tensor:
    """(batch, class): the classifier's logits, or those of the words that compete at [MASK]."""
    if batch[0].among is None:
        return model(**inputs).logits
    hidden = model.bert(**inputs).last_hidden_state
    at = torch.tensor([example.at for example in batch], device=hidden.device)
    among = torch.tensor([example.among for example in batch], device=hidden.device)
    return model.cls(hidden[torch.arange(len(batch), device=hidden.device), at]).gather(1, among)


def loss_of(model: Any, batch: list[Example], inputs: dict[str, Tensor], labels: Tensor) -> Tensor:
    """Cross entropy of the class, or the mean of those of the answer's first and last token."""
    if batch[0].span is None:
        return cross_entropy(scores(model, batch, inputs), labels)
    found = model(**inputs)
    spans = torch.tensor([example.span for example in batch], device=found.start_logits.device)
    return (cross_entropy(found.start_logits, spans[:, 0]) + cross_entropy(found.end_logits, spans[:, 1])) / 2


def answered(model: Any, examples: list[Example]) -> dict[str, float]:
    """Part of the questions whose best span of the context (up to 30 tokens) is the answer, and the mean F1."""
    model.eval()
    exact, overlap = [], []
    with torch.no_grad():
        for batch in batches(examples, 16):
            inputs, _ = collate(batch, model.device)
            found = model(**inputs)
            for example, starts, ends in zip(batch, found.start_logits, found.end_logits, strict=True):
                first, last = example.context
                sums = starts[first : last + 1, None] + ends[None, first : last + 1]
                sums = sums.masked_fill(
                    torch.ones_like(sums).tril(-1).bool() | torch.ones_like(sums).triu(30).bool(), -1e9
                )
                a, b = (first + k for k in divmod(int(sums.argmax()), sums.shape[1]))
                c, d = example.span
                common = max(0, min(b, d) - max(a, c) + 1)
                exact.append(float((a, b) == (c, d)))
                overlap.append(2 * common / (b - a + 1 + d - c + 1))
    return {"accuracy": sum(exact) / len(exact), "f1": sum(overlap) / len(overlap)}


def accuracy(model: Any, examples: list[Example]) -> dict[str, float]:
    """Part of the examples whose highest logit is that of their class, and the mean over classes (balanced).

    Of questions see `answered`.
    """
    if examples[0].span is not None:
        return answered(model, examples)
    model.eval()
    right: dict[int, list[float]] = {}
    with torch.no_grad():
        for batch in batches(examples, 32):
            inputs, labels = collate(batch, model.device)
            found = scores(model, batch, inputs).argmax(-1) == labels
            for example, hit in zip(batch, found.tolist(), strict=True):
                right.setdefault(example.label, []).append(float(hit))
    every = [hit for hits in right.values() for hit in hits]
    return {
        "accuracy": sum(every) / len(every),
        "balanced": sum(sum(hits) / len(hits) for hits in right.values()) / len(right),
    }


def add_lora(linear: nn.Linear, rank: int) -> None:
    """Let `linear` answer W x + b + B (A x), B zero at first; A and B become its parameters."""
    linear.lora_A = nn.Parameter(torch.randn(rank, linear.in_features) * linear.in_features**-0.5)
    linear.lora_B = nn.Parameter(torch.zeros(linear.out_features, rank))
    linear.register_forward_hook(lambda m, args, out: out + (args[0] @ m.lora_A.T) @ m.lora_B.T)


def choose_tuned(model: nn.Module, rank: int) -> Parameters:
    """Freeze all but biases, LayerNorms, pooler, head and (rank > 0) a new LoRA on the layers' linear maps."""
    for name, module in list(model.named_modules()):
        if rank and ".encoder." in name and isinstance(module, nn.Linear):
            add_lora(module, rank)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = (
            name.endswith((".bias", ".lora_A", ".lora_B"))
            or "LayerNorm" in name
            or name.startswith(("bert.pooler.", "classifier.", "cls.predictions.transform.", "qa_outputs."))
        ) and name != "cls.predictions.bias"  # one number a word of the vocabulary: the few words learned need none
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def fit(model: Any, tuned: Parameters, recipe: Recipe, train: list[Example], dev: list[Example]) -> None:
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
            inputs, labels = collate(batch, model.device)
            loss = loss_of(model, batch, inputs, labels)
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
                print(f"step {step} dev accuracy {accuracy(model, dev)['accuracy']:.4f}", flush=True)
                model.train()
    model.eval()


def difference(tuned: Parameters, before: dict[str, Tensor]) -> dict[str, Tensor]:
    """What to store, in float16: LoRA factors as they are, everything else as change from `before`.

    A change is small, so its rounding is too: a LayerNorm gain of 1.02 stored as a value is off by
    up to 5e-4, stored as the change 0.02 by 8e-6.
    """
    return {
        name: (p.detach() if "lora_" in name else p.detach() - before[name]).half().cpu().contiguous()
        for name, p in tuned.items()
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(name: str, recipe: Recipe, data: Path, out: Path, base: Path | None = None, device: str = "cpu") -> Facts:
    """Train, write `out`, load it as a user would, and put the accuracy so measured in its header.

    `base` is a folder with a BERT encoder and its tokenizer; default: the packaged MiniLM. Returns
    the provenance that stands in the header.
    """
    packaged = base is None
    base = base or embedded.base_folder()
    torch.manual_seed(recipe.seed)
    model, tokenizer = embedded.build(base, recipe.labels, task=recipe.task, layers=recipe.layers)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = recipe.dropout
    train = read_examples(data, recipe, tokenizer, training=True)
    dev = read_examples(data, recipe, tokenizer, training=False)
    tuned = choose_tuned(model, recipe.rank)
    model.to(device)
    before = {key: parameter.detach().clone() for key, parameter in tuned.items()}
    begun = time.monotonic()
    fit(model, tuned, recipe, train, dev)
    files = sorted({*recipe.train, *recipe.dev})
    settings = {k: v for k, v in vars(recipe).items() if not callable(v)}
    lora = f"LoRA rank {recipe.rank} on every linear map of every layer, " if recipe.rank else ""
    facts: Facts = {
        "name": name,
        "task": recipe.task,
        "layers": recipe.layers,
        "labels": list(recipe.labels),
        "tuned": f"{lora}biases, LayerNorms, head",
        "recipe": {**settings, "sample": recipe.sample.__name__},
        "base": {
            "package": embedded.PACKAGE if packaged else None,
            "version": importlib.metadata.version(embedded.PACKAGE) if packaged else None,
            "sha256": sha256(base / "model.safetensors"),
        },
        "data_sha256": {file: sha256(data / file) for file in files},
        "rows": {"train": len(train), "dev": len(dev)},
        "seconds": round(time.monotonic() - begun),
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in ("torch", "transformers")},
    }
    tensors = difference(tuned, before)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out, {"provenance": json.dumps(facts)})
    measured = accuracy(embedded.load_tuned(out.read_bytes(), base)[0].to(device), dev)
    facts |= {f"dev_{kind}": value for kind, value in measured.items()}
    save_file(tensors, out, {"provenance": json.dumps(facts)})
    return embedded.provenance(out.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=[*sorted(RECIPES), "all"])
    parser.add_argument("--data", type=Path, required=True, help="folder with the data files")
    parser.add_argument("--out", type=Path, help="file to write (default: NAME.safetensors); with `all`, the folder")
    parser.add_argument("--base", type=Path, help="folder with the encoder (default: the installed package's)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    for name in sorted(RECIPES) if args.name == "all" else [args.name]:
        file = f"{name}.safetensors"
        out = (args.out or Path()) / file if args.name == "all" else args.out or Path(file)
        print(json.dumps(run(name, RECIPES[name], args.data, out, args.base, args.device), indent=2), flush=True)


if __name__ == "__main__":
    main()
