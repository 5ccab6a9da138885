"""A tiny model's layers as Blocks, for tests of what stands on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import spec_for
from mixlens.capture.run import run
from mixlens.decompose import Block
from models import families


@torch.no_grad()
def each_block(name: str, do: Callable[[Block], Any], texts: list[list[int]] | None = None, **how: Any) -> list[Any]:
    """`do(block)` of every layer, while that layer's tensors live; `texts` all of one length."""
    model = families.model(name, **how)
    ids = torch.tensor(texts or [families.text(), families.text(seed=2)])
    out: list[Any] = []
    spec = spec_for(model.config)
    run(
        model,
        spec,
        {"input_ids": ids, "attention_mask": torch.ones_like(ids)},
        lambda s: out.append(do(Block(spec, s))),
    )
    return out


def vectors(terms: Any) -> Tensor:
    """All the terms at once, (batch, query, key, dim): what mixlens itself never holds."""
    alpha = terms.call.weights()
    v = terms.values.repeat_interleave(terms.call.groups, 1)
    t = torch.einsum("bhij,bhjc,hcd->bijd", alpha, v, terms.projection)
    if terms.scale is not None:
        t = t * terms.scale[:, :, None, None]
    if terms.residual is not None:
        i = torch.arange(t.shape[1])
        t[:, i, i] += terms.residual
    return t
