"""The maps and the activation of a feed-forward network: found by trying what the layer holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mixlens.infer.traced import Run
from mixlens.infer.values import same

Act = Callable[[Tensor], Any]


class Network(NamedTuple):
    """The first maps, the path of the activation below the layer, and whether one map holds both gated halves."""

    up: tuple[Run, ...]
    act: str
    fused: bool


def network(layer: Run, ups: list[Run], down: Run) -> Network | None:
    """The network whose last map is `down`, its first among `ups`; None: it is of another form."""
    hidden = down.reads[0]
    width = hidden.shape[-1]
    plain = [up for up in ups if up.gives[0].shape[-1] == width]
    double = [up for up in ups if up.gives[0].shape[-1] == 2 * width]
    for path, act in activations(layer, [*ups, down]):
        for up in plain:
            made = _tried(act, up.gives[0])
            if made is None or same(made, up.gives[0]):
                continue
            if same(made, hidden):
                return Network((up,), path, False)
            for other in plain:
                if other is not up and same(made * other.gives[0].reshape(made.shape), hidden):
                    return Network((up, other), path, False)
        for up in double:
            first, second = up.gives[0].chunk(2, -1)
            made = _tried(act, first)
            if made is not None and not same(made, first) and same(made * second, hidden):
                return Network((up,), path, True)
    return None


def activations(layer: Run, maps: list[Run]) -> Iterator[tuple[str, Act]]:
    """Everything without weights that can be called and stands beside a network's maps, with its path in the layer."""
    seen: set[int] = set()
    for path, holder in _holders(layer, maps):
        held: dict[str, Any] = {k: v for k, v in vars(holder).items() if not k.startswith("_")} | dict(holder._modules)
        for name, value in held.items():
            for below, act in _callables(name, value):
                if id(act) not in seen:
                    seen.add(id(act))
                    yield f"{path}.{below}" if path else below, act


def _holders(layer: Run, maps: list[Run]) -> Iterator[tuple[str, nn.Module]]:
    """The modules from the layer down to the maps, with their paths in the layer."""
    yield "", layer.module
    seen = {""}
    for run in maps:
        parts = run.path[len(layer.path) + 1 :].split(".")[:-1]
        for k in range(1, len(parts) + 1):
            path = ".".join(parts[:k])
            if path not in seen:
                seen.add(path)
                yield path, layer.module.get_submodule(path)


def _callables(name: str, value: Any) -> Iterator[tuple[str, Act]]:
    if not callable(value) or isinstance(value, type):
        return
    if not isinstance(value, nn.Module):
        yield name, value
        return
    for path, module in value.named_modules():
        if not any(True for _ in module.parameters()) and not any(True for _ in module.children()):
            yield f"{name}.{path}" if path else name, module


def _tried(act: Act, t: Tensor) -> Tensor | None:
    """What a callable makes of a tensor; None: nothing of its shape."""
    made = _called(act, t)
    return made if isinstance(made, Tensor) and made.shape == t.shape and made.is_floating_point() else None


def gives_alone(run: Run, vectors: Tensor) -> bool:
    """Whether a module gives what it gave for these vectors and nothing beside them."""
    made = _called(run.module, vectors.reshape(1, -1, vectors.shape[-1]))
    return same(made[0] if isinstance(made, tuple) else made, run.gives[0])


def _called(act: Act, t: Tensor) -> Any:
    """What a callable makes of a tensor; None where it takes none."""
    try:
        with torch.no_grad():
            return act(t.clone())
    except Exception:  # it is no function of one tensor: whatever it says
        return None
