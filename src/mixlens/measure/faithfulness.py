"""One explanation's own number: how much faster than chance its order takes the answer away, a greedy order being 1.

    value = (AOPC of the order - mean AOPC of permuted orders) / (AOPC of a greedy order - mean AOPC of permuted orders)

so 0 is what chance reaches and 1 what looking for the best token at every step reaches. A value above 1 can happen: a
greedy order need not be the best. `probability` is given lists of removed-index sets (ascending tuples) of one text
and returns the explained class's probability for each, NaN where nothing is left to read; it is asked in few large
calls and never twice for the same set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from mixlens.errors import UnknownOption
from mixlens.measure.perturb import Levels, counts, removed

Sets = Sequence[tuple[int, ...]]
Probability = Callable[[Sets], np.ndarray]
_SINGLE = 32  # removable tokens: a greedy order of more goes by levels, not token by token (n^2 / 2 passes)
_NAN = float("nan")


@dataclass(frozen=True)
class Faithfulness:
    """`value` as above; `aopc` of the order; `permuted`: the mean of permuted orders; `greedy`: of the greedy order.

    `p`: share of orders, the own one and the permuted ones, with an AOPC of at least the own. All NaN where no token is
    removable; `value` NaN where the greedy order gains nothing over chance (one removable token, a constant model).
    """

    value: float
    aopc: float
    permuted: float
    greedy: float
    p: float


class Bounds:
    """What chance and a greedy search reach on one text: made once, then asked about any number of methods."""

    def __init__(
        self,
        probability: Probability,
        removable: Bool[np.ndarray, " token"],
        *,
        levels: Levels = "tenths",
        permutations: int = 20,
        seed: int = 0,
    ) -> None:
        """Asks for the permuted and the greedy orders. Raises UnknownOption."""
        if permutations < 1:
            raise UnknownOption(f"permutations: expected at least 1, got {permutations}")
        self._ask, self._known = probability, dict[tuple[int, ...], float]()
        self.removable, self.levels = removable, levels
        tokens = np.flatnonzero(removable)
        rng = np.random.default_rng(seed)
        orders = [_scores(rng.permutation(tokens), len(removable)) for _ in range(permutations)]
        sets = [self._sets(scores) for scores in orders]
        self._probabilities([s for some in sets for s in some])
        self.permuted = np.array([self._aopc(some) for some in sets])
        self.order = self._greedy([int(i) for i in tokens])
        self.greedy = self._aopc(self._sets(_scores(np.array(self.order, dtype=int), len(removable))))

    def of(self, scores: Float[np.ndarray, " token"]) -> Faithfulness:
        """The number of one method's scores: tokens are taken out from the highest down, ties in reading order."""
        own, mean = self._aopc(self._sets(scores)), float(self.permuted.mean())
        room = self.greedy - mean
        value = (own - mean) / room if room > 1e-12 else _NAN
        p = _NAN if np.isnan(own) else (1 + int((self.permuted >= own - 1e-12).sum())) / (1 + len(self.permuted))
        return Faithfulness(value, own, mean, self.greedy, p)

    def _sets(self, scores: Float[np.ndarray, " token"]) -> list[tuple[int, ...]]:
        return removed(scores, self.removable, self.levels)

    def _probabilities(self, sets: Sets) -> Float[np.ndarray, " set"]:
        new = [s for s in dict.fromkeys([(), *sets]) if s not in self._known]
        if new:
            self._known.update(zip(new, map(float, self._ask(new)), strict=True))
        return np.array([self._known[s] for s in sets], dtype=np.float64)

    def _aopc(self, sets: Sets) -> float:
        if not sets:
            return _NAN
        without = self._probabilities(sets)
        drop = self._known[()] - without
        drop = drop[~np.isnan(drop)]
        return float(drop.mean()) if len(drop) else _NAN

    def _greedy(self, left: list[int]) -> tuple[int, ...]:
        """Always the token without which the probability is lowest next; of many tokens, a level's worth at a time."""
        ends = range(1, len(left) + 1) if len(left) <= _SINGLE else sorted({*counts(len(left)), len(left)} - {0})
        gone: list[int] = []
        for end in ends:
            found = self._probabilities([tuple(sorted((*gone, i))) for i in left])
            ranked = np.argsort(np.where(np.isnan(found), np.inf, found), kind="stable")
            best = [left[k] for k in ranked[: end - len(gone)]]
            gone += best
            left = [i for i in left if i not in best]
        return tuple(gone)


def _scores(order: np.ndarray, tokens: int) -> Float[np.ndarray, " token"]:
    """Scores that put tokens in this order."""
    scores = np.zeros(tokens)
    scores[order] = np.arange(len(order), 0, -1)
    return scores


def faithfulness(
    probability: Probability,
    scores: Float[np.ndarray, " token"],
    removable: Bool[np.ndarray, " token"],
    *,
    levels: Levels = "tenths",
    permutations: int = 20,
    seed: int = 0,
) -> Faithfulness:
    """The number of one method alone; for several methods on one text, `Bounds(...).of(scores)` asks less often."""
    return Bounds(probability, removable, levels=levels, permutations=permutations, seed=seed).of(scores)
