"""Does the explanation find the cue words? Dot product, average precision, probes-needed (Mohebbi 2023)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from mixlens.errors import UnknownOption
from mixlens.measure.case import Case
from mixlens.measure.perturb import order

Vector = Float[np.ndarray, " token"]
Mask = Bool[np.ndarray, " token"]
_NAN = float("nan")


def sharing(scores: Vector, signed: str = "abs") -> Vector:
    """Scores made non-negative and divided by their sum; all NaN where that is 0.

    `signed`: "abs" takes the absolute value, "relu" drops negative scores, "minmax" subtracts the lowest and divides by
    the range. Raises UnknownOption.
    """
    if signed == "abs":
        shares = np.abs(scores)
    elif signed == "relu":
        shares = np.maximum(scores, 0)
    elif signed == "minmax":
        shares = scores - scores.min()
    else:
        raise UnknownOption(f"signed: expected abs, relu or minmax, got {signed!r}")
    largest = shares.max()
    if largest == 0:
        return np.full(len(shares), _NAN)
    shares = shares / largest  # a sum of the smallest or largest numbers neither vanishes nor overflows
    return shares / shares.sum()


def cue_dot(case: Case, *, signed: str = "abs", special: bool = True) -> float:
    """The cue's part of all scores, 0 to 1 (Mohebbi 2023, Eq. 11). NaN: no cue token, or no score that is not 0."""
    shares, cue = _shares(case, signed, special)
    return float(shares[cue].sum()) if cue.any() else _NAN


def cue_ap(case: Case, *, signed: str = "abs", special: bool = True) -> float:
    """Average precision of the cue tokens in the order of the scores, 0 to 1 (Mohebbi 2023, Eq. 12).

    1 where every token is cue. NaN: no cue token, or no score that is not 0.
    """
    shares, cue = _shares(case, signed, special)
    return _NAN if np.isnan(shares).any() else average_precision(shares, cue)


def probes_needed(case: Case, *, signed: str = "abs", special: bool = True, until: str = "last") -> float:
    """How many tokens that are no cue stand before the last (`until="first"`: the first) cue token; 0 is best.

    Ties in reading order. NaN: no cue token, or no score that is not 0. Mohebbi 2023, Figure A2. Raises UnknownOption.
    """
    if until not in ("first", "last"):
        raise UnknownOption(f"until: expected first or last, got {until!r}")
    shares, cue = _shares(case, signed, special)
    if not cue.any() or np.isnan(shares).any():
        return _NAN
    places = np.flatnonzero(cue[order(shares)])
    return float(places[0] if until == "first" else places[-1] - (len(places) - 1))


def average_precision(scores: Vector, wanted: Mask) -> float:
    """sum_k (R_k - R_(k-1)) P_k over the distinct scores k, falling; NaN where nothing is wanted.

    P_k and R_k: precision and recall of the tokens that score at least k. Tied tokens come in together.
    """
    if not wanted.any():
        return _NAN
    precision, recall = precision_recall(scores, wanted)
    return float(np.diff(recall, prepend=0.0) @ precision)


def precision_recall(
    scores: Vector, wanted: Mask
) -> tuple[Float[np.ndarray, " threshold"], Float[np.ndarray, " threshold"]]:
    """Precision and recall of the tokens that score at least k, for each distinct score k, falling."""
    ranked = np.sort(scores)[::-1]
    ends = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)
    hits = np.cumsum(wanted[order(scores)])[ends]
    return hits / (ends + 1), hits / hits[-1]


def _shares(case: Case, signed: str, special: bool) -> tuple[Vector, Mask]:
    assert case.cue is not None
    kept = np.ones(len(case.scores), dtype=bool) if special else ~case.special
    if not kept.any():
        return np.empty(0), case.cue[kept]
    return sharing(case.scores[kept], signed), case.cue[kept]
