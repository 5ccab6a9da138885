"""A text's vector, and what each token has of it, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.stream import Stream
from mixlens.errors import NotFinite
from mixlens.subject.head import Pooled


@dataclass(frozen=True, eq=False)
class TextVectors:
    """`unit` (dim,): the text's vector divided by its length. `parts` (token, dim): what each token has of it."""

    tokens: Stream
    unit: Float[Tensor, " dim"]
    parts: Float[Tensor, "token dim"]


def shares(pooled: Pooled, n: int) -> Float[Tensor, " token"]:
    """What part of a text's vector each row of the last layer is, in float64."""
    out = torch.zeros(n, dtype=torch.float64, device="cpu")
    if pooled == "mean":
        return out + 1 / n
    out[0 if pooled == "first" else -1] = 1
    return out


def vector(rows: Float[Tensor, "*batch token dim"], pooled: Pooled) -> Float[Tensor, "*batch dim"]:
    """The text's vector, of the last layer's rows."""
    return torch.einsum("...td,t->...d", rows.double(), shares(pooled, rows.shape[-2]))


def unit(v: Float[Tensor, " dim"]) -> Float[Tensor, " dim"]:
    """Divided by its length. Raises NotFinite for a vector without a direction."""
    length = v.norm()
    if not bool(torch.isfinite(length)) or float(length) == 0:
        raise NotFinite(f"expected a text's vector with a direction, its length is {float(length)}; no cosine is there")
    return v / length


def products(first: TextVectors, second: TextVectors) -> Float[Tensor, "first second"]:
    """The share of every pair of tokens in the cosine."""
    return first.parts @ second.parts.T


def towards(first: TextVectors, second: TextVectors) -> Float[Tensor, " first"]:
    """What each token of the first text adds to the cosine, the second text as it is."""
    return first.parts @ second.unit


def spread(parts: Sequence[Tensor], groups: Sequence[Sequence[int]], n: int) -> Float[Tensor, "token dim"]:
    """The vectors of groups of tokens, a group's tokens having equal parts of its own; 0 for a token of none."""
    out = parts[0].new_zeros(n, parts[0].shape[-1])
    for part, group in zip(parts, groups, strict=True):
        out[list(group)] = part / len(group)
    return out
