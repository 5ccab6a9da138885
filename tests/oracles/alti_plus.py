"""ALTI+ as its formulas have it, term by term in float64, from a plain model's own attentions and hidden states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def near(terms: Tensor, y: Tensor) -> Tensor:
    """max(0, ||y_i||_1 - ||T_ij - y_i||_1) of terms (query, key, dim)."""
    out = torch.zeros(terms.shape[:2], dtype=torch.float64)
    for i in range(terms.shape[0]):
        for j in range(terms.shape[1]):
            out[i, j] = max(0.0, float(y[i].abs().sum() - (terms[i, j] - y[i]).abs().sum()))
    return out


def weighted(alpha: Tensor, values: Tensor, out: Any) -> Tensor:
    """sum_h alpha_ij^h W_O^h v_j^h, (query, key, dim): alpha (head, query, key), values (key, head * width)."""
    heads, queries, keys = alpha.shape
    width = values.shape[1] // heads
    terms = torch.zeros(queries, keys, out.weight.shape[0], dtype=torch.float64)
    for h in range(heads):
        part = slice(h * width, (h + 1) * width)
        moved = values[:, part] @ out.weight[:, part].T
        for i in range(queries):
            for j in range(keys):
                terms[i, j] += alpha[h, i, j] * moved[j]
    return terms


def frozen(norm: Any, terms: Tensor, at: Tensor) -> Tensor:
    """Terms (query, ..., dim) through a LayerNorm with the spread that it met at `at` (query, dim), beta out."""
    spread = (at.var(-1, correction=0) + norm.eps).sqrt()
    shape = (-1, *[1] * (terms.ndim - 1))
    return norm.weight * (terms - terms.mean(-1, keepdim=True)) / spread.view(shape)


def plain(model: Any, source: list[int], target: list[int]) -> Any:
    """A plain pass with everything that transformers gives."""
    model.set_attn_implementation("eager")
    ids, decoder = torch.tensor([source]), torch.tensor([target])
    with torch.no_grad():
        return model(input_ids=ids, decoder_input_ids=decoder, output_attentions=True, output_hidden_states=True)


@torch.no_grad()
def bart(model: Any, source: list[int], target: list[int]) -> Tensor:
    """(target, source + target): the rollout of a post-LN model."""
    got = plain(model, source, target)
    memory = got.encoder_last_hidden_state[0]

    def attended(attention: Any, norm: Any, x: Tensor, alpha: Tensor, reads: Tensor | None) -> tuple[Tensor, Tensor]:
        """The contributions of one sub-block, of another stream with the carried vector's last; and its output."""
        read = x if reads is None else reads
        terms = weighted(alpha, attention.v_proj(read), attention.out_proj)
        total = x + terms.sum(1) + attention.out_proj.bias
        y = norm(total)
        if reads is None:
            for i in range(len(x)):
                terms[i, i] += x[i]
        else:
            terms = torch.cat([terms, x[:, None]], 1)
        c = near(frozen(norm, terms, total), y)
        return c / c.sum(1, keepdim=True), y

    below = torch.eye(len(source), dtype=torch.float64)
    for x, alpha, layer in zip(
        got.encoder_hidden_states, got.encoder_attentions, model.model.encoder.layers, strict=False
    ):
        c, _ = attended(layer.self_attn, layer.self_attn_layer_norm, x[0], alpha[0], None)
        below = c @ below
    rows_s, rows_t = torch.zeros(len(target), len(source)), torch.eye(len(target))
    rows_s, rows_t = rows_s.double(), rows_t.double()
    layers = model.model.decoder.layers
    for x, own, cross, layer in zip(
        got.decoder_hidden_states, got.decoder_attentions, got.cross_attentions, layers, strict=False
    ):
        c, y = attended(layer.self_attn, layer.self_attn_layer_norm, x[0], own[0], None)
        d, _ = attended(layer.encoder_attn, layer.encoder_attn_layer_norm, y, cross[0], memory)
        carried = d[:, -1:] * c
        rows_s, rows_t = d[:, :-1] @ below + carried @ rows_s, carried @ rows_t
    return torch.cat([rows_s, rows_t], 1)


@torch.no_grad()
def t5(model: Any, source: list[int], target: list[int]) -> Tensor:
    """The same of a pre-LN model without biases."""
    got = plain(model, source, target)
    memory = got.encoder_last_hidden_state[0]

    def attended(attention: Any, norm: Any, x: Tensor, alpha: Tensor, reads: Tensor | None) -> tuple[Tensor, Tensor]:
        terms = weighted(alpha, attention.v(norm(x) if reads is None else reads), attention.o)
        y = x + terms.sum(1)
        if reads is None:
            for i in range(len(x)):
                terms[i, i] += x[i]
        else:
            terms = torch.cat([terms, x[:, None]], 1)
        c = near(terms, y)
        return c / c.sum(1, keepdim=True), y

    below = torch.eye(len(source), dtype=torch.float64)
    for x, alpha, block in zip(got.encoder_hidden_states, got.encoder_attentions, model.encoder.block, strict=False):
        c, _ = attended(block.layer[0].SelfAttention, block.layer[0].layer_norm, x[0], alpha[0], None)
        below = c @ below
    rows_s, rows_t = torch.zeros(len(target), len(source)).double(), torch.eye(len(target)).double()
    for x, own, cross, block in zip(
        got.decoder_hidden_states, got.decoder_attentions, got.cross_attentions, model.decoder.block, strict=False
    ):
        c, y = attended(block.layer[0].SelfAttention, block.layer[0].layer_norm, x[0], own[0], None)
        d, _ = attended(block.layer[1].EncDecAttention, None, y, cross[0], memory)
        carried = d[:, -1:] * c
        rows_s, rows_t = d[:, :-1] @ below + carried @ rows_s, carried @ rows_t
    return torch.cat([rows_s, rows_t], 1)
