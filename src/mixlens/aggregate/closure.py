"""What earlier answer tokens took, handed back to the prompt."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def closure(scores: Float[Tensor, "answer source"], prompt: int) -> Float[Tensor, "answer prompt"]:
    """Each answer token's sources in the prompt alone, in float64: directly, and through the answer tokens before it.

    `prompt`: how many of the sources, the first ones, are the prompt's; the rest are the answer's own tokens. With G
    the scores without their negative parts, rows divided by their sum, T = (I - G_aa)^-1 G_ap (CAGE, 2025): G_aa has
    entries below its diagonal alone, so row after row of T is G_ap[t] + sum over s < t of G_aa[t, s] T[s]. A row
    of T sums to 1 where its own row and those of the answer tokens it draws on hold anything; one that holds nothing
    stays 0.
    """
    shares = scores.detach().to(device="cpu", dtype=torch.float64).clamp(min=0)
    total = shares.sum(1, keepdim=True)
    shares = shares / torch.where(total > 0, total, torch.ones_like(total))
    out = torch.zeros(len(shares), prompt, dtype=torch.float64, device=shares.device)
    for t, row in enumerate(shares):
        out[t] = row[:prompt] + row[prompt : prompt + t] @ out[:t]
    return out
