"""One forward pass on a shadow; what each layer saw and made is handed over inside that layer's forward hook.

So one layer's tensors live at a time, however deep the model is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec, base_model, layer_modules, submodule
from mixlens.architectures import layer_count as layer_count
from mixlens.capture.attention import NAME, RECORDER, Call
from mixlens.capture.offload import let_go
from mixlens.capture.shadow import shadow
from mixlens.errors import SelfCheckFailed
from mixlens.precision import widened


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
    form: type | None = None  # how it gives `y` back: itself (Tensor), or alone in a tuple; None: with more
    args: tuple[Any, ...] = ()  # how it was called, x among them
    kwargs: dict[str, Any] = field(default_factory=dict)


OnLayer = Callable[[LayerPass], Tensor | None]
OnInput = Callable[[int, Tensor], Tensor | None]
OnCall = Callable[[int, Call], Tensor | None]
OnLinear = Callable[[torch.nn.Linear, Tensor, Tensor], None]


def run(
    model: Any,
    spec: Spec,
    inputs: Mapping[str, Any],
    on_layer: OnLayer,
    *,
    heads: bool = False,
    at: Sequence[int] | None = None,
    on_input: OnInput | None = None,
    on_call: OnCall | None = None,
    on_linear: OnLinear | None = None,
    skip: Sequence[type] = (),
    tokens: Sequence[int] | None = None,
) -> Any:
    """One pass over `inputs`; `on_layer` is called once a layer, in order, and may return a new layer output.

    `on_input` may return another input for layer l. `on_call` may return attention weights, (batch, head, query,
    key), that the layer is then computed with, so that they stand in the autograd graph. `on_linear` sees input and
    output of every linear map.

    `heads`: run the whole model (its output comes back), else the base model only. `at`: a language model's logits
    are wanted at one position of each text only, (text, 1, vocabulary), and with `tokens` of these alone, (text, 1,
    token). `skip`: the first layers, by their `form`, are not run: they give back what they get; what is seen begins
    above them, where `on_input` has to give the input. Raises SelfCheckFailed when a layer does not call the attention
    interface exactly once, or when no layer runs.
    """
    twin = shadow(model, NAME)
    base = base_model(twin)
    current: LayerPass | None = None
    count = 0

    def enter(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal current
        if count < len(skip):
            return None
        x = args[0] if args else kwargs["hidden_states"]
        new = None if on_input is None else on_input(count, x)
        if new is not None:
            args, kwargs = ((new, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": new})
        x = args[0] if args else kwargs["hidden_states"]
        current = LayerPass(count, module, x, args=args, kwargs=kwargs)
        return None if new is None else (args, kwargs)

    def record(call: Call) -> Tensor | None:
        if current is None:
            return None
        current.calls.append(call)
        return None if on_call is None else on_call(current.index, call)

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
        count += 1
        if count <= len(skip):
            return None
        assert seen is not None
        _complete(seen, spec)
        first = out[0] if isinstance(out, tuple) else out
        seen.y = first.view_as(seen.x)
        seen.form = None if isinstance(out, tuple) and len(out) > 1 else type(out)
        new = on_layer(seen)
        if new is None:
            return None
        return (new.view_as(first), *out[1:]) if isinstance(out, tuple) else new.view_as(first)

    def passed_by(forward: Callable[..., Any]) -> Callable[..., Any]:
        def back(*args: Any, **kwargs: Any) -> Any:
            if count >= len(skip):
                return forward(*args, **kwargs)
            x = args[0] if args else kwargs["hidden_states"]
            return (x,) if skip[count] is tuple else x

        return back

    for layer in layer_modules(base, spec):
        if skip:
            layer.forward = passed_by(layer.forward)
        layer.register_forward_pre_hook(enter, with_kwargs=True)
        layer.register_forward_hook(leave, with_kwargs=True)
        layer.register_forward_hook(lambda module, args, out: let_go(module))
        submodule(layer, spec.out).register_forward_hook(keep_attn)
        for role, path in spec.norms.items():
            submodule(layer, path).register_forward_hook(keep_norm(role))
        submodule(layer, spec.attention).__dict__[RECORDER] = record
    if on_linear is not None:
        for module in twin.modules():
            if isinstance(module, torch.nn.Linear):
                module.register_forward_hook(lambda m, args, out: on_linear(m, args[0], out))
    vocabulary = twin.get_output_embeddings() if heads and at is not None else None
    if vocabulary is not None:
        rows = list(range(len(at or ()))), list(at or ())

        def only_at(module: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            return (args[0][rows][:, None], *args[1:])

        vocabulary.register_forward_pre_hook(only_at)
        if tokens is not None:
            vocabulary.forward = partial(_some_outputs, vocabulary, list(tokens))
    output = (twin if heads else base)(**inputs)
    if count == 0:
        raise SelfCheckFailed(f"expected the layers of {type(model).__name__} to run, none did; the spec names others")
    return output


def _some_outputs(linear: torch.nn.Linear, outputs: list[int], x: Tensor) -> Tensor:
    bias = None if linear.bias is None else linear.bias[outputs]
    return torch.nn.functional.linear(x, linear.weight[outputs], bias)


def call_again(
    module: torch.nn.Module, spec: Spec, args: tuple[Any, ...], kwargs: Mapping[str, Any], x: Tensor
) -> Call:
    """The attention call of a layer run again on other hidden states x, all else as it was given; in x's graph.

    The layer's own hooks are left out: it is not a layer of a pass.
    """
    attention = submodule(module, spec.attention)
    calls: list[Call] = []
    held = attention.__dict__.get(RECORDER)
    attention.__dict__[RECORDER] = calls.append
    rest, named = _each(args[1:], _leaf), _each(dict(kwargs), _leaf)
    try:
        if args:
            module.forward(x, *rest, **named)
        else:
            module.forward(**{**named, "hidden_states": x})
    finally:
        attention.__dict__[RECORDER] = held
    (call,) = calls
    return call


def text_of(value: Any, b: int, batch: int) -> Any:
    """Text b of every tensor whose first axis is the batch, in whatever holds it; vectors are no batches."""
    return _each(value, lambda t: t[b : b + 1] if t.ndim > 1 and len(t) == batch else t)


def _each(value: Any, f: Callable[[Tensor], Tensor]) -> Any:
    """`value` with f of every tensor in it."""
    if isinstance(value, Tensor):
        return f(value)
    if isinstance(value, Call):
        return replace(value, **{k: _each(v, f) for k, v in vars(value).items()})
    if isinstance(value, Mapping):
        return {k: _each(v, f) for k, v in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_each(v, f) for v in value)
    return value


def _leaf(t: Tensor) -> Tensor:
    """In at least float32, and such as autograd takes."""
    t = widened(t)
    return t.clone() if t.is_inference() else t


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
        raise SelfCheckFailed(
            f"expected {name} {seen.index} to run {missing}, it did not; the spec names other modules"
        )
