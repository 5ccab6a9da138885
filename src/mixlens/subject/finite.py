"""NaN and infinity in a model: which parameters hold them, and the error that says so."""

from __future__ import annotations

from typing import Any

import torch

from mixlens.capture.offload import state
from mixlens.errors import NotFinite


def bad_weights(model: Any) -> list[str]:
    """The parameters that hold NaN or infinity."""
    known = {name for name, _ in model.named_parameters()}
    return [n for n, p in state(model).items() if n in known and not bool(torch.isfinite(p).all())]


def not_finite(model: Any, where: str) -> NotFinite:
    """The error for NaN or infinity, with the parameters that hold it."""
    bad = bad_weights(model)
    if bad:
        return NotFinite(
            f"expected finite weights, {bad[0]} holds NaN or infinity ({len(bad)} such parameters); "
            "load an intact checkpoint"
        )
    return NotFinite(
        f"expected finite numbers, {where} gives NaN or infinity though all weights are finite; "
        "load the model in float32 (half precision overflows)"
    )
