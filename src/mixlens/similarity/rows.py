"""The last layer's rows as the tokens' vectors, and the same followed down to the input by a rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mixlens.aggregate.functions import add_residual, rollout
from mixlens.aggregate.shares import normalize_rows
from mixlens.attribute.preset import Preset
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.capture.run import run
from mixlens.capture.stream import Stream
from mixlens.mixing.calls import maps_of
from mixlens.similarity.encoder import Encoder
from mixlens.similarity.method import Passes, Similarity
from mixlens.similarity.vectors import TextVectors, shares, unit
from mixlens.subject import Subject
from mixlens.subject.finite import not_finite


@torch.no_grad()
def last_rows(encoder: Encoder, texts: Sequence[Stream], passes: Passes) -> list[Tensor]:
    """What each row of the last layer is of each text's vector, (token, dim) in float64: they sum to it.

    Raises Undefined for a vector that is no sum over rows, NotFinite.
    """
    subject, pooled = encoder.subject, encoder.pooled
    if pooled is None:
        made = encoder.vectors(texts, passes)
        return [_alone(encoder.row(tokens), v, len(tokens)) for tokens, v in zip(texts, made, strict=True)]
    out: dict[int, Tensor] = {}
    for batch in subject.batches(texts, passes.batch_size):
        rows = run(subject.model, subject.spec, batch.inputs, lambda seen: None).last_hidden_state
        for b, i in enumerate(batch.members):
            n = len(texts[i])
            out[i] = shares(pooled, n)[:, None] * rows[b, :n].double().cpu()
            if not bool(torch.isfinite(out[i]).all()):
                raise not_finite(subject.model, "a vector")
        if passes.progress is not None:
            passes.progress(batch.number, batch.count)
    return [out[i] for i in range(len(texts))]


def _alone(row: int, v: Tensor, n: int) -> Tensor:
    """All of a vector in one row."""
    out = torch.zeros(n, len(v), dtype=v.dtype, device=v.device)
    out[row] = v
    return out


@dataclass(frozen=True)
class Rows(Similarity):
    """f = sum_i w_i y_i, so cos = sum_ij (w_i y_i . w_j y'_j) / (|f| |f'|): exact, of the last
    layer's tokens.

    `preset`: y_i is then followed to the input tokens by the rollout R of a preset's maps, whose rows sum to 1: token j
    has sum_i R_ij w_i y_i.
    """

    preset: str | None = None

    def vectors(
        self, encoder: Encoder, texts: Sequence[Stream], options: Mapping[str, Any], passes: Passes
    ) -> list[TextVectors]:
        """One pass, and one more for maps."""
        rows = last_rows(encoder, texts, passes)
        flows: Sequence[Tensor | None] = [None] * len(texts)
        if self.preset is not None:
            flows = self._rolled(encoder.subject, texts, passes)
        out = []
        for tokens, y, flow in zip(texts, rows, flows, strict=True):
            whole = y.sum(0)
            parts = y / whole.norm()
            out.append(TextVectors(tokens, unit(whole), parts if flow is None else flow.T @ parts))
        return out

    def _rolled(self, subject: Subject, texts: Sequence[Stream], passes: Passes) -> list[Tensor]:
        """The rollout of each text's maps, (token, token)."""
        preset = ATTRIBUTIONS[str(self.preset)]
        assert isinstance(preset, Preset)
        preset = preset.for_spec(subject.spec)
        maps = maps_of(
            subject,
            texts,
            preset.mixing,
            preset.maps_options({}),
            batch_size=passes.batch_size,
            memory=passes.memory,
        )
        out = []
        for layers in maps:
            scores = normalize_rows(layers.scores.double())  # what is not divided by its sum would not share out
            out.append(rollout(add_residual(scores, preset.arguments.get("residual") or 0.0))[-1])
        return out
