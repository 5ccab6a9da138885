"""A literal reference: attention and RMS norms in the model's own dtype, as the formulas have them.

transformers rounds RMS norms and eager softmaxes to float32 whatever the model's dtype, and its sdpa knows no soft cap.
A reference to 1e-10 needs neither; nothing of mixlens is used here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

ATTENTION = "exact"
See = Callable[[nn.Module, Tensor], Tensor | None]
_seeing: list[See] = []


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor]:
    for see in _seeing:
        new = see(module, value)
        value = value if new is None else new
    groups = query.shape[1] // key.shape[1]
    key, value = (t.repeat_interleave(groups, 1) for t in (key, value))
    scaling = kwargs.get("scaling")
    logits = (query @ key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if kwargs.get("softcap") is not None:
        logits = kwargs["softcap"] * torch.tanh(logits / kwargs["softcap"])
    if attention_mask is None and getattr(module, "is_causal", False):
        attention_mask = torch.ones(logits.shape[-2:], dtype=torch.bool).tril()
    if attention_mask is not None:
        logits = logits.masked_fill(~attention_mask, -torch.inf)
        blind = ~attention_mask.any(-1, keepdim=True)  # padding on the left: a row without anything to see
        logits = logits.masked_fill(blind, 0.0)
    sinks = kwargs.get("s_aux")
    if sinks is None:
        weights = logits.softmax(-1)
    else:
        last = sinks.view(1, -1, 1, 1).expand(*logits.shape[:-1], 1)
        weights = torch.cat([logits, last], -1).softmax(-1)[..., :-1]
    return (weights @ value).transpose(1, 2).contiguous(), weights


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


@contextmanager
def seeing(see: See) -> Iterator[None]:
    """`see(module, value)` at each attention call; value vectors (text, head, token, width) that it gives are used."""
    _seeing.append(see)
    try:
        yield
    finally:
        _seeing.remove(see)


def layers(model: nn.Module) -> list[nn.Module]:
    """The distinct layers, in order: of lists of modules, the innermost entries that hold an attention.

    Told by the class's name, which transformers keeps to, so that no table of families' names is needed.
    """
    paths = [path.split(".") for path, module in model.named_modules() if "Attention" in type(module).__name__]
    return list(dict.fromkeys(_entry(model, parts) for parts in paths))


def _entry(model: nn.Module, parts: list[str]) -> nn.Module:
    """The innermost entry of a list of modules that holds the module at a path."""
    prefixes = (parts[:k] for k in range(len(parts), 0, -1))
    path = next(path for path in prefixes if isinstance(model.get_submodule(".".join(path[:-1])), nn.ModuleList))
    return model.get_submodule(".".join(path))


def exact_norms(model: nn.Module) -> None:
    """RMS norms of the model computed in the dtype of what they get, from now on."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") or type(module).__name__.endswith("T5LayerNorm"):
            module.__class__ = _exact(type(module))


@cache
def _exact(cls: type[nn.Module]) -> type[nn.Module]:
    one_plus = cls.__name__.startswith("Gemma")

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        eps = self.eps if one_plus else self.variance_epsilon
        root = hidden_states.pow(2).mean(-1, keepdim=True).add(eps).sqrt()
        return (self.weight + one_plus) * hidden_states / root

    return type(cls.__name__, (cls,), {"forward": forward})


@torch.no_grad()
def forward(model: Any, *texts: list[int], **kwargs: Any) -> Any:
    """A plain pass over texts of one length; the model must have been loaded with `attention="exact"`."""
    assert model.config._attn_implementation == ATTENTION
    return model(input_ids=torch.tensor(texts), **kwargs)
