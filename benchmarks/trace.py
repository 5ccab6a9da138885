"""A whole answer back to its prompt, in times of the model's own pass over both: a decoder of SmolLM2's shape.

python benchmarks/trace.py [--repeats 3] [--threads 2] [--cpu-time] [--prompt 256] [--answer 32] [--layers 30]
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

import torch
from shapes import arguments, forward, ratio, text

import mixlens

# and the limit that each is held to
METHODS = {"head_logit": 4, "path_logit": 8, "alti_logit": 8, "attention_rollout": 4, "globenc": 4, "alti": 8, "ifr": 8}
# A backward pass a token of the answer, by activations alone: as many products as a forward pass, not twice as many.
BACKWARD = ("cp_lrp", "attn_lrp", "gim", "libragrad", "saliency", "attcat", "att_grads")


def backward_limit(answer: int) -> float:
    """1.2 times the floor: the pass that keeps its graph, as much again for keeping it, a backward a token."""
    return 1.2 * (2 + answer)


def decoder(layers: int) -> Any:
    """A lens on a random Llama of SmolLM2-135M's shape."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=layers,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
    )
    return mixlens.load(LlamaForCausalLM(config).eval())


def main() -> int:
    parser = ArgumentParser(add_help=False)
    for name, value in (("--prompt", 256), ("--answer", 32), ("--layers", 30)):
        parser.add_argument(name, type=int, default=value)
    sizes, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    asked = arguments(__doc__, repeats=3)
    lens, ids = decoder(sizes.layers), text(sizes.prompt + sizes.answer)
    prompt, answer, slower = ids[: sizes.prompt], ids[sizes.prompt :], False
    limits = METHODS | dict.fromkeys(BACKWARD, backward_limit(sizes.answer))
    for method, limit in limits.items():
        passes, unit = ratio(lambda m=method: lens.trace(prompt, answer, m), forward(lens, ids), asked)
        print(
            f"{method:18} {passes:5.2f} forward passes for {sizes.answer} answer tokens over {sizes.prompt} of the "
            f"prompt, limit {limit:.3g} (a pass: {unit * 1000:.0f} ms)",
            flush=True,
        )
        slower |= passes > limit
    return int(slower)


if __name__ == "__main__":
    raise SystemExit(main())
