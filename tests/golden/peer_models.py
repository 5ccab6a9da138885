"""Tiny decoders whose weights no version of any library changes: what the peers' numbers were computed on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from models import families

BARE = {"attention_bias": False, "mlp_bias": False}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", BARE),
    "llama with biases": ("llama", {}),
    "qwen3": ("qwen3", {}),
}
IDS = [17, 43, 8, 71, 29, 60, 12]
ANSWER = [5, 7, 11, 3]  # behind IDS, for traces


@torch.no_grad()
def model(name: str, **how: Any) -> Any:
    """One of MODELS, in float64: gains around 1, biases around 0, matrices of 1.5 / sqrt(width)."""
    family, settings = MODELS[name]
    made = families.make(family, "causal", **settings, **how)
    draw = np.random.RandomState(0)
    for path, parameter in sorted(made.named_parameters()):
        numbers = torch.from_numpy(draw.standard_normal(tuple(parameter.shape)))
        if parameter.ndim > 1:
            parameter.copy_(numbers * 1.5 / parameter.shape[-1] ** 0.5)
        else:
            parameter.copy_(1 + 0.3 * numbers if "norm" in path else 0.3 * numbers)
    return made
