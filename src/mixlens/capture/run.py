"""One forward pass on a shadow; what each layer saw and made is handed over inside that layer's forward hook.

So one layer's tensors live at a time, however deep the model is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mixlens.architectures import Attend, Spec, base_model, by_length, layer_modules, submodule
from mixlens.capture.attention import NAME, RECORDER, Call
from mixlens.capture.offload import let_go
from mixlens.capture.shadow import shadow
from mixlens.capture.softmax import PLAIN, watch_softmax
from mixlens.errors import SelfCheckFailed

Arguments = tuple[tuple[Any, ...], dict[str, Any]]  # how a module was called


@dataclass(eq=False)
class AttendPass:
    """What one attention sub-block saw and made in one pass."""

    calls: list[Call] = field(default_factory=list)
    out: Tensor | None = None  # the output projection's output (batch, position, dim), bias in
    arguments: Arguments = ((), {})  # of the attention module, where it reads another stream


@dataclass(eq=False)
class LayerPass:
    """What one layer saw and made in one pass. Hidden states are (batch, position, dim)."""

    index: int
    module: torch.nn.Module  # the shadow's layer
    x: Tensor  # its input
    attends: tuple[AttendPass, ...]  # one for each `Spec.attends`
    norms: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # path -> input and output
    y: Tensor | None = None  # its output
    form: type | None = None  # how it gives `y` back: itself (Tensor), or alone in a tuple; None: with more
    args: tuple[Any, ...] = ()  # how it was called, x among them
    kwargs: dict[str, Any] = field(default_factory=dict)


OnLayer = Callable[[LayerPass], Tensor | None]
OnInput = Callable[[int, Tensor], Tensor | None]
OnCall = Callable[[int, Call], Tensor | Call | None]
OnLinear = Callable[[torch.nn.Linear, Tensor, Tensor], None]


@dataclass(frozen=True)
class Watch:
    """Who is called while a pass goes on, and what an answer other than None does."""

    layer: OnLayer  # behind each layer, in order: the layer's output
    input: OnInput | None = None  # in front of each layer: its input
    # each attention call: the weights (batch, head, query, key) that it is computed with, or a call in its place
    call: OnCall | None = None
    linear: OnLinear | None = None  # each linear map's input and output


@dataclass(frozen=True)
class Reading:
    """Which part of the model runs, and what of its output is made.

    `heads`: the whole model, else the base model only. `at`: a language model's logits at one position of each text
    only, (text, 1, vocabulary), and with `tokens` of these alone, (text, 1, token).
    """

    heads: bool = False
    at: Sequence[int] | None = None
    tokens: Sequence[int] | None = None

    @contextmanager
    def part(self, twin: Any) -> Iterator[Any]:
        """The part of a shadow that is to be called, its vocabulary cut down meanwhile (to `tokens` for good)."""
        vocabulary = twin.get_output_embeddings() if self.heads and self.at is not None else None
        if vocabulary is None:
            yield twin if self.heads else base_model(twin)
            return
        if self.tokens is not None:
            vocabulary.forward = partial(_some_outputs, vocabulary, list(self.tokens))
        hook = vocabulary.register_forward_pre_hook(partial(_at_rows, list(self.at or ())))
        try:
            yield twin
        finally:
            hook.remove()


WITHOUT_HEADS = Reading()


class Recorder:
    """The hooks of a pass: fills a `LayerPass` as a layer runs, and hands it over behind it.

    Passes of one call may follow each other on one shadow, each with a `watch` of its own.

    `skip`: the forms of the first layers (`LayerPass.form`), which are passed by: they give back what they get.
    `recompute`: autograd keeps a layer's input alone, and runs the layer again when its gradient is wanted.
    """

    def __init__(self, spec: Spec, watch: Watch, skip: Sequence[type] = (), recompute: bool = False) -> None:
        self.spec, self.watch, self.skip, self.recompute = spec, watch, skip, recompute
        self.count = 0  # layers that have run
        self.holds = False  # whether weights that are brought in for a layer stay behind it
        self.current: LayerPass | None = None  # the layer that runs now
        self.twin: Any = None  # the shadow, once there is one
        self.moves = False  # whether a pass leaves in it what it turned positions by

    def run(
        self, model: Any, inputs: Mapping[str, Any], reading: Reading, prepare: Callable[[Any], None] | None = None
    ) -> Any:
        """One pass on a shadow of the model, and its output. Raises SelfCheckFailed when no layer runs."""
        if self.twin is None or self.moves:
            self.twin = shadow(model, NAME if self.spec.seam == "interface" else PLAIN)
            if prepare is not None:
                prepare(self.twin)
            self.attach(self.twin)
            self.moves = any(map(by_length, self.twin.modules()))
        self.count = 0
        with reading.part(self.twin) as part:
            output = part(**inputs)
        if self.count == 0:
            raise SelfCheckFailed(
                f"expected the layers of {type(model).__name__} to run, none did; the spec names others"
            )
        return output

    def end(self) -> None:
        """Let go of the shadow and of who watched: hooks hold the recorder, and a cycle would keep the weights and what
        was seen until Python's collector comes by.
        """
        self.twin = None
        if not self.recompute:  # else layers will run again
            self.watch = Watch(lambda seen: None)

    def attach(self, twin: Any) -> None:
        """Put the hooks on a shadow."""
        for layer in layer_modules(base_model(twin), self.spec):
            if self.skip:
                layer.forward = partial(self.pass_by, layer.forward)
            if self.recompute:
                layer.forward = partial(self.run_again, layer, layer.forward)
            layer.register_forward_pre_hook(self.enter, with_kwargs=True)
            layer.register_forward_hook(self.leave, with_kwargs=True)
            layer.register_forward_hook(lambda module, args, out: None if self.holds else let_go(module))
            for number, attend in enumerate(self.spec.attends):
                attention = submodule(layer, attend.attention)
                attention.__dict__[RECORDER] = partial(self.record, number)
                if self.spec.seam == "softmax":
                    watch_softmax(attention)
                if attend.reads == "memory":
                    attention.register_forward_pre_hook(partial(self.keep_arguments, number), with_kwargs=True)
                submodule(layer, attend.out).register_forward_hook(partial(self.keep_out, number, attend))
            for path in self.spec.norms:
                submodule(layer, path).register_forward_hook(partial(self.keep_norm, path))
        if self.watch.linear is not None:
            for module in twin.modules():
                if isinstance(module, torch.nn.Linear):
                    module.register_forward_hook(partial(_show, self.watch.linear))

    def pass_by(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """In the place of a layer's forward: of the first layers, their input in the form of their output."""
        if self.count >= len(self.skip):
            return forward(*args, **kwargs)
        x = _hidden(args, kwargs)
        return (x,) if self.skip[self.count] is tuple else x

    def run_again(self, layer: torch.nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """In the place of a layer's forward: what a backward pass needs of it is computed anew there.

        Its attention calls are answered as they were; nobody else is told.
        """
        index = self.count

        def run(*args: Any, **kwargs: Any) -> Any:
            if self.current is not None:
                return forward(*args, **kwargs)
            attends = tuple(AttendPass() for _ in self.spec.attends)
            self.current = LayerPass(index, layer, _hidden(args, kwargs), attends)
            try:
                return forward(*args, **kwargs)
            finally:
                self.current = None
                let_go(layer)

        return checkpoint(run, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    def enter(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
        """A layer begins."""
        if self.count < len(self.skip):
            return None
        new = None if self.watch.input is None else self.watch.input(self.count, _hidden(args, kwargs))
        if new is not None:
            args, kwargs = with_hidden(args, kwargs, new)
        attends = tuple(AttendPass() for _ in self.spec.attends)
        self.current = LayerPass(self.count, module, _hidden(args, kwargs), attends, args=args, kwargs=kwargs)
        return None if new is None else (args, kwargs)

    def record(self, number: int, call: Call) -> Tensor | Call | None:
        """The layer's attention sub-block `number` calls the interface."""
        if self.current is None:
            return None
        self.current.attends[number].calls.append(call)
        return None if self.watch.call is None else self.watch.call(self.current.index, call)

    def keep_arguments(self, number: int, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """An attention module that reads another stream begins."""
        if self.current is not None:
            self.current.attends[number].arguments = args, kwargs

    def keep_out(self, number: int, attend: Attend, module: torch.nn.Module, args: Any, out: Tensor) -> None:
        """An output projection has run."""
        if self.current is not None:
            self.current.attends[number].out = _like(out, self.current, attend.out)

    def keep_norm(self, path: str, module: torch.nn.Module, args: tuple[Any, ...], out: Tensor) -> None:
        """A norm has run."""
        if self.current is not None:
            pair = _like(args[0], self.current, path), _like(out, self.current, path)
            self.current.norms[path] = pair

    def leave(self, module: torch.nn.Module, args: Any, kwargs: Any, out: Any) -> Any:
        """A layer ends."""
        seen, self.current = self.current, None  # what `watch.layer` calls is not recorded
        self.count += 1
        if self.count <= len(self.skip):
            return None
        assert seen is not None
        _complete(seen, self.spec)
        several = isinstance(out, (tuple, list))
        first = out[0] if several else out
        seen.y = first.view_as(seen.x)
        seen.form = None if isinstance(out, list) or (several and len(out) > 1) else type(out)
        new = self.watch.layer(seen)
        if new is None:
            return None
        return type(out)((new.view_as(first), *out[1:])) if several else new.view_as(first)


def run(
    model: Any,
    spec: Spec,
    inputs: Mapping[str, Any],
    watch: OnLayer | Watch,
    reading: Reading = WITHOUT_HEADS,
    *,
    skip: Sequence[type] = (),
    recompute: bool = False,
    prepare: Callable[[Any], None] | None = None,
) -> Any:
    """One pass over `inputs`, and the output of what ran. `watch`: who is called behind each layer, or a `Watch`.

    `skip`, `recompute`: see `Recorder`. `prepare`: changes the shadow first, in ways that keep every number of the
    pass. What is seen begins above the layers that are skipped, where the watch's `input` has to give the input. Raises
    SelfCheckFailed when an attention sub-block does not call the attention interface exactly once, or when no layer
    runs.
    """
    recorder = Recorder(spec, watch if isinstance(watch, Watch) else Watch(watch), skip, recompute)
    try:
        return recorder.run(model, inputs, reading, prepare)
    finally:
        recorder.end()


def with_hidden(args: tuple[Any, ...], kwargs: Mapping[str, Any], x: Any) -> Arguments:
    """The arguments of a layer or attention module with other hidden states."""
    return ((x, *args[1:]), dict(kwargs)) if args else (args, {**kwargs, "hidden_states": x})


def _hidden(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return args[0] if args else kwargs["hidden_states"]


def _show(on_linear: OnLinear, module: torch.nn.Linear, args: tuple[Any, ...], out: Tensor) -> None:
    on_linear(module, args[0], out)


def _at_rows(at: list[int], module: torch.nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """One position of each text of a vocabulary map's input."""
    return (args[0][list(range(len(at))), at][:, None], *args[1:])


def _some_outputs(linear: torch.nn.Linear, outputs: list[int], x: Tensor) -> Tensor:
    bias = None if linear.bias is None else linear.bias[outputs]
    return torch.nn.functional.linear(x, linear.weight[outputs], bias)


def _like(t: Tensor, seen: LayerPass, path: str) -> Tensor:
    if t.numel() != seen.x.numel():
        raise SelfCheckFailed(
            f"expected '{path}' of {type(seen.module).__name__} to work on hidden states of shape "
            f"{tuple(seen.x.shape)}, got {tuple(t.shape)}; the spec names another module"
        )
    return t.view_as(seen.x)


def _complete(seen: LayerPass, spec: Spec) -> None:
    name = type(seen.module).__name__
    for attend, part in zip(spec.attends, seen.attends, strict=True):
        if len(part.calls) != 1:
            raise SelfCheckFailed(
                f"expected one call of the attention interface in {name} {seen.index} (module '{attend.attention}'), "
                f"got {len(part.calls)}; this version of transformers does not hand this layer's attention out"
            )
    missing = [a.out for a, part in zip(spec.attends, seen.attends, strict=True) if part.out is None]
    missing += [path for path in spec.norms if path not in seen.norms]
    if missing:
        raise SelfCheckFailed(
            f"expected {name} {seen.index} to run {missing}, it did not; the spec names other modules"
        )
