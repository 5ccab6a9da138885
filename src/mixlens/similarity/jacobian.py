"""Jacobians of a text's vector by its tokens' embeddings, in forward mode: a direction a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.autograd.forward_ad as forward_ad
from jaxtyping import Float
from torch import Tensor

from mixlens.attribute.path.baselines import baseline, baseline_text, default_baseline, layer_input
from mixlens.capture.attention import blocks
from mixlens.capture.run import Watch
from mixlens.capture.stream import Stream
from mixlens.errors import UnknownOption
from mixlens.precision import widened
from mixlens.similarity.encoder import Encoder
from mixlens.similarity.method import Passes, Similarity
from mixlens.similarity.vectors import TextVectors, unit
from mixlens.subject.finite import not_finite

TOKENS = 2048  # of all texts of one pass


@dataclass(frozen=True)
class Jacobian(Similarity):
    """Token i has J x_i / |f|, J the Jacobian of f by its embedding x_i.

    `integrated`: the mean of J on the straight path from a reference r, times x_i - r_i (Moeller et al. 2023, Eq. 5);
    the tokens' vectors then sum to f(x) - f(r), so pairs sum to (f(a) - f(r_a)) . (f(b) - f(r_b)) / (|f(a)| |f(b)|).
    """

    complete: bool = False
    integrated: bool = False

    def options(self) -> dict[str, Any]:  # noqa: D102 (as in the base)
        return {"steps": 20, "baseline": None} if self.integrated else {}

    def vectors(
        self, encoder: Encoder, texts: Sequence[Stream], options: Mapping[str, Any], passes: Passes
    ) -> list[TextVectors]:
        """A pass with a derivative for each token and step. Raises UnknownOption, Undefined, NotFinite."""
        steps = options.get("steps", 20) if self.integrated else 1
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise UnknownOption(f"expected steps of 1 or more, got {steps!r}")
        choice = options.get("baseline")
        kind = default_baseline(encoder.subject) if choice is None else choice
        out = []
        for number, tokens in enumerate(texts, 1):
            out.append(self._text(encoder, tokens, steps, kind))
            if passes.progress is not None:
                passes.progress(number, len(texts))
        return out

    def _text(self, encoder: Encoder, tokens: Stream, steps: int, kind: Any) -> TextVectors:
        subject = encoder.subject
        (batch,) = subject.batches([tokens], 1)
        model, inputs = subject.model, batch.inputs
        x, _, _ = layer_input(model, subject.spec, inputs, 0)
        (whole,) = encoder.vectors([tokens], Passes())
        start = torch.zeros_like(x)
        if self.integrated:
            start = baseline(subject, model, inputs, x, [baseline_text(subject, tokens, kind)], kind, 0)
        way, points = (x - start)[0], on_path(steps) if self.integrated else [(1.0, 1.0)]
        parts = torch.zeros(len(tokens), len(whole), dtype=torch.float64, device="cpu")
        moves = [(share, weight, i) for share, weight in points for i in range(len(tokens))]
        for part in blocks(len(moves), TOKENS // len(tokens)):
            shares, weights, rows = zip(*moves[part], strict=True)
            slopes = directed(encoder, inputs, start[0], way, shares, rows).double().cpu()
            weighed = slopes * torch.tensor(weights, dtype=torch.float64, device="cpu")[:, None]
            parts.index_add_(0, torch.tensor(rows, dtype=torch.int64, device="cpu"), weighed)
        if not bool(torch.isfinite(parts).all()):
            raise not_finite(model, "a Jacobian")
        return TextVectors(tokens, unit(whole), parts / whole.norm())


@torch.no_grad()
def directed(
    encoder: Encoder,
    inputs: Mapping[str, Tensor],
    start: Float[Tensor, "token dim"],
    way: Float[Tensor, "token dim"],
    shares: Sequence[float],
    rows: Sequence[int],
) -> Float[Tensor, "move number"]:
    """The derivative of the vector at start + share * way, as one token alone (of `rows`) goes on its way.

    A move for each share and row, all in one pass.
    """
    count = len(rows)
    at = torch.tensor(rows, dtype=torch.int64, device=way.device)
    moved = torch.zeros(count, *way.shape, dtype=way.dtype, device=way.device)
    moved[torch.arange(count, dtype=torch.int64, device=way.device), at] = way[at]
    points = start + torch.tensor(shares, dtype=way.dtype, device=way.device)[:, None, None] * way
    several = {k: v.expand(count, *v.shape[1:]) if v.shape[:1] == (1,) else v for k, v in inputs.items()}
    dtype = next(encoder.subject.model.parameters()).dtype
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(points.to(dtype), moved.to(dtype))
        # a fused kernel has no forward mode; weights written out do
        watch = Watch(
            lambda seen: None, lambda index, _: dual if index == 0 else None, lambda index, call: call.weights()
        )
        made = encoder.vector(encoder.output(several, watch))
        slope = forward_ad.unpack_dual(made).tangent
        return torch.zeros_like(made) if slope is None else widened(slope)


def on_path(steps: int) -> list[tuple[float, float]]:
    """Where on the path from 0 to 1, and with what weight: Gauss and Legendre's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return [((1 + node) / 2, weight / 2) for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True)]
