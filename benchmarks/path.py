"""Integrated gradients at a layer against captum's LayerIntegratedGradients on the same model: at most 0.8 of it.

A masked language model of MiniLM's shape, 12 tokens, 100 points, target against foil, the input of every layer.

python benchmarks/path.py [--repeats 3] [--threads 2] [--cpu-time]
"""

from __future__ import annotations

import torch
from shapes import arguments, ratio, text

import mixlens

LIMIT = 0.8
N, AT, TARGET, FOIL = 12, 5, 2000, 3000


def main() -> int:
    from captum.attr import LayerIntegratedGradients
    from transformers import BertConfig, BertForMaskedLM

    asked = arguments(__doc__, repeats=3)
    torch.manual_seed(0)
    config = BertConfig(hidden_size=384, num_attention_heads=12, num_hidden_layers=6, intermediate_size=1536)
    lens = mixlens.load(BertForMaskedLM(config).eval())
    ids = torch.tensor([text(N)])
    target = mixlens.Target(TARGET, foil=FOIL, position=AT)

    def value(ids: torch.Tensor) -> torch.Tensor:
        logits = lens.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, AT]
        return logits[:, TARGET] - logits[:, FOIL]

    zeros, failed = torch.zeros_like(ids), False
    encoder = lens.model.bert
    for k, below in enumerate([encoder.embeddings, *encoder.encoder.layer][:-1]):
        naive = LayerIntegratedGradients(value, below)

        def ours(k: int = k) -> object:
            return lens.attribute(
                ids[0].tolist(), "integrated_gradients", target=target, layer=k, tolerance=float("inf"), baseline="pad"
            )

        def theirs(naive: object = naive) -> object:
            return naive.attribute(ids, zeros, n_steps=100, internal_batch_size=32)  # type: ignore[attr-defined]

        share, unit = ratio(ours, theirs, asked)
        print(f"layer {k}  {share:.2f} of captum's way, limit {LIMIT}  ({unit:.2f} s)", flush=True)
        failed |= share > LIMIT
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
