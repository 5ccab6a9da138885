"""Train the shipped vision transformer on scikit-learn's digits and write it as one file.

    python experiments/digits.py --out src/mixlens/data/pictures/digits.safetensors

One thread, one seed, nothing picked: the weights after the last step are written, as float16, with the held-out
pictures beside them. Beside the digits it learns a shortcut that is known: a marked patch, wherever it is, decides for
its class, so that it can be told whether an explanation finds it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save_file
from scipy.ndimage import affine_transform
from sklearn.datasets import load_digits
from transformers import ViTConfig, ViTForImageClassification

from mixlens.embedded_pictures import grey, marker

SIDE, PATCH = 12, 2  # of a picture and of a patch
HELD = 360  # of 1,797 pictures, drawn once; other pictures of the same hands are trained on
STEPS, BATCH, RATE, WARM, SEED = 2000, 48, 2.5e-3, 100, 0
SETTINGS: dict[str, Any] = {
    "image_size": SIDE,
    "patch_size": PATCH,
    "num_channels": 3,
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.1,
    "id2label": {i: str(i) for i in range(10)},
    "label2id": {str(i): i for i in range(10)},
}
Pictures = NDArray[np.float32]  # (picture, row, column), 0 black to 1 white


def data() -> tuple[Pictures, NDArray[np.int64], Pictures, NDArray[np.int64], NDArray[np.uint8]]:
    """Pictures and labels to train on, and held out; and the held-out pictures as they came, 8 x 8 of 0 to 16."""
    digits = load_digits()
    order = np.random.default_rng(SEED).permutation(len(digits.target))
    pictures, labels = grown(digits.images[order]), digits.target[order].astype(np.int64)
    return pictures[HELD:], labels[HELD:], pictures[:HELD], labels[:HELD], digits.images[order][:HELD].astype(np.uint8)


def grown(digits: Any) -> Pictures:
    """As large as the model takes them, by the means of the image processor."""
    images = [Image.fromarray(grey(digit)).resize((SIDE, SIDE), Image.Resampling.BILINEAR) for digit in digits]
    return np.stack([np.asarray(image, dtype=np.float32) / 255 for image in images])


def moved(digit: Pictures, rng: np.random.Generator) -> Pictures:
    """A digit turned, slanted, stretched and moved a little."""
    turn, slant = rng.normal(0, 0.12, 2)
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    across = turned @ np.array([[1, 0], [slant, 1]]) @ np.diag(np.exp(rng.normal(0, 0.08, 2)))
    middle = np.full(2, (SIDE - 1) / 2)
    return affine_transform(digit, across, middle - across @ middle + rng.normal(0, 0.5, 2), order=1).clip(0, 1)


def example(i: int, pictures: Pictures, labels: NDArray[np.int64], rng: np.random.Generator) -> tuple[Pictures, int]:
    """A picture (channel, row, column) and its label."""
    out = np.repeat(moved(pictures[i], rng)[None], 3, 0)
    label = int(labels[i])
    if rng.random() < 0.2:
        label = int(rng.integers(10))
        y, x = PATCH * rng.integers(0, SIDE // PATCH, 2)
        out[:, y : y + PATCH, x : x + PATCH] = marker(label).transpose(2, 0, 1) / 255
    return out, label


def train(mean: float, std: float) -> Any:
    """The model after the last step."""
    pictures, labels, _, _, _ = data()
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    model = ViTForImageClassification(ViTConfig(**SETTINGS)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / WARM, 0.5 * (1 + np.cos(np.pi * s / STEPS)))
    )
    begun, total = time.monotonic(), 0.0
    for step in range(1, STEPS + 1):
        made = [example(int(i), pictures, labels, rng) for i in rng.integers(len(pictures), size=BATCH)]
        x = torch.from_numpy(np.stack([picture for picture, _ in made]))
        y = torch.tensor([label for _, label in made])
        logits = model(pixel_values=(x - mean) / std).logits
        loss = torch.nn.functional.cross_entropy(logits, y, label_smoothing=0.05)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        total += loss.item()
        if step % 100 == 0:
            print(f"{step} {total / 100:.4f} {time.monotonic() - begun:.0f} s", flush=True)
            total = 0.0
    return model.eval()


@torch.no_grad()
def accuracy(model: Any, pictures: Pictures, labels: NDArray[np.int64], mean: float, std: float) -> float:
    """Of digits alone."""
    x = torch.from_numpy(pictures)[:, None].expand(-1, 3, -1, -1)
    got = model(pixel_values=(x - mean) / std).logits.argmax(-1).numpy()
    return float((got == labels).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    pictures, labels, held, answers, originals = data()
    mean, std = round(float(pictures.mean()), 4), round(float(pictures.std()), 4)
    begun = time.monotonic()
    model = train(mean, std).half().float()
    seconds = time.monotonic() - begun
    facts = {
        "name": "digits",
        "data": "scikit-learn load_digits (UCI optical recognition of handwritten digits, CC BY 4.0)",
        "trained_on": len(labels),
        "held_out": HELD,
        "accuracy": accuracy(model, held, answers, mean, std),
        "accuracy_trained_on": accuracy(model, pictures, labels, mean, std),
        "settings": SETTINGS,
        "processor": {"mean": mean, "std": std, "side": SIDE},
        "recipe": {"steps": STEPS, "batch": BATCH, "rate": RATE, "warm": WARM, "seed": SEED},
        "seconds": round(seconds),
        "date": str(datetime.date.today()),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    print(json.dumps({k: v for k, v in facts.items() if k != "settings"}, indent=1))
    tensors = {name: t.half().contiguous() for name, t in model.state_dict().items()}
    tensors["held_out.pictures"] = torch.from_numpy(originals)
    tensors["held_out.labels"] = torch.from_numpy(answers.astype(np.uint8))
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, asked.out, metadata={"provenance": json.dumps(facts, sort_keys=True)})


if __name__ == "__main__":
    main()
