"""One forward pass on a shadow; what each layer saw and made is handed over inside that layer's forward hook.

So one layer's tensors live at a time, however deep the model is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec, base_model, layer_modules, submodule
from mixlens.capture.attention import NAME, RECORDER, Call
from mixlens.capture.shadow import shadow
from mixlens.errors import SelfCheckFailed


@dataclass(eq=False)
class LayerPass:
    """What one layer saw and made in one pass. Hidden states are (batch, position, dim)."""

    index: int
    module: torch.nn.Module  # the shadow's layer
    x: Tensor  # its input
    calls: list[Call] = field(default_factory=list)
    attn: Tensor | None = None  # the output projection's output, bias in
    norms: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # role -> input and output
    y: Tensor | None = None  # its output


OnLayer = Callable[[LayerPass], Tensor | None]


def run(
    model: Any,
    spec: Spec,
    inputs: Mapping[str, Any],
    on_layer: OnLayer,
    *,
    heads: bool = False,
    at: Sequence[int] | None = None,
) -> Any:
    """One pass over `inputs`; `on_layer` is called once a layer, in order, and may return a new layer output.

    `heads`: run the whole model (its output comes back), else the base model only. `at`: a language model's logits
    are wanted at one position of each text only, (text, 1, vocabulary). Raises SelfCheckFailed when a layer does not
    call the attention interface exactly once, or when no layer runs.
    """
    twin = shadow(model, NAME)
    base = base_model(twin)
    current: LayerPass | None = None
    count = 0

    def enter(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        nonlocal current
        current = LayerPass(count, module, args[0] if args else kwargs["hidden_states"])

    def record(call: Call) -> None:
        if current is not None:
            current.calls.append(call)

    def keep_attn(module: torch.nn.Module, args: tuple[Any, ...], out: Tensor) -> None:
        if current is not None:
            current.attn = _like(out, current, spec.out)

    def keep_norm(role: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: tuple[Any, ...], out: Tensor) -> None:
            if current is not None:
                path = spec.norms[role]
                current.norms[role] = (_like(args[0], current, path), _like(out, current, path))

        return hook

    def leave(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        nonlocal current, count
        seen, current = current, None  # what `on_layer` calls is not recorded
        assert seen is not None
        _complete(seen, spec)
        first = out[0] if isinstance(out, tuple) else out
        seen.y = first.view_as(seen.x)
        count += 1
        new = on_layer(seen)
        if new is None:
            return None
        return (new.view_as(first), *out[1:]) if isinstance(out, tuple) else new.view_as(first)

    for layer in layer_modules(base, spec):
        layer.register_forward_pre_hook(enter, with_kwargs=True)
        layer.register_forward_hook(leave, with_kwargs=True)
        submodule(layer, spec.out).register_forward_hook(keep_attn)
        for role, path in spec.norms.items():
            submodule(layer, path).register_forward_hook(keep_norm(role))
        submodule(layer, spec.attention).__dict__[RECORDER] = record
    vocabulary = twin.get_output_embeddings() if heads and at is not None else None
    if vocabulary is not None:
        rows = torch.arange(len(at or ())), torch.tensor(at)

        def only_at(module: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (args[0][rows][:, None], *args[1:])

        vocabulary.register_forward_pre_hook(only_at)
    output = (twin if heads else base)(**inputs)
    if count == 0:
        raise SelfCheckFailed(f"expected the layers of {type(model).__name__} to run, none did; the spec names others")
    return output


def _like(t: Tensor, seen: LayerPass, path: str) -> Tensor:
    if t.numel() != seen.x.numel():
        raise SelfCheckFailed(
            f"expected '{path}' of {type(seen.module).__name__} to work on hidden states of shape "
            f"{tuple(seen.x.shape)}, got {tuple(t.shape)}; the spec names another module"
        )
    return t.view_as(seen.x)


def _complete(seen: LayerPass, spec: Spec) -> None:
    name = type(seen.module).__name__
    if len(seen.calls) != 1:
        raise SelfCheckFailed(
            f"expected one call of the attention interface in {name} {seen.index} (module '{spec.attention}'), got "
            f"{len(seen.calls)}; this version of transformers does not hand this layer's attention out"
        )
    if seen.attn is None or set(seen.norms) != set(spec.norms):
        missing = [spec.out] * (seen.attn is None) + [p for r, p in spec.norms.items() if r not in seen.norms]
        raise SelfCheckFailed(f"expected {name} {seen.index} to run {missing}, it did not; the spec names other modules")


def layer_count(model: Any, spec: Spec) -> int:
    """How many times a layer runs in one pass."""
    config = base_model(model).config
    if config.model_type == "albert":
        return int(config.num_hidden_layers) * int(config.inner_group_num)
    return len(layer_modules(base_model(model), spec))
