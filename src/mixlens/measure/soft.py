"""Parts of a prompt made weaker instead of taken out: its tokens' embeddings set to zero, or thinned out by the scores.

Sources: `disrupt`, `recover`: DePass; `soft_ns`, `soft_nc`: Zhao & Aletras 2023, with the same mean retention for all
methods, the Hellinger distance of the output and an area over retentions (2601.03089).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from mixlens.errors import InputError, UnknownOption
from mixlens.measure.case import Case
from mixlens.measure.perturb import Levels, shares

Vector = Float[np.ndarray, " token"]
RETENTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
_NAN = float("nan")


def zeroed_area(case: Case, *, levels: Levels = "tenths") -> float:
    """Area over the shares of tokens of the answer's probability, 0 to 1, by trapezoids; NaN: nothing is removable.

    `disrupt`: the highest tokens' embeddings are zero, the lower the better; `recover`: all others', the higher.
    Raises InputError, UnknownOption.
    """
    assert case.curve is not None
    at, p = np.array(shares(levels)), np.exp(case.curve[1:])
    if not len(p):
        return _NAN
    if len(p) != len(at):
        raise InputError(f"expected a curve of {1 + len(at)} points, one more than there are levels, got {1 + len(p)}")
    if len(at) == 1:
        return float(p[0])
    order = np.argsort(at, kind="stable")
    at, p = at[order], p[order]
    width = at[-1] - at[0]
    return float((np.diff(at) * (p[1:] + p[:-1]) / 2).sum() / width) if width > 0 else float(p.mean())


def brought_to(scores: Vector, mean: float) -> Vector:
    """Shares 0 to 1 that grow with the positive scores, c s_i and at most 1, whose mean is `mean`.

    Where all tokens with a score above 0 stay whole and that is not enough, the others share the rest evenly.
    """
    n, wanted = len(scores), mean * len(scores)
    positive = np.maximum(scores, 0)
    positive = positive / positive.max() if n and positive.max() > 0 else positive
    there = positive > 0
    if there.sum() <= wanted:
        rest = n - there.sum()
        return np.where(there, 1.0, (wanted - there.sum()) / rest if rest else 1.0)
    order = np.argsort(-positive, kind="stable")
    kept = positive[order]
    below = np.cumsum(kept[::-1])[::-1]
    for k, rest in enumerate(below):  # the first k at 1, the others in proportion: the fewest at which none exceeds 1
        kept[k:] = (wanted - k) * (positive[order[k:]] / rest)
        if kept[k] <= 1:
            break
        kept[k] = 1.0
    out = np.empty(n)
    out[order] = kept
    return out


def sufficient(case: Case, *, retentions: Sequence[float] = RETENTIONS, seed: int = 0) -> list[tuple[float, ...]]:
    """How much of each token stays: nothing of any; then at each mean retention the more, the higher the score."""
    return _kept(case, retentions, seed, brought_to)


def comprehensive(case: Case, *, retentions: Sequence[float] = RETENTIONS, seed: int = 0) -> list[tuple[float, ...]]:
    """The same, but the less, the higher the score."""
    return _kept(case, retentions, seed, lambda scores, mean: 1 - brought_to(scores, 1 - mean))


def soft_ns(case: Case, *, retentions: Sequence[float] = RETENTIONS, seed: int = 0) -> float:
    """Area over mean retentions of 1 - H / H_0, 0 to 1, where the highest tokens keep most; the higher the better.

    H is the Hellinger distance of the answer's distributions from those of the whole prompt, mean over its tokens; H_0
    with nothing of the prompt. NaN: nothing is removable, or the prompt changes nothing.
    """
    changed = _changed(case, retentions)
    return _NAN if changed is None else 1 - changed


def soft_nc(case: Case, *, retentions: Sequence[float] = RETENTIONS, seed: int = 0) -> float:
    """Area over mean retentions of H / H_0, 0 to 1, where the highest tokens keep least; the higher the better.

    As `soft_ns`.
    """
    changed = _changed(case, retentions)
    return _NAN if changed is None else changed


def _kept(case: Case, retentions: object, seed: int, of: Callable[[Vector, float], Vector]) -> list[tuple[float, ...]]:
    """The seed, and a share for each token; [] where nothing is removable."""
    means, removable = _means(retentions), case.removable
    if not removable.any():
        return []
    out = []
    for mean in (None, *means):
        kept = np.ones(len(case.scores))
        kept[removable] = 0.0 if mean is None else of(case.scores[removable], mean)
        out.append((float(seed), *(float(share) for share in kept)))
    return out


def _changed(case: Case, retentions: object) -> float | None:
    """Area of H / H_0 over retentions 0 to 1, at whose ends it is 1 and 0."""
    assert case.curve is not None
    means = _means(retentions)
    if len(case.curve) < 2:
        return None
    if len(case.curve) != 2 + len(means):
        expected = f"expected a curve of {2 + len(means)} points, two more than retentions"
        raise InputError(f"{expected}, got {len(case.curve)}")
    distances = 1 - np.exp(case.curve[1:])
    if np.isnan(distances).any() or distances[0] <= 0:
        return None
    values = np.array([1.0, *np.clip(distances[1:] / distances[0], 0, 1), 0.0])
    return float((np.diff([0.0, *means, 1.0]) * (values[1:] + values[:-1]) / 2).sum())


def _means(retentions: object) -> tuple[float, ...]:
    try:
        means = tuple(float(mean) for mean in retentions)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        means = ()
    if not means or not all(a < b for a, b in pairwise((0.0, *means, 1.0))):
        raise UnknownOption(f"retentions: expected rising shares between 0 and 1, at least one, got {retentions!r}")
    return means
