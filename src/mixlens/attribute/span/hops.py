"""From the spans of an answer to its sources, by hops through the answer's own tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.aggregate.shares import normalize_rows
from mixlens.attribute.span.edges import Sums, span_edges


@dataclass(frozen=True)
class Span:
    """Tokens that are explained as one, and those that it may have taken things through: positions, ascending."""

    tokens: range
    reasoning: range


def rows_of(spans: Sequence[Span]) -> range:
    """The rows that predict what the spans, and what they reason by, are made of."""
    parts = [part for span in spans for part in (span.tokens, span.reasoning) if part]
    return range(min(part.start for part in parts) - 1, max(part.stop for part in parts) - 1)


def span_rows(
    layers: Sequence[Sums], rows: Sequence[int], spans: Sequence[Span], hops: int
) -> Float[Tensor, "span source"]:
    """Each span's shares of its sources, what lay on its reasoning handed on `hops` times (FlashTrace, Pan 2026).

    Hop k takes the reasoning as its span, each token weighted by what hop k - 1 left on it, and what it finds counts as
    much as lay there. What lies on the span's own tokens at the end is left out.
    """
    source = layers[0].terms.shape[2]
    here = {row: i for i, row in enumerate(rows)}
    members = layers[0].behind.new_zeros(len(spans), len(rows))
    through = torch.zeros(len(spans), source, dtype=torch.bool, device=members.device)
    inside = through.clone()
    for s, span in enumerate(spans):
        members[s, [here[i - 1] for i in span.tokens]] = 1
        inside[s, [i for i in span.tokens if i < source]] = True
        through[s, list(span.reasoning)] = True
    out = _shares(layers, members)
    for _ in range(hops):
        held = out * through  # what the last hop left on the reasoning, as shares of the whole
        if not bool(held.any()):
            break
        weights = normalize_rows(_on_what_they_predict(held, rows))
        out = out - held + held.sum(1, keepdim=True) * _shares(layers, weights)
    return out.masked_fill(inside, 0.0)


def _on_what_they_predict(held: Float[Tensor, "span source"], rows: Sequence[int]) -> Float[Tensor, "span row"]:
    """What lies on the token that each row predicts; the last row's may be no source."""
    wide = torch.cat([held, held.new_zeros(len(held), 1)], 1)
    return wide[:, [row + 1 for row in rows]]


def _shares(layers: Sequence[Sums], weights: Float[Tensor, "span row"]) -> Float[Tensor, "span source"]:
    """The spans' edges summed over layers, as shares."""
    total = span_edges(layers[0], weights)
    for layer in layers[1:]:
        total = total + span_edges(layer, weights)
    return normalize_rows(total)
