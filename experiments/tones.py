"""Train the shipped model of sounds on sentences of synthetic tones and write it as one file.

    python experiments/tones.py --out src/mixlens/data/sounds/tones.safetensors

It is no speech: a word is two pairs of tones. One thread, one seed, nothing picked: the weights after the last step are
written, as float16. Where each letter is said is known, so the CTC head is trained frame by frame: a word's frames are
its letters, those between two words are "|".
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
from safetensors.torch import save_file
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

from mixlens.embedded_sounds import LETTERS, RATE, SAMPLES, Sentence, held_out, processor, sentence

STEPS, BATCH, PEAK, WARM, SEED = 2500, 32, 2e-3, 200, 0
DELIMITER, FIRST = 4, 5  # the classes of "|" and of the first letter
FIELD, HOP = 105, 40
SETTINGS: dict[str, Any] = {
    "vocab_size": FIRST + len(LETTERS),
    "pad_token_id": 0,
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "conv_dim": [32, 32, 32],
    "conv_kernel": [10, 8, 4],
    "conv_stride": [5, 4, 2],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "feat_proj_dropout": 0.0,
    "final_dropout": 0.0,
    "layerdrop": 0.0,
    "apply_spec_augment": False,
    "mask_time_prob": 0.0,
    "initializer_range": 0.05,
}


def frames(made: Sentence) -> list[int]:
    """The class of each frame, by what is said in its middle."""
    out = []
    for i in range((SAMPLES - FIELD) // HOP + 1):
        at = (i * HOP + FIELD / 2) / RATE
        label = DELIMITER
        for word, start, end in made.sound["words"]:
            if start <= at < end:
                label = FIRST + LETTERS.index(word[int(at >= (start + end) / 2)])
        out.append(label)
    return out


def heard(made: list[Sentence]) -> torch.Tensor:
    """(sentence, sample), normalised as the feature extractor does."""
    x = torch.from_numpy(np.stack([s.sound["array"] for s in made])).float()
    return (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-7).sqrt()


def train() -> Any:
    """The model after the last step."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    model = Wav2Vec2ForCTC(Wav2Vec2Config(**SETTINGS)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / WARM, 0.5 * (1 + np.cos(np.pi * s / STEPS)))
    )
    begun, total = time.monotonic(), 0.0
    for step in range(1, STEPS + 1):
        made = [sentence(rng) for _ in range(BATCH)]
        logits = model(heard(made)).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.tensor([frames(s) for s in made]).flatten()
        )
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
def accuracy(model: Any, made: list[Sentence]) -> tuple[float, float]:
    """The share of sentences that are written as they are, and of words that sound like another that are right."""
    decode = processor().tokenizer.decode
    texts = [decode(path.tolist()) for path in model(heard(made)).logits.argmax(-1)]
    right = [text.split() == s.text.split() for text, s in zip(texts, made, strict=True)]
    alike = [
        len(text.split()) == 6 and text.split()[s.alike] == s.text.split()[s.alike]
        for text, s in zip(texts, made, strict=True)
    ]
    return float(np.mean(right)), float(np.mean(alike))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    begun = time.monotonic()
    model = train().half().float()
    seconds = time.monotonic() - begun
    whole, alike = accuracy(model, held_out())
    facts = {
        "name": "tones",
        "data": "sentences of synthetic tones (mixlens.embedded_sounds), no speech",
        "held_out": len(held_out()),
        "sentences": whole,
        "alike": alike,
        "settings": SETTINGS,
        "recipe": {"steps": STEPS, "batch": BATCH, "rate": PEAK, "warm": WARM, "seed": SEED},
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(seconds),
        "date": str(datetime.date.today()),
        "torch": torch.__version__,
        "machine": platform.machine(),
    }
    print(json.dumps({k: v for k, v in facts.items() if k != "settings"}, indent=1))
    tensors = {name: t.half().contiguous() for name, t in model.state_dict().items()}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, asked.out, metadata={"provenance": json.dumps(facts, sort_keys=True)})


if __name__ == "__main__":
    main()
