"""One explanation's own number, on models whose best order is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixlens.errors import UnknownOption
from mixlens.measure.faithfulness import Bounds, faithfulness
from mixlens.measure.perturb import removed

WEIGHTS = np.array([0.0, 0.05, 0.3, -0.1, 0.2, 0.01, 0.0])
REMOVABLE = np.array([False, True, True, True, True, True, False])


class Model:
    """The probability falls by each removed token's weight."""

    def __init__(self, weights: np.ndarray = WEIGHTS) -> None:
        self.weights, self.calls, self.asked = weights, 0, list[tuple[int, ...]]()

    def __call__(self, sets):
        self.calls += 1
        self.asked += sets
        return np.array([0.5 - self.weights[list(s)].sum() for s in sets])


def test_by_hand():
    model = Model()
    bounds = Bounds(model, REMOVABLE, levels=(0.2, 0.4), permutations=7, seed=1)
    assert bounds.order == bounds._put_back([1, 2, 3, 4, 5]) == (2, 4, 1, 5, 3)
    own = bounds.of(WEIGHTS)
    assert own.aopc == own.greedy == pytest.approx((0.3 + 0.5) / 2)
    assert own.value == pytest.approx(1)
    rng = np.random.default_rng(1)
    permuted = []
    for _ in range(7):
        first, second, *_ = rng.permutation(np.flatnonzero(REMOVABLE))
        permuted.append((WEIGHTS[first] + (WEIGHTS[first] + WEIGHTS[second])) / 2)
    assert own.permuted == pytest.approx(np.mean(permuted))
    assert own.p == (1 + sum(area > 0.3999 for area in permuted)) / 8
    worst = bounds.of(-WEIGHTS)
    assert worst.aopc == pytest.approx((-0.1 - 0.09) / 2)
    assert worst.value == pytest.approx((worst.aopc - own.permuted) / (own.greedy - own.permuted))
    assert worst.value < 0 and worst.p == 1


def test_many_tokens_are_taken_a_level_at_a_time():
    """The next level's tokens are chosen with those of the levels before gone, or put back."""
    count, rng = 40, np.random.default_rng(0)
    weights, both = rng.normal(size=count), rng.normal(size=(count, count)) / 3

    def probability(sets):
        gone = np.array([np.isin(np.arange(count), s) for s in sets], dtype=float).reshape(len(sets), count)
        return -(gone @ weights + np.einsum("si,ij,sj->s", gone, both, gone))

    bounds = Bounds(probability, np.ones(count, dtype=bool), permutations=1)
    gone: list[int] = []
    for end in range(4, count + 1, 4):
        left = [i for i in range(count) if i not in gone]
        gone += sorted(left, key=lambda i: probability([(*gone, i)])[0])[: end - len(gone)]
    assert list(bounds._taken(list(range(count)))) == gone
    kept: list[int] = []
    for _ in range(0, count, 4):
        left = [i for i in range(count) if i not in kept]
        kept += sorted(left, key=lambda i: probability([tuple(j for j in left if j != i)])[0])[:4]
    assert list(bounds._put_back(list(range(count)))) == kept[::-1]


def test_nothing_is_asked_twice():
    model = Model()
    bounds = Bounds(model, REMOVABLE)
    bounds.of(WEIGHTS)
    bounds.of(-WEIGHTS)
    assert len(model.asked) == len(set(model.asked))
    before = model.calls
    bounds.of(WEIGHTS)
    assert model.calls == before <= 13
    assert all(s == tuple(sorted(s)) for s in model.asked)
    assert {i for s in model.asked for i in s} == set(np.flatnonzero(REMOVABLE))


def test_chance_is_zero_on_average():
    bounds = Bounds(Model(), REMOVABLE, permutations=100)
    rng = np.random.default_rng(9)
    values = [bounds.of(rng.uniform(size=7)).value for _ in range(200)]
    assert abs(np.mean(values)) < 0.1


