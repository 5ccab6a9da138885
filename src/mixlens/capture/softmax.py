"""The seam of models that call no attention interface: the softmax of the attention module, and the next product.

A torch function mode around the module's forward sees the logits and the values; what a pass records and answers is a
`Call` as at the interface, whose query vectors are the logits themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from mixlens.capture.attention import RECORDER, Call, repeat_heads
from mixlens.errors import UnsupportedConfig

FAR = 5000.0  # below the highest logit of a row: a mask's doing, and no weight in any precision
PLAIN = "eager"  # what such models run as: with another name they get a mask of another form, or fuse the softmax away
_WHOLE = signature(F.multi_head_attention_forward)
_PRODUCTS = frozenset(("matmul", "bmm", "__matmul__"))


def watch_softmax(attention: torch.nn.Module) -> None:
    """Put the seam on a shadow's attention module. Who records is asked when it runs."""
    attention.forward = partial(_watched, attention, attention.forward)


def _watched(attention: torch.nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    record = attention.__dict__.get(RECORDER)
    given = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor) and t.ndim == 3]
    if record is None or not given:  # a module that is handed no hidden states does not attend
        return forward(*args, **kwargs)
    with _Seam(record, attention, len(given[0])):
        return forward(*args, **kwargs)


class _Seam(TorchFunctionMode):
    """Sees one module's forward. `carried`: the weights, and what was made of them without another tensor."""

    def __init__(self, record: Callable[[Call], Tensor | Call | None], attention: torch.nn.Module, batch: int) -> None:
        super().__init__()
        self.record, self.attention, self.batch = record, attention, batch
        self.logits: Tensor | None = None
        self.carried: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, first = getattr(func, "__name__", ""), args[0] if args else None
        if func is F.multi_head_attention_forward and self.logits is None:
            return self.in_steps(*args, **(kwargs or {}))
        carried = any(first is t for t in self.carried)
        if carried and name in _PRODUCTS:
            return self.product(func, *args)
        out = func(*args, **(kwargs or {}))
        if name == "softmax" and self.logits is None:
            self.logits, self.carried = first, [out]
        elif carried and isinstance(out, Tensor) and out.numel() == self.carried[0].numel():
            self.carried.append(out)
        return out

    def product(self, func: Any, weights: Tensor, values: Tensor) -> Tensor:
        """The weights' product with the values, recorded, and answered as the recorder says."""
        assert self.logits is not None
        call = at_softmax(*(t.view(self.batch, -1, *t.shape[-2:]) for t in (self.logits, values)))
        self.carried = []
        answer = self.record(call)
        if answer is None:
            out: Tensor = func(weights, values)
            return out
        if isinstance(answer, Call):
            out = answer.output()
        else:
            out = answer.to(values.dtype) @ repeat_heads(call.v, call.groups)
        return out.reshape(*weights.shape[:-1], values.shape[-1])

    def in_steps(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        """torch's attention as one function (WavLM), taken apart: its softmax, its product, the module that it has its
        last map from. Its tensors are (position, batch, dim). Raises UnsupportedConfig.
        """
        given = _WHOLE.bind(*args, **kwargs)
        given.apply_defaults()
        a = given.arguments
        outs = [m for m in self.attention.modules() if getattr(m, "weight", None) is a["out_proj_weight"]]
        extra = ("bias_k", "bias_v", "static_k", "static_v")
        if a["add_zero_attn"] or a["is_causal"] or not outs or any(a[name] is not None for name in extra):
            raise UnsupportedConfig(
                "expected torch's multi_head_attention_forward of queries, keys and values alone, got more; such "
                "attention has no rule here"
            )
        heads = a["num_heads"]
        separate = a["use_separate_proj_weight"]
        maps = [a[f"{k}_proj_weight"] for k in "qkv"] if separate else a["in_proj_weight"].chunk(3)
        biases = [None] * 3 if a["in_proj_bias"] is None else a["in_proj_bias"].chunk(3)
        q, k, v = (
            F.linear(a[name], w, b).unflatten(-1, (heads, -1)).flatten(1, 2).transpose(0, 1)
            for name, w, b in zip(("query", "key", "value"), maps, biases, strict=True)
        )
        logits = (q * q.shape[-1] ** -0.5) @ k.transpose(1, 2)
        for mask in (a["attn_mask"], a["key_padding_mask"]):
            if mask is not None and mask is a["key_padding_mask"]:
                mask = mask[:, None].repeat_interleave(heads, 0)
            if mask is not None:
                logits = logits.masked_fill(mask, float("-inf")) if mask.dtype == torch.bool else logits + mask
        self.logits = logits
        weights = torch.softmax(logits, -1)
        out = self.product(torch.bmm, weights, v).transpose(0, 1).unflatten(1, (-1, heads)).flatten(2)
        mean = weights.unflatten(0, (-1, heads))
        shown = mean.mean(1) if a["average_attn_weights"] else mean
        return outs[0](out), shown if a["need_weights"] else None


def at_softmax(logits: Tensor, values: Tensor) -> Call:
    """The call of an attention of which the logits (batch, head, query, key) are known, and neither queries nor keys.

    Visible are the keys whose logits are not as low as a mask makes them, in any head: the lowest number there is, or
    thousands below the row's highest (GPT's and CTRL's -10,000), whose weight is exactly 0.
    """
    logits = logits.to(torch.promote_types(logits.dtype, values.dtype))
    near, there = logits >= logits.amax(-1, keepdim=True) - FAR, logits > torch.finfo(logits.dtype).min / 2
    visible = (near & there).any(1, keepdim=True)
    return Call(
        q=logits,
        k=values[..., :0],
        v=values,
        mask=None if bool(visible.all()) else visible,
        scaling=1.0,
        softcap=None,
        bias=None,
        causal=False,
        given=True,
    )
