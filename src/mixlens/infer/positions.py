"""Which tokens of a text take a position: seen from what a masked token in the middle does to the others."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from mixlens.architectures.spec import Positions
from mixlens.infer.twin import Twin
from mixlens.infer.values import same

TOKENS, GAP = 8, 3
KEPT = [i for i in range(TOKENS) if i != GAP]


class States(NamedTuple):
    """Vectors of the tokens: what enters the first layer, and what comes out at the end."""

    entering: Tensor
    last: Tensor


@torch.no_grad()
def positions_of(twin: Twin, first: str) -> Positions:
    """What a masked token in the middle leaves behind: its position (all), or none, by the mask or by its id.

    `first`: the path of the first layer. What enters it says so where positions are added to tokens; where they are in
    the attention, what comes out does.
    """
    if twin.ids is None:
        return "all"  # nothing of a picture or a sound is masked
    model, ids = twin.model, twin.ids[:, :TOKENS]
    seen, gap = torch.ones_like(ids), torch.ones_like(ids)
    gap[:, GAP] = 0
    without = _states(model, first, ids[:, KEPT], seen[:, KEPT])
    there = _states(model, first, ids, seen)
    added = not same(there.entering[:, KEPT], without.entering)

    def moves_up(states: States) -> bool:
        return same(states.entering[:, KEPT], without.entering) if added else same(states.last[:, KEPT], without.last)

    if moves_up(_states(model, first, ids, gap)):
        return "mask"
    pad = getattr(model.config, "pad_token_id", None)
    if not isinstance(pad, int) or not 0 <= pad < model.get_input_embeddings().num_embeddings:
        return "all"
    padded = torch.where(gap == 0, pad, ids)
    return "ids" if moves_up(_states(model, first, padded, gap)) else "all"


def _states(model: Any, first: str, ids: Tensor, mask: Tensor) -> States:
    kept: list[Tensor] = []

    def keep(module: Any, args: Any, kwargs: Any) -> None:
        kept.append(next(t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.is_floating_point()))

    handle = model.get_submodule(first).register_forward_pre_hook(keep, with_kwargs=True)
    last = model(input_ids=ids, attention_mask=mask).last_hidden_state
    handle.remove()
    return States(kept[0], last)
