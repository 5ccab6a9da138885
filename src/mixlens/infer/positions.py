"""Which tokens of a text take a position: seen from what a masked token in the middle does to the others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mixlens.architectures.spec import Positions
from mixlens.infer.twin import Twin
from mixlens.infer.values import same


@torch.no_grad()
def positions_of(twin: Twin) -> Positions:
    """What a masked token in the middle leaves behind: its position (all), or none, by the mask or by its id."""
    ids, gap = twin.ids[:, :8], 3
    kept = [i for i in range(8) if i != gap]
    mask = torch.ones_like(ids)
    mask[:, gap] = 0
    without = _states(twin.model, ids[:, kept], torch.ones_like(ids[:, kept]))
    if same(_states(twin.model, ids, mask)[:, kept], without):
        return "mask"
    pad = getattr(twin.model.config, "pad_token_id", None)
    if not isinstance(pad, int) or not 0 <= pad < twin.model.get_input_embeddings().num_embeddings:
        return "all"
    padded = ids.clone()
    padded[:, gap] = pad
    return "ids" if same(_states(twin.model, padded, mask)[:, kept], without) else "all"


def _states(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    return model(input_ids=ids, attention_mask=mask).last_hidden_state
