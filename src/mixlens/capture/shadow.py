"""A shadow of the user's model: it shares every tensor, and nothing else.

Configs, hooks and train/eval mode are the shadow's own, so the user's model needs no restoring after an exception
and may run in other threads meanwhile. A shadow is made for each call: after a user's `.to()`, a kept one would hold
the old tensors.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

_HOOKS = (
    "_forward_hooks _forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks "
    "_forward_pre_hooks_with_kwargs _backward_hooks _backward_pre_hooks _state_dict_hooks _state_dict_pre_hooks "
    "_load_state_dict_pre_hooks _load_state_dict_post_hooks"
).split()


def shadow(model: Any, attention: str) -> Any:
    """A copy of the module tree, in eval mode, that shares all tensors; `attention` names its implementation."""
    memo: dict[int, Any] = {}
    for module in model.modules():
        held = (*module._parameters.values(), *module._buffers.values(), *vars(module).values())
        memo.update((id(t), t) for t in held if isinstance(t, torch.Tensor))
        # The user's hooks watch the user's model: they are neither run nor copied (they may hold anything).
        memo.update((id(hooks), type(hooks)()) for name in _HOOKS if (hooks := vars(module).get(name)) is not None)
    twin = copy.deepcopy(model, memo).eval()
    for config in _configs(twin):
        config._attn_implementation_internal = attention
        if getattr(config, "use_cache", False):
            config.use_cache = False  # a cache would keep every layer's keys and values
    return twin


def _configs(model: Any) -> list[Any]:
    found: dict[int, Any] = {}

    def add(config: Any) -> None:
        if config is None or id(config) in found or not hasattr(config, "sub_configs"):
            return
        found[id(config)] = config
        for name in config.sub_configs:
            add(getattr(config, name, None))

    for module in model.modules():
        add(getattr(module, "config", None))
    return list(found.values())


def implementation(model: Any) -> str:
    """The attention implementation that the user loaded the model with."""
    return str(getattr(model.config, "_attn_implementation", None) or "eager")
