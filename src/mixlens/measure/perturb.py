"""Taking tokens out in the order of their scores, and what the answer's curve says of that order.

Sources: AOPC and log-odds, Qiang 2022 (AttCAT) section 4; comprehensiveness and sufficiency, DeYoung 2020 (ERASER).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from jaxtyping import Bool, Float, Int

from mixlens.errors import UnknownOption
from mixlens.measure.case import Case

Levels = str | Sequence[float]
ATTCAT = "attcat-code"
NAMED: dict[str, tuple[float, ...]] = {
    "tenths": tuple(k / 10 for k in range(11)),
    "eraser": (0.01, 0.05, 0.1, 0.2, 0.5),
}
_EPS = 1e-9  # a share of a whole number of tokens is not rounded up for its rounding error


def order(scores: Float[np.ndarray, " token"]) -> Int[np.ndarray, " token"]:
    """Token indices from the highest score down; equal ones in reading order."""
    return np.argsort(-scores, kind="stable")


def shares(levels: Levels = "tenths") -> tuple[float, ...]:
    """The levels as shares of the removable tokens. Raises UnknownOption."""
    if isinstance(levels, str):
        if levels not in NAMED:
            raise UnknownOption(f"levels: expected {', '.join(NAMED)}, {ATTCAT} or shares 0 to 1, got {levels!r}")
        return NAMED[levels]
    try:
        parsed = tuple(float(share) for share in levels)
    except (TypeError, ValueError):
        parsed = ()
    if not parsed or not all(0 <= share <= 1 for share in parsed):
        raise UnknownOption(f"levels: expected at least one share, each 0 to 1, got {levels!r}")
    return parsed


def counts(removable: int, levels: Levels = "tenths") -> tuple[int, ...]:
    """How many of the removable tokens each level takes: its share, rounded up. Raises UnknownOption."""
    return tuple(ceil(share * removable - _EPS) for share in shares(levels))


def attcat_counts(tokens: int) -> tuple[int, ...]:
    """The levels of AttCAT's code: k/9 of ALL tokens, k = 1 to 9, half rounded to even; 0 and doubles left out."""
    return tuple(int(count) for count in np.unique(np.round(np.linspace(0, 1, 10) * tokens)) if count)


def removed(
    scores: Float[np.ndarray, " token"],
    removable: Bool[np.ndarray, " token"],
    levels: Levels = "tenths",
    *,
    kept: bool = False,
) -> list[tuple[int, ...]]:
    """Per level the indices, ascending, that are taken out: the highest of the removable, or with `kept` the others.

    [] where no token is removable. Levels "attcat-code": the authors' walk, down the order over all tokens, passing
    over special ones, until `attcat_counts` are gathered; it ends before the last-ranked token. Raises UnknownOption.
    """
    ranked = [int(i) for i in order(scores) if removable[i]]
    if isinstance(levels, str) and levels == ATTCAT:
        walk = [int(i) for i in order(scores)[:-1] if removable[i]]
        taken = [walk[:count] for count in attcat_counts(len(scores))]
    else:
        taken = [ranked[:count] for count in counts(len(ranked), levels)]
    if not ranked:
        return []
    if kept:
        taken = [[i for i in ranked if i not in top] for top in map(set, taken)]
    return [tuple(sorted(indices)) for indices in taken]


def aopc(case: Case, *, absolute: bool = False) -> float:
    """Area over the perturbation curve: mean over levels of p - p~, the probability without the highest tokens.

    -1 to 1, the higher the better the order. `absolute`: |p - p~|, as AttCAT's code. NaN where no token is removable.
    """
    drop = _drop(case)
    return _mean(np.abs(drop) if absolute else drop)


def log_odds(case: Case) -> float:
    """Mean over levels of ln(p~ / p), in nats, the lower the better the order; NaN where no token is removable."""
    assert case.curve is not None
    return _mean(case.curve[1:] - case.curve[:1])


def comprehensiveness(case: Case) -> float:
    """Mean over levels of p - p~ without the highest tokens (DeYoung 2020, Eq. 1); NaN where no token is removable."""
    return _mean(_drop(case))


def sufficiency(case: Case) -> float:
    """Mean over levels of p - p~ of the highest tokens alone (DeYoung 2020, Eq. 2); NaN where no token is removable."""
    return _mean(_drop(case))


def _drop(case: Case) -> Float[np.ndarray, " level"]:
    assert case.curve is not None
    p = np.exp(case.curve)
    return p[:1] - p[1:]


def _mean(values: Float[np.ndarray, " level"]) -> float:
    """The mean over the levels at which there was an answer to read."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")
