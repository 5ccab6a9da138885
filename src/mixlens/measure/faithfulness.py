"""One explanation's own number: how much faster than chance its order takes the answer away; the best order found is 1.

    value = (AOPC of the order - mean AOPC of permuted orders) / (AOPC of the best order - mean AOPC of permuted orders)

so 0 is what chance reaches and 1 the best that is known: of two greedy searches, which take tokens away one after the
other, or put them back into nothing, and of the methods that are rated together. `probability` is given lists of
removed-index sets (ascending tuples) of one text and returns the explained class's probability for each, NaN where
nothing is left to read; it is asked in few large calls and never twice for the same set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from mixlens.errors import UnknownOption
from mixlens.measure.perturb import Levels, counts, removed

Sets = Sequence[tuple[int, ...]]
Probability = Callable[[Sets], np.ndarray]
_SINGLE = 32  # removable tokens: a greedy order of more goes by levels, not token by token (n^2 / 2 passes a search)
_NAN = float("nan")


@dataclass(frozen=True)
class Faithfulness:
    """`value` as above; `aopc` of the order; `permuted`: the mean of permuted orders; `greedy`: of the better search.

    `p`: share of orders, the own one and the permuted ones, with an AOPC of at least the own. `best`: the AOPC that is
    1 on the scale: the search's, or that of a method beside it where this is more. All NaN where no token is removable;
    `value` NaN where the best order gains nothing over chance (one removable token, a constant model).
    """

    value: float
    aopc: float
    permuted: float
    greedy: float
    p: float
    best: float = _NAN


class Bounds:
    """What chance and two greedy searches reach on one text: made once, then asked about any number of methods."""

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
        self._probabilities([s for removals in sets for s in removals])
        self.permuted = np.array([self._aopc(removals) for removals in sets])
        orders_found = [self._taken([int(i) for i in tokens]), self._put_back([int(i) for i in tokens])]
        reach = [self._aopc(self._sets(_scores(np.array(order, dtype=int), len(removable)))) for order in orders_found]
        self.order, self.greedy = orders_found[reach[1] > reach[0]], max(reach)

    def of(self, scores: Float[np.ndarray, " token"]) -> Faithfulness:
        """The number of one method's scores alone, `rated` beside no other."""
        return self.rated({"": scores})[""]

    def rated(self, methods: Mapping[str, Float[np.ndarray, " token"]]) -> dict[str, Faithfulness]:
        """The number of each method's scores: tokens are taken out from the highest down, ties in reading order.

        The best of these orders and the search's is 1 for all of them.
        """
        aopcs = {name: self._aopc(self._sets(scores)) for name, scores in methods.items()}
        mean, best = float(self.permuted.mean()), max([self.greedy, *(v for v in aopcs.values() if not np.isnan(v))])
        room, chance = best - mean, self.permuted
        out = {}
        for name, aopc in aopcs.items():
            value = (aopc - mean) / room if room > 1e-12 else _NAN
            p = _NAN if np.isnan(aopc) else (1 + int((chance >= aopc - 1e-12).sum())) / (1 + len(chance))
            out[name] = Faithfulness(value, aopc, mean, self.greedy, p, best)
        return out

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

    def _taken(self, left: list[int]) -> tuple[int, ...]:
        """Always the token without which the probability is lowest next; of many tokens, a level's worth at a time."""
        gone: list[int] = []
        for end in self._ends(len(left)):
            best = self._lowest(left, [tuple(sorted((*gone, i))) for i in left])[: end - len(gone)]
            gone += best
            left = [i for i in left if i not in best]
        return tuple(gone)

    def _put_back(self, gone: list[int]) -> tuple[int, ...]:
        """The other way: of nothing, always the token with which the probability stays lowest; it goes last."""
        kept: list[int] = []
        count = len(gone)
        for end in reversed([0, *self._ends(count)[:-1]]):
            best = self._lowest(gone, [tuple(i for i in gone if i != j) for j in gone])[: count - end - len(kept)]
            kept += best
            gone = [i for i in gone if i not in best]
        return tuple(reversed(kept))

    def _ends(self, count: int) -> list[int]:
        """How many tokens are gone after each step."""
        return list(range(1, count + 1)) if count <= _SINGLE else sorted({*counts(count), count} - {0})

    def _lowest(self, tokens: list[int], sets: Sets) -> list[int]:
        """The tokens in the order of their sets' probability, what cannot be read last."""
        probabilities = self._probabilities(sets)
        return [tokens[k] for k in np.argsort(np.where(np.isnan(probabilities), np.inf, probabilities), kind="stable")]


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