def test_undefined():
    for removable in (np.zeros(7, dtype=bool), np.arange(7) == 2):
        got = faithfulness(Model(), WEIGHTS, removable)
        assert math.isnan(got.value)
        assert math.isnan(got.aopc) == (not removable.any())
    constant = faithfulness(Model(np.zeros(7)), WEIGHTS, REMOVABLE)
    assert math.isnan(constant.value) and constant.aopc == 0 and constant.p == 1
    with pytest.raises(UnknownOption):
        faithfulness(Model(), WEIGHTS, REMOVABLE, permutations=0)
    with pytest.raises(UnknownOption):
        faithfulness(Model(), WEIGHTS, REMOVABLE, levels="some")


def test_greedy_looks_at_what_is_gone_already():
    """Alone 0, 1, 2 in this order; with 0 gone, 2 takes the rest away. What cannot be read comes last."""
    falls = {(): 0.0, (0,): 0.3, (1,): 0.2, (2,): 0.1, (0, 1): 0.4, (0, 2): 0.8, (1, 2): 0.3, (0, 1, 2): 0.8}

    def known(sets):
        return np.array([0.9 - falls[s] for s in sets])

    def unread(sets):
        return np.array([math.nan if s == (0,) else 0.9 - falls[s] for s in sets])

    assert Bounds(known, np.ones(3, dtype=bool)).order == (0, 2, 1)
    assert Bounds(unread, np.ones(3, dtype=bool))._taken([0, 1, 2]) == (1, 0, 2)


def test_the_search_from_the_other_end_finds_what_one_token_ahead_does_not():
    """Two tokens that say the same: neither matters until both are gone, so that taking away begins with a third."""
    keys, filler = {0, 1}, 2

    def said_twice(sets):
        return np.array([0.9 * (not keys <= set(s)) - 0.1 * (filler in s) for s in sets])

    bounds = Bounds(said_twice, np.ones(6, dtype=bool), levels=(2 / 6,))
    assert bounds._taken([*range(6)])[0] == filler
    assert set(bounds.order[:2]) == keys
    assert bounds.of(np.array([2.0, 1, 0, 0, 0, 0])).value == pytest.approx(1)


def test_the_best_of_the_methods_is_one_where_it_beats_the_search(monkeypatch):
    monkeypatch.setattr(Bounds, "_taken", lambda self, left: tuple(left))
    monkeypatch.setattr(Bounds, "_put_back", lambda self, left: tuple(left))
    bounds = Bounds(Model(), REMOVABLE)
    rated = bounds.rated({"good": WEIGHTS, "bad": -WEIGHTS})
    alone = bounds.of(-WEIGHTS)
    assert rated["good"].value == 1
    assert rated["good"].best == rated["bad"].best == rated["good"].aopc > rated["good"].greedy
    assert rated["bad"].aopc == alone.aopc
    assert alone.value < rated["bad"].value < 0  # less is lost of a longer way
    assert alone.best == max(alone.greedy, alone.aopc)


def test_nothing_left_to_read():
    def causal(sets):
        return np.array([math.nan if len(s) == 3 else 0.5 - 0.1 * sum(s) for s in sets])

    got = faithfulness(causal, np.array([1.0, 2.0, 3.0]), np.ones(3, dtype=bool))
    assert got.value == pytest.approx(1)
    counts = [len(s) for s in removed(np.array([1.0, 2.0, 3.0]), np.ones(3, dtype=bool))]
    falls = {0: 0.0, 1: 0.2, 2: 0.3}
    assert got.aopc == pytest.approx(np.mean([falls[c] for c in counts if c < 3]))


def test_long_texts_go_by_levels():
    weights = np.random.default_rng(0).normal(size=60) / 60
    model = Model(weights)
    bounds = Bounds(model, np.ones(60, dtype=bool))
    assert sorted(bounds.order) == list(range(60))
    assert bounds.of(weights).value == pytest.approx(1)
    assert len(model.asked) < 2 * 60 * 10 + 21 * 11


@settings(max_examples=25)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=8), st.integers(0, 3))
def test_of_an_additive_model_no_order_beats_the_greedy_one(weights, seed):
    weights = np.array(weights)
    bounds = Bounds(Model(weights), np.ones(len(weights), dtype=bool), permutations=3, seed=seed)
    scores = np.random.default_rng(seed).uniform(size=len(weights))
    assert bounds.of(scores).aopc <= bounds.greedy + 1e-9
    assert bounds.of(weights).aopc == pytest.approx(bounds.greedy)
