"""What enters a model's first layer: a pass that ends there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec
from mixlens.capture.run import Watch, run
from mixlens.errors import UnsupportedConfig


class _Enough(Exception):
    """Ends a pass in front of the first layer."""


@torch.no_grad()
def entering(model: Any, spec: Spec, inputs: Mapping[str, Any]) -> Tensor:
    """(input, position, dim): what the first layer reads. Raises whatever a model says of other inputs."""
    kept: list[Tensor] = []

    def on_input(index: int, x: Tensor) -> None:
        kept.append(x)
        raise _Enough

    try:
        run(model, spec, inputs, Watch(lambda seen: None, on_input))
    except _Enough:
        return kept[0]
    raise UnsupportedConfig(f"expected layers of {type(model).__name__} to run, none did")
