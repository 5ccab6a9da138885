"""The seam: a function in transformers' attention interface that sees query, key, value and mask of every layer.

It computes the output as the model would, keeps references to what it saw, and gives attention weights later and by
blocks of rows, so that nothing of size head x query x key has to live unless a method asks for it. Of short texts,
whose weights stay in a CPU's caches, they are made once: for the output, and for whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from mixlens.errors import UnsupportedConfig
from mixlens.precision import is_half, widened

NAME = "mixlens"
KEPT_BYTES = 4 << 20  # of the weights of one layer
RECORDER = "_mixlens_record"  # set on a shadow's attention modules only

# What a layer may hand to the interface besides what is handled below, without a change of the result.
# `sliding_window` is in the mask already.
_NO_EFFECT = frozenset(
    "position_ids use_cache deterministic output_attentions output_hidden_states return_dict cache_position "
    "sliding_window cu_seq_lens_q cu_seq_lens_k max_length_q max_length_k num_items_in_batch past_key_values "
    "layer_past cache logits_to_keep output_router_logits".split()
)


@dataclass(frozen=True, eq=False)
class Call:
    """What one call of the attention interface saw. Axes: batch, head, position, head dimension."""

    q: Tensor
    k: Tensor  # key-value heads, not repeated
    v: Tensor
    mask: Tensor | None  # bool (True: visible) or additive; None: everything, or causal
    scaling: float
    softcap: float | None
    bias: Tensor | None
    causal: bool
    given: bool = field(default=False, kw_only=True)  # q holds the logits themselves, k has no width
    # (head,): one more logit each, of a key whose value is zero (gpt-oss)
    sinks: Tensor | None = field(default=None, kw_only=True)

    @property
    def groups(self) -> int:
        """Query heads that share a key-value head."""
        return self.q.shape[1] // self.k.shape[1]

    def weights(self, rows: slice = slice(None)) -> Tensor:
        """Attention weights (batch, head, row, key) of some query rows, in at least float32.

        A row sums to 1, but for what a sink takes. Nothing may be written into them.
        """
        return self._whole[:, :, rows] if self._small else self.softmax(self.logits(rows))

    @cached_property
    def _whole(self) -> Tensor:
        """The weights of all rows."""
        return self.softmax(self.logits())

    @property
    def _small(self) -> bool:
        """Whether the weights of all rows are made once, and the output of them: torch's own kernels are slower."""
        (batch, heads, rows, _), keys = self.q.shape, self.k.shape[2]
        few = batch * heads * rows * keys * self.q.element_size() <= KEPT_BYTES
        return few and self.q.device.type == "cpu" and not is_half(self.q.dtype) and not torch.is_grad_enabled()

    def softmax(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """The weights that logits (batch, head, row, key) give, the sinks' own left out."""
        if self.sinks is None:
            return torch.softmax(logits / temperature if temperature != 1 else logits, -1)
        sinks = widened(self.sinks)[None, :, None, None].expand(*logits.shape[:-1], 1)
        return torch.softmax(torch.cat([logits, sinks], -1) / temperature, -1)[..., :-1]

    def logits(self, rows: slice = slice(None)) -> Tensor:
        """The logits before the softmax, masked with the smallest finite number."""
        s = widened(self.q[:, :, rows])
        if not self.given:
            # as torch's product would have to copy what is no row of matrices: a copy in order is the faster one
            k = repeat_heads(widened(self.k), self.groups).contiguous()
            s = (s * self.scaling).contiguous() @ k.transpose(2, 3)
        if self.softcap is not None:
            s = self.capped(s, self.softcap)
        if self.bias is not None:
            s = s + widened(self.bias[..., rows, :])
        if self.mask is not None and self.mask.dtype != torch.bool:
            return s + widened(_rows(self.mask, rows))
        visible = self.visible(rows)
        if visible is None:
            return s
        if self.given or self.bias is not None:  # they may hold the mask's number already: twice, it is infinity
            return s.masked_fill(~visible, torch.finfo(s.dtype).min)
        # beside the smallest number any other is nothing; a sum takes a tenth of the time of writing it into the logits
        return s + torch.zeros_like(visible, dtype=s.dtype).masked_fill_(~visible, torch.finfo(s.dtype).min)

    def capped(self, s: Tensor, cap: float) -> Tensor:
        """Logits held below `cap`."""
        return torch.tanh(s / cap) * cap

    def output(self) -> Tensor:
        """What the heads read, (batch, head, row, width), as the model would compute it."""
        v = repeat_heads(self.v, self.groups)
        # what no fused kernel of torch's has
        if self._small or self.given or any(part is not None for part in (self.softcap, self.bias, self.sinks)):
            return torch.cat([self.weights(r).to(v.dtype) @ v for r in blocks(self.q.shape[2], 256)], 2)
        k = repeat_heads(self.k, self.groups)
        return F.scaled_dot_product_attention(
            self.q, k, v, attn_mask=self.mask, scale=self.scaling, is_causal=self.causal
        )

    def take(self, queries: Tensor) -> Call:
        """The same call for some query rows only; `queries` (batch, row): their positions."""
        at = queries[:, None, :, None]
        q = self.q.gather(2, at.expand(-1, self.q.shape[1], -1, self.q.shape[3]))
        mask = _gathered(self.mask, at)
        if self.causal:
            mask = torch.arange(self.k.shape[2], dtype=torch.int64, device=queries.device) <= at
        return replace(self, q=q, mask=mask, bias=_gathered(self.bias, at), causal=False)

    def head(self, h: int) -> Call:
        """The same call for one query head alone, with the key-value head that it reads."""
        kv = h // self.groups
        mask, bias = (t if t is None or t.shape[1] == 1 else t[:, h : h + 1] for t in (self.mask, self.bias))
        q, k, v = self.q[:, h : h + 1], self.k[:, kv : kv + 1], self.v[:, kv : kv + 1]
        sinks = None if self.sinks is None else self.sinks[h : h + 1]
        return replace(self, q=q, k=k, v=v, mask=mask, bias=bias, sinks=sinks)

    def visible(self, rows: slice = slice(None)) -> Tensor | None:
        """Which keys each row may see, (batch or 1, 1, row, key) bool; None: all of them."""
        if self.mask is not None:
            m = _rows(self.mask, rows)
            return m if m.dtype == torch.bool else m > torch.finfo(m.dtype).min / 2
        if not self.causal:
            return None
        i, j = (torch.arange(t.shape[2], dtype=torch.int64, device=t.device) for t in (self.q, self.k))
        return (j <= i[rows, None])[None, None]


def repeat_heads(x: Tensor, groups: int) -> Tensor:
    """(batch, key-value head, ...) to (batch, head, ...)."""
    return x if groups == 1 else x.repeat_interleave(groups, 1)


def blocks(n: int, size: int) -> Iterator[slice]:
    """Slices of at most `size` that cover range(n)."""
    for start in range(0, n, max(1, size)):
        yield slice(start, min(n, start + max(1, size)))


def _gathered(t: Tensor | None, at: Tensor) -> Tensor | None:
    """Rows of a mask or bias (batch or 1, head or 1, row or 1, key)."""
    if t is None or t.shape[-2] == 1:
        return t
    t = t.expand(len(at), -1, -1, -1)
    return t.gather(2, at.expand(-1, t.shape[1], -1, t.shape[3]))


def _rows(mask: Tensor, rows: slice) -> Tensor:
    return mask[..., rows, :] if mask.shape[-2] > 1 else mask


def _forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    softcap: float | None = None,
    position_bias: Tensor | None = None,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention interface's function; signature and return value are transformers'."""
    unknown = sorted(k for k, v in kwargs.items() if v is not None and k not in _NO_EFFECT)
    if unknown:
        raise UnsupportedConfig(
            f"{type(module).__name__} hands {unknown} to its attention, which may change the mathematics and has no "
            "rule here; load a model or a transformers version without it"
        )
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", False))
    call = Call(
        q=query,
        k=key,
        v=value,
        mask=attention_mask,
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        softcap=softcap,
        bias=position_bias,
        causal=attention_mask is None and is_causal and query.shape[2] > 1,
        sinks=s_aux,
    )
    record = module.__dict__.get(RECORDER)
    answer = None if record is None else record(call)
    if isinstance(answer, Tensor):  # a method wants these weights in the autograd graph
        out = answer.to(value.dtype) @ repeat_heads(value, call.groups)
    else:
        out = (call if answer is None else answer).output()
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _forward)
AttentionMaskInterface.register(NAME, sdpa_mask)  # without a mask form, padding is silently attended
