"""The logits of a language model at some rows of its texts, and at no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mixlens.capture.run import Reading, run
from mixlens.capture.stream import Stream
from mixlens.errors import Undefined
from mixlens.subject.subject import Subject


def row_logits(subject: Subject, tokens: Stream, rows: Sequence[int]) -> Tensor:
    """(row, vocabulary): the logits at some rows of one text, and no others."""
    (batch,) = subject.batches([tokens], 1)
    (logits,) = logits_at(subject, batch.inputs, [rows])
    return logits


@torch.no_grad()
def logits_at(
    subject: Subject,
    inputs: Mapping[str, Tensor],
    rows: Sequence[Sequence[int]],
    prepare: Callable[[Any], None] | None = None,
) -> list[Tensor]:
    """(row, vocabulary) of each text of a batch, at its own rows and no others. `prepare`: changes the shadow first."""
    try:
        unembedding = subject.unembedding
    except Undefined:
        output = run(subject.model, subject.spec, inputs, lambda seen: None, Reading(heads=True), prepare=prepare)
        return [output.logits[b, list(places)] for b, places in enumerate(rows)]
    output = run(subject.model, subject.spec, inputs, lambda seen: None, prepare=prepare)
    return [unembedding.logits(output.last_hidden_state[b, list(places)]) for b, places in enumerate(rows)]
