"""Methods on a classifier of twelve layers: MPNet as it is packaged, and a head that is fitted to SST-2 on top of it.

The layers stay as they come; the head (dense, tanh, map) reads the first token's row of the last one, whose vectors are
kept once for all of the sentences. AOPC of each method on sentences of the development set.

python experiments/deeper.py DATA FOLDER [--train 2000] [--texts 60] [--out deeper]     (FOLDER: all-mpnet-base-v2;
DATA: docs/reproduction.md)
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import torch
import transformers
from encoders import rows_of
from torch import Tensor, nn

import mixlens

METHODS = ("random", "alti", "globenc", "saliency", "att_grads", "grads", "cp_lrp", "attn_lrp")
DEFAULT = "cp_lrp"
BATCH, EPOCHS, RATE, DECAY = 64, 60, 3e-4, 0.05


@torch.no_grad()
def first_rows(model: Any, tokenizer: Any, texts: list[str]) -> Tensor:
    """(text, dim): what the head reads of each."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    out = torch.empty(len(texts), model.config.hidden_size)
    for start in range(0, len(texts), 32):
        members = order[start : start + 32]
        inputs = tokenizer([texts[i] for i in members], padding=True, return_tensors="pt")
        out[members] = model.mpnet(**inputs).last_hidden_state[:, 0]
    return out


def fit(head: nn.Module, vectors: Tensor, labels: Tensor) -> None:
    """Fits a head to vectors and their classes."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=DECAY)
    head.train()
    for _ in range(EPOCHS):
        for part in torch.randperm(len(vectors)).split(BATCH):
            loss = nn.functional.cross_entropy(head(vectors[part, None]), labels[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    head.eval()


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--texts", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("deeper"))
    asked = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(asked.folder)
    model = transformers.MPNetForSequenceClassification.from_pretrained(asked.folder, num_labels=2).eval()
    training = rows_of(asked.data / "sst2" / "train.jsonl.gz")
    chosen = [training[i] for i in torch.randperm(len(training))[: asked.train].tolist()]
    held_out = rows_of(asked.data / "sst2" / "dev.jsonl")
    vectors, labels = {}, {}
    for name, rows in (("train", chosen), ("dev", held_out)):
        vectors[name] = first_rows(model, tokenizer, [row["text"] for row in rows])
        labels[name] = torch.tensor([row["label"] for row in rows])
    fit(model.classifier, vectors["train"], labels["train"])
    with torch.no_grad():
        right = model.classifier(vectors["dev"][:, None]).argmax(-1) == labels["dev"]
    print(f"accuracy on {len(right)} sentences: {right.float().mean():.3f}", flush=True)

    lens = mixlens.load(model, tokenizer)
    table = mixlens.evaluate(lens, held_out[: asked.texts], list(METHODS), ["aopc"], asked.out, task="classification")
    for row in sorted(table, key=lambda row: -row.mean):
        print(f"{row.method:12} {row.mean:6.3f} [{row.low:.3f}, {row.high:.3f}]", flush=True)
    for other in METHODS:
        if other != DEFAULT:
            told = table.better("aopc", DEFAULT, other)
            print(f"{DEFAULT} less {other}: {told.difference:.3f} [{told.low:.3f}, {told.high:.3f}]", flush=True)


if __name__ == "__main__":
    main()
