"""A shadow of the user's model: it shares every tensor, and nothing else that could change.

Configs, hooks and train/eval mode are the shadow's own, so the user's model needs no restoring after an exception
and may run in other threads meanwhile. A shadow is made for each call: after a user's `.to()`, a kept one would hold
the old tensors. So it has to be cheap: modules are copied attribute by attribute, and only what an attribute may
change or point at a module with goes through `copy.deepcopy`, whose memo then knows every module and tensor.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from functools import cache
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from mixlens.architectures import by_length
from mixlens.capture.offload import offloaded, take_over

_HOOKS = frozenset(
    "_forward_hooks _forward_hooks_with_kwargs _forward_hooks_always_called _forward_pre_hooks "
    "_forward_pre_hooks_with_kwargs _backward_hooks _backward_pre_hooks _state_dict_hooks _state_dict_pre_hooks "
    "_load_state_dict_pre_hooks _load_state_dict_post_hooks".split()
)
_UNCHANGING: frozenset[type] = frozenset(
    (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
)
_UNCHANGING |= {FunctionType, BuiltinFunctionType, type}
_ELSEWHERE = frozenset(("forward", "_old_forward", "_hf_hook"))  # of a module whose weights are kept elsewhere
_SHALLOW = frozenset(("_parameters", "_buffers", "_non_persistent_buffers_set"))
_COMPILED = "_compiled_call_impl"  # of `module.compile()`; of the wrapper and of a forward, where the plain one is:
_WRAPPED, _PLAIN = "_orig_mod", "_torchdynamo_orig_callable"
# What a configuration may ask for beside the answer: a cache would keep every layer's keys and values.
_PLAINLY = {"use_cache": False, "return_dict": True, "output_hidden_states": False, "output_attentions": False}
_COPYING = ("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__")


def shadow(model: Any, attention: str) -> Any:
    """A copy of the module tree, in eval mode, that shares all tensors; `attention` names its implementation.

    What was compiled is its plain self in the copy: compiled code knows neither the copy nor its hooks.
    """
    everything = list(model.modules())
    modules = [module for module in everything if not _is_wrapper(module)]
    memo: dict[int, Any] = {}
    rest: list[tuple[dict[str, Any], str, Any]] = []  # attributes that may change, or point at something that does
    for module in modules:
        held = vars(module)
        for t in (*module._parameters.values(), *module._buffers.values()):
            memo[id(t)] = t
        kind: Any = type(module)
        if not _copied_by_attributes(kind):
            memo.update((id(t), t) for t in held.values() if isinstance(t, torch.Tensor))
            memo.update((id(held[name]), type(held[name])()) for name in _HOOKS if held.get(name) is not None)
            continue
        twin = memo[id(module)] = kind.__new__(kind)
        attributes = vars(twin)
        attributes.update(held)
        attributes["training"] = False
        for name, value in held.items():
            if name in _HOOKS:  # the user's watch the user's model: neither run nor copied (they may hold anything)
                attributes[name] = type(value)()
            elif name == _COMPILED:
                del attributes[name]
            elif type(value) in _UNCHANGING and name != "forward":
                continue
            elif name in _SHALLOW:
                attributes[name] = type(value)(value)
                if value and name == "_buffers" and by_length(module):  # the kind of buffer that a pass writes over
                    attributes[name] = {key: None if t is None else t.clone() for key, t in value.items()}
            elif name in _ELSEWHERE and offloaded(module) is not None:
                continue
            elif name == "forward":
                _put_forward(attributes, module, value, rest)
            elif isinstance(value, torch.Tensor):
                memo[id(value)] = value
            else:
                rest.append((attributes, name, value))
    wrapped = [module for module in everything if _is_wrapper(module)]
    memo.update((id(module), memo[id(plain)]) for module in wrapped if id(plain := _unwrapped(module)) in memo)
    for attributes, name, value in rest:
        if name == "_modules":
            attributes[name] = {key: _twin(_unwrapped(child), memo) for key, child in value.items()}
        else:
            attributes[name] = _copied(value, memo)
    twins = [_twin(module, memo) for module in modules]
    for twin in twins:
        vars(twin)["training"] = False
    kept = [(twin, offloaded(module)) for twin, module in zip(twins, modules, strict=True)]
    take_over((twin, record) for twin, record in kept if record is not None)
    for config in _configs(twins):
        config._attn_implementation_internal = attention
        for key, plain in _PLAINLY.items():
            if getattr(config, key, plain) != plain:
                setattr(config, key, plain)
    return twins[0]


def _is_wrapper(module: Any) -> bool:
    return type(module).__name__ == "OptimizedModule" and _WRAPPED in module._modules


def _unwrapped(module: Any) -> Any:
    """The module that `torch.compile(module)` was made of."""
    while module is not None and _is_wrapper(module):
        module = module._modules[_WRAPPED]
    return module


def _put_forward(
    attributes: dict[str, Any], module: Any, value: Any, rest: list[tuple[dict[str, Any], str, Any]]
) -> None:
    """A forward of a module's own: the class's where it is that one compiled, else the plain one, the copy's."""
    while getattr(value, _PLAIN, None) is not None:
        value = getattr(value, _PLAIN)
    kind: Any = type(module)
    if getattr(value, "__self__", None) is module and value.__func__ is kind.forward:
        del attributes["forward"]
    elif type(value) not in _UNCHANGING:
        rest.append((attributes, "forward", value))
    else:
        attributes["forward"] = value


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """A deep copy, without the handles of hooks, which the copy has none of; shared where it cannot be copied."""
    if isinstance(value, RemovableHandle):
        return RemovableHandle(OrderedDict())
    if type(value) is list and value and all(isinstance(handle, RemovableHandle) for handle in value):
        return []
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # a lock, a file, a generator: nothing that a forward pass changes
        return value


def _twin(module: Any, memo: dict[int, Any]) -> Any:
    return memo[id(module)] if id(module) in memo else copy.deepcopy(module, memo)


@cache
def _copied_by_attributes(kind: Any) -> bool:
    """Whether a module's class says nothing of its own about how it is copied."""
    return all(getattr(kind, name, None) is getattr(torch.nn.Module, name, None) for name in _COPYING)


def _configs(modules: list[Any]) -> list[Any]:
    configs: dict[int, Any] = {}

    def add(config: Any) -> None:
        if config is None or id(config) in configs or not hasattr(config, "sub_configs"):
            return
        configs[id(config)] = config
        for name in config.sub_configs:
            add(getattr(config, name, None))

    for module in modules:
        if "config" in vars(module) or hasattr(type(module), "config"):  # most have none: torch's lookup is a slow one
            add(module.config)
    return list(configs.values())


def implementation(model: Any) -> str:
    """The attention implementation that the user loaded the model with."""
    return str(getattr(model.config, "_attn_implementation", None) or "eager")
