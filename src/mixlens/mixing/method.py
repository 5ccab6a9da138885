"""A mixing method: its function, and the facts about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from mixlens.architectures.spec import Order, Spec
from mixlens.cost import Cost
from mixlens.errors import Undefined
from mixlens.mixing.across import Across
from mixlens.options import options_of


@dataclass(frozen=True)
class Mixing:
    """A mixing method: a pure function `(block, **options) -> (batch, query, key)`, and the facts about it.

    `across`: the same of the two attentions of a layer that reads two streams. `costs`: what the maps take, by the
    method's options. `queries`: it can be had row-wise, with less work.
    """

    function: Callable[..., Tensor]
    symbol: str
    summary: str
    cite: str
    costs: Cost
    costs_per_head: Cost | None = None
    rows_sum_to_one: bool = False
    holds_residual: bool = False
    signed: bool = False
    queries: bool = False
    orders: tuple[Order, ...] = ("post", "pre", "parallel")
    across: Callable[..., Across] | None = None  # of a decoder's layer that reads an encoder's output too

    @property
    def work(self) -> str:
        """What is done in a layer: the pass alone ("forward"), the terms, the rest of the layer, or its Jacobian."""
        return self.costs.work

    def cost(self, options: Mapping[str, Any]) -> Cost:
        """What maps with these options take."""
        per_head = self.costs_per_head if options.get("per_head") else None
        return self.costs if per_head is None else per_head

    def options(self) -> dict[str, Any]:
        """Option name -> default, read from the function's keyword-only arguments."""
        return options_of(self.function)

    def lacks(self, spec: Spec) -> str | None:
        """What an architecture has not that such a map needs; None: it is defined there."""
        if spec.order not in self.orders:
            return f"needs a norm behind the residual sum (post-LN); these layers: {spec.order}"
        if spec.memory is not None and self.across is None:
            return "has no map of layers that read two streams, a decoder's own tokens and an encoder's"
        if self.work == "jacobian" and spec.seam == "softmax":
            return "needs queries and keys; this model's attention hands over its logits alone"
        return None

    def defined(self, spec: Spec) -> bool:
        """Whether there is such a map for an architecture."""
        return self.lacks(spec) is None

    def for_spec(self, name: str, spec: Spec) -> Mixing:
        """Itself, where it is defined for an architecture. Raises Undefined."""
        if (lacks := self.lacks(spec)) is not None:
            other = "norm_res or globenc" if spec.order not in self.orders else "value_zeroing"
            raise Undefined(f"{name} {lacks}; use {other}")
        return self
