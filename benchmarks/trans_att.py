"""TransAtt at 128 tokens on a BERT-base-shaped classifier, as a ratio to its forward pass in the same run.

python benchmarks/trans_att.py [--tokens 128] [--repeats 7] [--threads 2]
"""

from __future__ import annotations

import argparse
import time

import torch
from transformers import BertConfig, BertForSequenceClassification

import mixlens


def main() -> None:
    """Print the ratio of interleaved minima."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tokens", type=int, default=128)
    options.add_argument("--repeats", type=int, default=7)
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig()).eval()
    lens = mixlens.load(model)
    ids = torch.randint(1000, 30000, (given.tokens,)).tolist()
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    best = {"forward": float("inf"), "trans_att": float("inf")}
    for _ in range(given.repeats):
        start = time.perf_counter()
        with torch.no_grad():
            model(**inputs)
        best["forward"] = min(best["forward"], time.perf_counter() - start)
        start = time.perf_counter()
        lens.attribute(ids, "trans_att")
        best["trans_att"] = min(best["trans_att"], time.perf_counter() - start)
    ratio = best["trans_att"] / best["forward"]
    print(f"forward {1e3 * best['forward']:.0f} ms, trans_att {ratio:.2f} forward passes at {given.tokens} tokens")


if __name__ == "__main__":
    main()
