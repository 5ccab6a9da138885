"""Gradient, CAT and attention-gradient methods: pure functions of one text's graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Readout, take
from mixlens.attribute.method import Scores
from mixlens.errors import Undefined, UnknownOption


@dataclass(frozen=True, eq=False)
class TextGraph:
    """One text's hidden states and attention weights, with the gradients of the explained number.

    `hidden[k]`, `gradients[k]` (token, dim): the input of layer k; the last is the last layer's output.
    `weights[k]`, `weight_gradients[k]` (head, query, key): attention of layer k; `received[k]` (token,): its mean over
    heads and queries. What was not asked for is empty.
    """

    hidden: Sequence[Tensor]
    gradients: Sequence[Tensor]
    weights: Sequence[Tensor]
    weight_gradients: Sequence[Tensor]
    rows: tuple[Readout, ...]
    received: Sequence[Tensor] = ()


def saliency(graph: TextGraph) -> Scores:
    """||g_i * x_i||_2, gradient times input (Modarressi 2022, Eq. 17)."""
    return (graph.gradients[0] * graph.hidden[0]).norm(dim=-1), None


def grad_l2(graph: TextGraph) -> Scores:
    """||g_i||_2."""
    return graph.gradients[0].norm(dim=-1), None


def grad_sum(graph: TextGraph, *, absolute: bool = False) -> Scores:
    """sum_k g_ik; its absolute value with `absolute` (Abnar & Zuidema 2020's "input gradients").

    Raises Undefined where all sums are rounding: a model that reads its hidden states through LayerNorms alone (pre-LN)
    does not see their mean, so its gradients sum to 0 whatever the text is.
    """
    g = graph.gradients[0]
    sums, sizes = g.sum(-1), g.abs().sum(-1)
    if bool(sizes.max() > 0) and bool(sums.abs().max() <= 1e3 * torch.finfo(g.dtype).eps * sizes.max()):
        raise Undefined(
            "the gradients of this model sum to 0 over dimensions: its LayerNorms take the mean out of what they read; "
            "use grad_l2 or grad_x_input"
        )
    return _maybe_absolute(sums, absolute), None


def grad_x_input(graph: TextGraph, *, absolute: bool = False) -> Scores:
    """sum_k g_ik x_ik; its absolute value with `absolute` (Ferrando 2022, App. B)."""
    return _maybe_absolute((graph.gradients[0] * graph.hidden[0]).sum(-1), absolute), None


def cat(graph: TextGraph, *, indexing: str = "output") -> Scores:
    """CAT: sum over layers of sum_k g^l_ik h^l_ik (Qiang 2022, Eq. 8-9).

    `indexing="output"`: h^1 to h^L as in the paper; at h^L only the read-out tokens have a gradient. "input": each
    layer's input, h^0 to h^(L-1), as in the authors' code. Raises UnknownOption.
    """
    layers = _cats(graph, indexing)
    return layers.sum(0), layers


def attcat(
    graph: TextGraph,
    *,
    indexing: str = "output",
    weights: str = "received",
) -> Scores:
    """AttCAT: CAT of each layer times the attention that the token has there (Qiang 2022, Eq. 10-11).

    `weights="received"`: the attention that it receives, mean over heads and queries (authors' code); "readout": that
    of the read-out row. `indexing` as in `cat`. Raises UnknownOption.
    """
    if weights not in ("received", "readout"):
        raise UnknownOption(f"expected weights='received' or 'readout' for attcat, got {weights!r}")
    means = graph.received if weights == "received" else [take(a.mean(0), graph.rows) for a in graph.weights]
    layers = _cats(graph, indexing) * torch.stack(list(means))
    return layers.sum(0), layers


def _cats(graph: TextGraph, indexing: str) -> Float[Tensor, "layer token"]:
    if indexing not in ("output", "input"):
        raise UnknownOption(f"expected indexing='output' (paper) or 'input' (authors' code), got {indexing!r}")
    which = slice(1, None) if indexing == "output" else slice(None, -1)
    pairs = zip(graph.hidden[which], graph.gradients[which], strict=True)
    return torch.stack([(h * g).sum(-1) for h, g in pairs])


def grads(graph: TextGraph) -> Scores:
    """Head mean of the gradient of the last layer's attention, read-out row (Qiang 2022, Figure 2)."""
    return take(graph.weight_gradients[-1].mean(0), graph.rows), None


def att_grads(graph: TextGraph) -> Scores:
    """Sum over layers of the head mean of gradient times attention, read-out row (Qiang 2022, Figure 2)."""
    both = zip(graph.weights, graph.weight_gradients, strict=True)
    layers = torch.stack([take((a * g).mean(0), graph.rows) for a, g in both])
    return layers.sum(0), layers


def grad_sam(graph: TextGraph) -> Scores:
    """Mean over layers, heads and keys of attention times its positive gradient, a token's own row (Barkan 2021)."""
    both = zip(graph.weights, graph.weight_gradients, strict=True)
    layers = torch.stack([(a * g.clamp_min(0)).mean((0, 2)) for a, g in both])
    return layers.mean(0), layers


def _maybe_absolute(scores: Tensor, absolute: bool) -> Tensor:
    return scores.abs() if absolute else scores
