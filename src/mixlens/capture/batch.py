"""Texts of several lengths to padded tensors, grouped so that little is padded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from mixlens.capture.given import PER_TOKEN
from mixlens.capture.signal import Signal
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens, text_of
from mixlens.errors import InputError

BatchSize = int | Callable[[int], int]  # or a function of the length of a batch's longest text
ENOUGH, NEAR = 8, 7 / 8  # see `buckets`


def buckets(texts: Sequence[Stream], size: BatchSize, alike: bool = False, tight: bool = False) -> Iterator[list[int]]:
    """Indices of the texts, longest first (so that memory shows its worst at once), `size` at a time.

    `alike`: only texts that reach as far together, for models in which a text is another beside a longer one. `tight`:
    where padding costs what text costs (a CPU) a batch that is `ENOUGH` ends before a text shorter than `NEAR` of its
    longest: eight at a time run at the rate of thirty-two there.
    """
    reach = [(len(t), max(t.inputs.get("position_ids", (0,))) if alike else 0, t.alike) for t in texts]
    order = sorted(range(len(texts)), key=lambda i: (-reach[i][0], -reach[i][1], reach[i][2]))
    while order:
        count = size if isinstance(size, int) else size(len(texts[order[0]]))
        if alike or texts[order[0]].alike:
            count = min(count, sum(reach[i] == reach[order[0]] for i in order))
        if tight:
            short = NEAR * len(texts[order[0]])
            count = next((k for k in range(ENOUGH, min(count, len(order))) if len(texts[order[k]]) < short), count)
        yield order[:count]
        order = order[count:]


def collate(
    streams: Sequence[Stream], pad: int | None, device: Any, dtype: torch.dtype, accepts: frozenset[str]
) -> dict[str, Tensor]:
    """What the model is fed: of pictures and sounds, which are of one size, in `dtype`; of texts, see `padded`."""
    signals = [stream for stream in streams if isinstance(stream, Signal)]
    if signals:
        (name,) = signals[0].inputs
        return {name: torch.stack([signal.numbers for signal in signals]).to(device, dtype)}
    return padded([text_of(stream) for stream in streams], pad or 0, device, accepts)


def padded(texts: Sequence[Tokens], pad: int, device: Any, accepts: frozenset[str]) -> dict[str, Tensor]:
    """Model inputs (text, token), padded on the right, where padding moves no token's position.

    `accepts`: the names that the model's forward takes. Token types that it does not take are left out, as it would
    ignore them (tokenizers hand them out whatever the model); positions are asked for, so they are refused.
    Raises InputError.
    """
    width = max(len(t) for t in texts)
    rows = {
        "input_ids": [(*t.ids, *[pad] * (width - len(t))) for t in texts],
        "attention_mask": [[1] * len(t) + [0] * (width - len(t)) for t in texts],
    }
    for name in PER_TOKEN:
        if not any(name in t.inputs for t in texts):
            continue
        if name not in accepts:
            if name == "position_ids":
                raise InputError("the model takes no position_ids, got some; leave them out")
            continue
        if name == "position_ids" and not all(name in t.inputs for t in texts):
            raise InputError("expected position_ids for all texts of a batch or for none")
        rows[name] = [(*t.inputs.get(name, (0,) * len(t)), *[0] * (width - len(t))) for t in texts]
    return {
        name: torch.tensor(values, dtype=torch.int64, device=device) for name, values in rows.items() if name in accepts
    }
