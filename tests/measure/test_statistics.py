"""Intervals, comparisons, permutation tests and rankings."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mixlens.errors import InputError, Undefined, UnknownOption
from mixlens.measure import statistics as s

NAN = math.nan


def normal(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n)


def test_summary_by_hand():
    got = s.summarise(np.array([1.0, NAN, 3.0, 5.0]))
    assert (got.n, got.n_undefined, got.mean) == (3, 1, 3)
    assert got.std == pytest.approx(math.sqrt(8 / 3))  # the population's
    assert 1 <= got.low <= 3 <= got.high <= 5
    nothing = s.summarise(np.array([NAN, NAN]))
    assert (nothing.n, nothing.n_undefined) == (0, 2) and math.isnan(nothing.mean) and math.isnan(nothing.low)
    assert s.summarise(np.empty(0)).n == 0
    one = s.summarise(np.array([0.1]))
    assert one.low == one.mean == one.high == 0.1 and one.std == 0


@given(st.floats(-1e6, 1e6), st.integers(1, 30))
def test_equal_values_have_no_width(value, n):
    got = s.summarise(np.full(n, value), resamples=20)
    assert got.low == got.high == value


def test_interval_is_a_percentile_bootstrap():
    values = normal(60)
    got = s.summarise(values, level=0.9, resamples=4000)
    rng = np.random.default_rng(5)
    means = [values[rng.integers(60, size=60)].mean() for _ in range(4000)]
    assert (got.low, got.high) == pytest.approx(tuple(np.quantile(means, (0.05, 0.95))), abs=0.02)
    wider = s.summarise(values, level=0.99, resamples=4000)
    assert wider.low < got.low < got.high < wider.high
    assert s.summarise(values) == s.summarise(values) != s.summarise(values, seed=1)


def test_intervals_cover():
    hits = 0
    for seed in range(200):
        got = s.summarise(normal(40, seed), resamples=200)
        hits += got.low <= 0 <= got.high
    assert 0.87 <= hits / 200 <= 0.99


def test_many_values_are_drawn_in_blocks(monkeypatch):
    monkeypatch.setattr(s, "_CACHED", 100)
    blocks = list(s.weights(30, 10))
    assert [len(block) for block in blocks] == [3, 3, 3, 1]
    assert all((block.sum(1) == 30).all() for block in blocks)
    got = s.summarise(normal(30))
    assert got.low < got.mean < got.high


def test_resampled_means_are_the_summary():
    values = normal(25)
    got = s.resampled(lambda w: float(w @ values / w.sum()), 25)
    whole = s.summarise(values)
    assert got == pytest.approx((whole.low, whole.high))
    assert all(map(math.isnan, s.resampled(lambda w: NAN, 3))) and all(map(math.isnan, s.resampled(lambda w: 1.0, 0)))


@pytest.mark.parametrize("how", [{"level": 0}, {"level": 1}, {"level": 95}, {"resamples": 0}])
def test_options_that_mean_nothing(how):
    with pytest.raises(UnknownOption):
        s.summarise(normal(3), **how)
    with pytest.raises(UnknownOption):
        s.paired(normal(3), normal(3), **how)


def test_paired():
    a = normal(100)
    better = s.paired(a + 0.1 + 0.1 * normal(100, 1), a)
    assert better.n == 100 and 0 < better.low < better.difference < better.high and better.p == 2 / 1001
    turned = s.paired(a, a + 0.1 + 0.1 * normal(100, 1))
    assert turned.difference == pytest.approx(-better.difference) and turned.p == better.p
    assert turned.low == pytest.approx(-better.high)
    same = s.paired(a, a)
    assert same == s.Paired(100, 0, 0, 0, 1)
    assert s.paired(normal(50, 2), normal(50, 3)).p > 0.05
    gaps = s.paired(np.array([1.0, NAN, 3.0]), np.array([0.0, 1.0, NAN]))
    assert gaps.n == 1 and gaps.difference == 1
    assert s.paired(np.array([NAN]), np.array([1.0])).n == 0
    with pytest.raises(InputError, match="same texts"):
        s.paired(a, a[1:])


@pytest.mark.parametrize("statistic", ["pearson", "spearman"])
@pytest.mark.parametrize("n", [2, 3, 5, 6])
def test_permutation_against_every_order(statistic, n):
    x, y = normal(n), normal(n, 1)
    y[0] = y[-1]
    correlate = {"pearson": stats.pearsonr, "spearman": stats.spearmanr}[statistic]
    if n == 2:
        assert math.isnan(s.permutation(x, y, statistic=statistic).value)
        return
    got = s.permutation(x, y, statistic=statistic)
    own = correlate(x, y).statistic
    reached = [abs(correlate(x, p).statistic) >= abs(own) - 1e-12 for p in map(np.array, permutations(y))]
    assert got.exact and got.n == n
    assert got.value == pytest.approx(own)
    assert got.p == pytest.approx(np.mean(reached))


def test_six_layers_can_say_no_more_than_this():
    assert s.permutation(np.arange(6.0), np.arange(6.0), statistic="spearman").p == pytest.approx(2 / 720)


def test_more_values_are_sampled():
    x = np.arange(12.0)
    strong = s.permutation(x, x**2, samples=2000)
    assert not strong.exact and strong.p == pytest.approx(1 / 2001)
    weak = s.permutation(normal(12), normal(12, 1), samples=20_000)
    assert weak.p == pytest.approx(stats.pearsonr(normal(12), normal(12, 1)).pvalue, abs=0.03)
    assert weak == s.permutation(normal(12), normal(12, 1), samples=20_000)


def test_permutation_of_odd_series():
    assert math.isnan(s.permutation(np.ones(4), np.arange(4.0)).p)
    assert s.permutation(np.array([1.0, 2.0, NAN, 4.0]), np.array([1.0, 2.0, 3.0, NAN])).n == 2
    with pytest.raises(UnknownOption):
        s.permutation(np.ones(2), np.ones(2), statistic="kendall")
    with pytest.raises(InputError):
        s.permutation(np.ones(2), np.ones(3))


def test_ranking():
    base = normal(80)
    values = {"low": base, "high": base + 1, "twin": base + 1 + 1e-3 * normal(80, 2), "gone": np.full(80, NAN)}
    got = s.ranking(values, True)
    assert set(got.names[:2]) == {"high", "twin"} and got.names[2:] == ("low", "gone")
    assert set(got.groups[0]) == {"high", "twin"} and got.groups[1] == ("low", "gone")
    assert got.pairs[got.names[0], "low"].p == 2 / 1001
    assert s.ranking(values, False).names[0] == "low"
    assert s.ranking({}, True).names == () and s.ranking({"a": base}, True).groups == (("a",),)
    with pytest.raises(Undefined, match="no direction"):
        s.ranking(values, None)
    with pytest.raises(UnknownOption):
        s.ranking(values, True, correction="bonferroni")


def test_groups_may_overlap():
    apart = {("a", "c"), ("a", "d"), ("b", "d")}
    assert list(s._runs(list("abcd"), apart)) == [("a", "b"), ("b", "c"), ("c", "d")]
    assert list(s._runs(list("abcd"), set())) == [tuple("abcd")]
    assert list(s._runs(list("ab"), {("a", "b")})) == [("a",), ("b",)]


def test_holm_is_stricter_and_says_what_it_needs():
    base = normal(60)
    values = {"a": base, "b": base + 0.05 * normal(60, 1) + 0.02, "c": base + 0.05 * normal(60, 4)}
    plain, held = s.ranking(values, True), s.ranking(values, True, correction="holm")
    assert min(pair.p for pair in plain.pairs.values()) <= 0.05
    assert len(held.groups[0]) >= len(plain.groups[0])
    rng = np.random.default_rng(1)
    base = rng.normal(size=60)
    shifted = {name: base + 0.05 * rng.normal(size=60) + by for name, by in (("b", 0.013), ("c", -0.0005))}
    near = {"a": base, **shifted}  # one pair of three at p = 0.04: by itself told apart, of three not
    assert s.ranking(near, True).groups == (("b", "a"), ("a", "c"))
    assert s.ranking(near, True, correction="holm").groups == (("b", "a", "c"),)
    with pytest.raises(Undefined, match="resamples=120"):
        s.ranking(values, True, correction="holm", resamples=100)


def test_few_texts_tell_nothing_apart():
    """One text that is better does not make a method better, whatever a bootstrap of it says."""
    for n, floor in ((1, 1.0), (2, 0.5), (5, 0.0625)):
        assert s.paired(np.ones(n), np.zeros(n)).p == floor
    assert s.paired(np.ones(12), np.zeros(12)).p == pytest.approx(2 / 1001)


def test_a_ranking_tells_nothing_apart_that_the_same_texts_order_otherwise():
    """By all its texts a is better; on those that both are defined for, b is."""
    a = np.array([1.0] * 8 + [0.0] * 8)
    b = np.concatenate([np.full(8, np.nan), 0.1 + 0.01 * np.arange(8)])
    got = s.ranking({"a": a, "b": b}, True)
    assert got.names == ("a", "b") and got.groups == (("a", "b"),)
    assert got.pairs["a", "b"].p < 0.05
