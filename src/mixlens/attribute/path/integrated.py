"""Integrated gradients: the gradients along the path from a baseline to the input, times the path."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from mixlens.errors import UnknownOption

RULES = ("gausslegendre", "riemann_left", "riemann_middle", "riemann_right", "riemann_trapezoid")


def integrated_gradients(
    value: Callable[[Float[Tensor, "point token dim"]], Float[Tensor, " point"]],
    x: Float[Tensor, "text token dim"],
    baseline: Float[Tensor, "text token dim"],
    *,
    steps: int = 100,
    rule: str = "gausslegendre",
    at_once: int = 32,
) -> Float[Tensor, "text token"]:
    """sum_k (x - b)_ik * integral over a in [0, 1] of dF/dx_ik at b + a (x - b) (Sundararajan 2017, Eq. 1).

    captum's, summed over dimensions. `value`: F of several points of the paths, the texts in turn, over and over,
    differentiable; a point's value must depend on that point alone. `at_once`: points in one call.
    captum holds the step sizes in float32, so a result is good to about 1e-7 at best. Raises UnknownOption.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise UnknownOption(f"expected steps of 1 or more, got {steps!r}")
    if rule not in RULES:
        raise UnknownOption(f"expected rule= one of {', '.join(RULES)}, got {rule!r}")
    if rule != "gausslegendre" and steps < 2:
        raise UnknownOption(f"expected steps of 2 or more for rule={rule!r}, got 1")
    from captum.attr import IntegratedGradients  # a second to import

    captum = IntegratedGradients(value, multiply_by_inputs=True)
    once = max(at_once, len(x))
    paths = captum.attribute(x, baselines=baseline, n_steps=steps, method=rule, internal_batch_size=once)
    return paths.sum(-1)
