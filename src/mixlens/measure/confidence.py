"""Does the explanation of one class differ from those of the others? Kendall confidence (Qiang 2022, section 4)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from mixlens.errors import Undefined, UnknownOption
from mixlens.measure.case import Case
from mixlens.measure.perturb import order
from mixlens.measure.ranks import constant, tau_b

Vector = Float[np.ndarray, " token"]


def kendall_confidence(case: Case, *, on: str = "order") -> float:
    """Mean over the other classes of Kendall's tau between the class's scores and theirs, -1 to 1; low is good.

    `on="order"` is the paper's and its code's: tau of the two index PERMUTATIONS that sort the tokens by falling score
    (stable), read as if they were values. `on="scores"`: tau-b of the two score vectors, which is what one would
    expect; the two differ much (0.02 and 0.20 on one text). A class whose scores are constant has no order and is left
    out; NaN where none remains. Raises UnknownOption.
    """
    if on not in ("order", "scores"):
        raise UnknownOption(f"on: expected order or scores, got {on!r}")
    compare = order_tau if on == "order" else tau_b
    taus = np.array([compare(case.scores, scores) for scores in case.others])
    taus = taus[~np.isnan(taus)]
    return float(taus.mean()) if len(taus) else float("nan")


def order_tau(a: Vector, b: Vector) -> float:
    """Kendall's tau of the permutations that sort a and b, falling and stable; NaN for a constant vector."""
    if constant(a) or constant(b):
        return float("nan")
    return tau_b(order(a).astype(np.float64), order(b).astype(np.float64))


def need_classes(method: str, class_specific: bool, contrast: bool) -> None:
    """Refuses what makes the measure 1 or -1 by construction. Raises Undefined."""
    if not class_specific:
        raise Undefined(f"kendall_confidence: {method} says the same for every class; its tau is 1 by construction")
    if contrast:
        raise Undefined(
            "kendall_confidence: with a foil the other class's scores are the same with their sign turned, so tau is "
            "-1 by construction; explain single classes"
        )
