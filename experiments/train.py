"""Train a named recipe over the packaged MiniLM and write the tuned difference as one file.

    python experiments/train.py sst2 --data DIR --out src/mixlens/data/sst2.safetensors

DIR holds the recipe's JSON-lines files (`.gz` or plain); the texts aren't part of this repository. `all` trains every
recipe into the folder --out. Adding a model: one entry in recipes.py.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import platform
import random
import time
from pathlib import Path
from typing import Any

import torch
from examples import Example, batches, collate, read_examples
from recipes import RECIPES, Recipe
from safetensors.torch import save_file
from scoring import accuracy, loss_of
from torch import Tensor, nn

from mixlens import embedded

Parameters = dict[str, nn.Parameter]
Facts = dict[str, Any]


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
