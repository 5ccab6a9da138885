"""Weights that accelerate keeps on the CPU or on disk: brought in as a layer runs, and let go behind it.

accelerate replaces `forward` of the user's modules by functions that put weights into these very modules. A shadow runs
plain forwards instead and brings weights into its own modules, so the user's stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_HOOK, _RECORD, _BROUGHT = "_hf_hook", "_mixlens_offloaded", "_mixlens_brought"
_PUT_THERE = ("forward", "_old_forward", _HOOK)  # by accelerate, on a module of the user's


@dataclass(frozen=True, eq=False)
class Offloaded:
    """Where the weights of one module are, by their names below it, and where they are wanted."""

    weights: Mapping[str, Tensor]
    device: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Offloaded:
        """Shared: a copy would hold the weights again."""
        return self


def offloaded(module: Any) -> Offloaded | None:
    """Where a module's weights are, if not in the module itself."""
    held = vars(module)
    if _RECORD in held:
        return held[_RECORD]
    hook = held.get(_HOOK)
    for part in getattr(hook, "hooks", (hook,)):
        if getattr(part, "offload", False) and getattr(part, "weights_map", None) is not None:
            return Offloaded(part.weights_map, part.execution_device)
    return None


def device_of(model: Any) -> torch.device:
    """Where a model computes, wherever its weights are meanwhile."""
    if model.device.type != "meta":
        return model.device
    records = (record for module in model.modules() if (record := offloaded(module)) is not None)
    return next((torch.device(record.device) for record in records if record.device is not None), model.device)


def missing(model: Any) -> list[str]:
    """The parameters that hold no numbers and that nobody keeps elsewhere."""
    out: list[str] = []
    for path, module in model.named_modules():
        if offloaded(module) is None:
            names = [name for name, p in module.named_parameters(recurse=False) if p.is_meta]
            out += [f"{path}.{name}" if path else name for name in names]
    return out


def state(model: Any) -> dict[str, Tensor]:
    """`model.state_dict()` with the numbers of what is kept elsewhere."""
    out = dict(model.state_dict())
    for path, module in model.named_modules():
        record = offloaded(module)
        for name in () if record is None else _names(module):
            out[f"{path}.{name}" if path else name] = record.weights[name]  # type: ignore[union-attr]
    return out


def take_over(twins: Iterable[tuple[Any, Offloaded]]) -> None:
    """Make shadow modules bring in their weights when they are called, by themselves."""
    for twin, record in twins:
        attributes = vars(twin)
        for name in _PUT_THERE:
            attributes.pop(name, None)
        attributes[_RECORD] = record
        twin.register_forward_pre_hook(_bring, with_kwargs=True)


@contextmanager
def there(layer: nn.Module) -> Iterator[None]:
    """The weights of a shadow's layer that has run, there once more meanwhile."""
    for module in layer.modules():
        if _RECORD in vars(module):
            _bring(module, (), {})
    try:
        yield
    finally:
        let_go(layer)


def let_go(layer: nn.Module) -> None:
    """A shadow's layer has run: what was brought in for it is no longer held."""
    for module in layer.modules():
        if _RECORD in vars(module):
            for name in vars(module).get(_BROUGHT, ()):
                held = _holder(module, name)
                held[name] = _like(held[name], held[name].detach().to("meta"))
            vars(module)[_BROUGHT] = ()


def _bring(module: Any, args: Any, kwargs: Any) -> Any:
    record = vars(module)[_RECORD]
    names = _names(module)
    for name in names:
        held = _holder(module, name)
        held[name] = _like(held[name], record.weights[name].to(record.device))
    vars(module)[_BROUGHT] = (*vars(module).get(_BROUGHT, ()), *names)
    return _moved(args, record.device), _moved(kwargs, record.device)


def _moved(value: Any, device: Any) -> Any:
    """A call's arguments on another device; what holds its tensors in another way stays as it is."""
    if isinstance(value, Tensor):
        return value.to(device)
    if type(value) in (tuple, list):
        return type(value)(_moved(item, device) for item in value)
    return {k: _moved(item, device) for k, item in value.items()} if type(value) is dict else value


def _holder(module: Any, name: str) -> dict[str, Any]:
    return module._parameters if name in module._parameters else module._buffers


def _names(module: Any) -> list[str]:
    """The weights of a module that are not there now."""
    held = {**module._parameters, **module._buffers}
    return [name for name, t in held.items() if t is not None and t.is_meta]


def _like(held: Tensor, t: Tensor) -> Tensor:
    return nn.Parameter(t, requires_grad=held.requires_grad) if isinstance(held, nn.Parameter) else t
