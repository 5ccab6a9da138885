"""Do the right patches light up for a word? Two digits in a picture, their names in a text, a small CLIP on both.

Pictures of 16 x 16 pixels with two of scikit-learn's digits (8 x 8) in two of its four quarters, texts "seven two": it
is known which quarter is which word's. Of each method's pairs of words and patches, and each word: how often the
quarter with the largest sum of shares is its own, and where its quarter comes (mean reciprocal rank).

python experiments/towers.py [--steps 1500] [--pairs 100] [--save FILE]
"""

from __future__ import annotations

from argparse import ArgumentParser
from time import perf_counter
from typing import Any

import numpy as np
import torch
import transformers
from sklearn.datasets import load_digits
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import mixlens

NAMES = "zero one two three four five six seven eight nine".split()
METHODS = ("leave_out", "jacobian", "integrated_jacobian", "token_products", "alti", "attention_rollout")
SIDE, PATCH = 16, 4
HELD_OUT = 360  # the last of the digits, in a drawn order: never trained on


def tokenizer() -> Any:
    words = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[BOS]", *NAMES, "[EOS]"])}
    raw = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[(name, words[name]) for name in ("[BOS]", "[EOS]")]
    )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]")


def model() -> Any:
    tower = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    text = {**tower, "vocab_size": 14, "max_position_embeddings": 24, "pad_token_id": 0, "bos_token_id": 2}
    vision = {**tower, "image_size": SIDE, "patch_size": PATCH, "num_channels": 3, "num_hidden_layers": 3}
    config = transformers.CLIPConfig(text_config={**text, "eos_token_id": 13}, vision_config=vision, projection_dim=32)
    torch.manual_seed(0)
    return transformers.CLIPModel(config)


def drawn(draw: np.random.Generator, images: np.ndarray, labels: np.ndarray, count: int) -> tuple[Any, Any, Any]:
    """Pictures (count, 3, 16, 16), the two labels of each, and their quarters."""
    pixels = np.zeros((count, SIDE, SIDE), dtype=np.float32)
    two, quarters = np.zeros((count, 2), dtype=int), np.zeros((count, 2), dtype=int)
    for k in range(count):
        first = draw.integers(len(labels))
        other = draw.choice(np.flatnonzero(labels != labels[first]))
        quarters[k] = draw.choice(4, 2, replace=False)
        for slot, at in enumerate((first, other)):
            row, column = divmod(int(quarters[k, slot]), 2)
            pixels[k, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] = images[at] / 16
            two[k, slot] = labels[at]
    return torch.from_numpy(pixels)[:, None].expand(-1, 3, -1, -1).contiguous() * 2 - 1, two, quarters


def ids(two: np.ndarray) -> torch.Tensor:
    """[BOS] and two names [EOS], in the order in which they are given."""
    return torch.tensor([[2, 3 + a, 3 + b, 13] for a, b in two.tolist()])


def trained(clip: Any, images: np.ndarray, labels: np.ndarray, steps: int) -> None:
    """Contrastive: each picture with its own text of 128, which are told apart by their pairs of digits."""
    draw = np.random.default_rng(0)
    optimizer = torch.optim.AdamW(clip.parameters(), 1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps)
    for step in range(steps):
        pixels, two, _ = drawn(draw, images, labels, 128)
        out = clip(input_ids=ids(two), pixel_values=pixels)
        same = torch.tensor([[set(a) == set(b) for b in two.tolist()] for a in two.tolist()]).float()
        wanted = same / same.sum(1, keepdim=True)
        logits = out.logits_per_image
        loss = -(wanted * logits.log_softmax(1)).sum(1).mean() - (wanted * logits.T.log_softmax(1)).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0:
            print(f"step {step}: loss {float(loss.detach()):.3f}", flush=True)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--save")
    asked = parser.parse_args()
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = digits.images[order], digits.target[order]
    clip, begin = model(), perf_counter()
    trained(clip, images[:-HELD_OUT], labels[:-HELD_OUT], asked.steps)
    print(f"trained in {perf_counter() - begin:.0f} s, {sum(p.numel() for p in clip.parameters()):,} parameters")
    clip.eval()
    if asked.save:
        clip.save_pretrained(asked.save)
    draw = np.random.default_rng(1)
    pixels, two, quarters = drawn(draw, images[-HELD_OUT:], labels[-HELD_OUT:], asked.pairs)
    every = np.array([(a, b) for a in range(10) for b in range(10) if a < b])
    with torch.no_grad():
        answer = clip(input_ids=ids(every), pixel_values=pixels).logits_per_image.argmax(1).numpy()
    right = np.mean([set(every[k]) == set(pair) for k, pair in zip(answer, two.tolist(), strict=True)])
    print(f"of {asked.pairs} held-out pictures the right one of 45 texts: {right:.2f}")
    lens = mixlens.load(clip, tokenizer())
    chance = np.random.default_rng(2)
    for method in ("random", *METHODS):
        ranks, begin = [], perf_counter()
        for picture, pair, where in zip(pixels, two, quarters, strict=True):
            if method == "random":
                shares = torch.from_numpy(chance.normal(size=(4, 17)))
                cells = lens.subject.towers[1].read(picture).require()[0].cells
            else:
                alike = lens.similarity(" ".join(NAMES[i] for i in pair), picture, method)
                shares, cells = alike.scores, alike.source.cells
            for slot in range(2):
                sums = np.zeros(4)
                for position, cell in enumerate(cells):
                    if cell is not None:
                        sums[2 * (cell[0] // 2) + cell[1] // 2] += float(shares[1 + slot, position])
                own = sums[where[slot]]
                ranks.append(1 + (sums > own).sum() + ((sums == own).sum() - 1) / 2)  # ties share their ranks
        first, rank = np.mean(np.array(ranks) == 1), np.mean(1 / np.array(ranks))
        spread = 1.96 * np.std(1 / np.array(ranks)) / len(ranks) ** 0.5
        print(
            f"{method:20} first {first:.2f}  MRR {rank:.2f} ± {spread:.2f}  {perf_counter() - begin:.0f} s", flush=True
        )


if __name__ == "__main__":
    main()
