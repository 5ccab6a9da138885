"""One pass of a small model, with what every module read and gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.architectures.spec import Seam
from mixlens.capture.attention import NAME, RECORDER, Call
from mixlens.capture.shadow import shadow
from mixlens.capture.softmax import PLAIN, watch_softmax


@dataclass(eq=False)
class Run:
    """One run of a module: what floating-point tensors it read and gave, and when it began and ended."""

    path: str
    module: nn.Module
    reads: list[Tensor]
    begin: int
    gives: list[Tensor] = field(default_factory=list)
    end: int = -1


@dataclass(frozen=True, eq=False)
class Attended:
    """One call of the attention interface. `core`: what its heads read, (batch, query, head x width)."""

    path: str
    call: Call
    core: Tensor
    when: int


@dataclass(eq=False)
class Traced:
    """A pass: every run of a module in the order in which they began, and every call of the attention interface."""

    seam: Seam = "interface"
    runs: list[Run] = field(default_factory=list)
    attended: list[Attended] = field(default_factory=list)
    clock: int = 0
    open: list[Run] = field(default_factory=list)

    def tick(self) -> int:
        """The next moment."""
        self.clock += 1
        return self.clock

    def around(self, when: int) -> list[Run]:
        """The runs that a moment falls into, innermost first."""
        return [run for run in reversed(self.runs) if run.begin < when < run.end]

    def within(self, run: Run) -> list[Run]:
        """The runs that a run holds."""
        return [inner for inner in self.runs if run.begin < inner.begin and inner.end <= run.end]

    def calls(self, run: Run) -> list[Attended]:
        """The attention calls that a run holds."""
        return [seen for seen in self.attended if run.begin < seen.when < run.end]


@torch.no_grad()
def traced(model: Any, inputs: Mapping[str, Any], seam: Seam = "interface") -> Traced:
    """A pass over `inputs` on a shadow of the model, whose attention is seen at a seam."""
    twin, seen, handles = shadow(model, NAME if seam == "interface" else PLAIN), Traced(seam), []
    for path, module in twin.named_modules():
        module.__dict__[RECORDER] = partial(_attend, seen, path)
        if seam == "softmax" and path and any(True for _ in module.children()):
            watch_softmax(module)  # which one attends is not known yet
        handles.append(module.register_forward_pre_hook(partial(_begin, seen, path), with_kwargs=True))
        handles.append(module.register_forward_hook(partial(_end, seen)))
    twin(**inputs)
    for handle in handles:  # the modules are tried on other vectors later
        handle.remove()
    return seen


def _begin(seen: Traced, path: str, module: nn.Module, args: Any, kwargs: Any) -> None:
    run = Run(path, module, _floats((args, kwargs)), seen.tick())
    seen.runs.append(run)
    seen.open.append(run)


def _end(seen: Traced, module: nn.Module, args: Any, out: Any) -> None:
    run = seen.open.pop()
    run.gives, run.end = _floats(out), seen.tick()


def _attend(seen: Traced, path: str, call: Call) -> None:
    if seen.seam == "softmax" and seen.open[-1].path != path:
        return  # modules around the one that attends see it as well
    core = call.output().transpose(1, 2).flatten(2)
    seen.attended.append(Attended(path, call, core, seen.tick()))


def _floats(value: Any, depth: int = 0) -> list[Tensor]:
    """Copies of the floating-point tensors in a module's arguments or output, in order."""
    if isinstance(value, Tensor):
        return [value.detach().clone()] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        value = list(value.values())
    if depth > 2 or not isinstance(value, (tuple, list)):
        return []
    return [t for item in value for t in _floats(item, depth + 1)]
