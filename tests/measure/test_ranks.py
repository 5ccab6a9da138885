"""Correlations and special-token ranks against scipy, numpy and numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mixlens.errors import UnknownOption
from mixlens.measure import Case, measure, ranks
from mixlens.measure.ranks import correlation, rank_correlation, tau_b

vectors = st.integers(2, 12).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-4, 4), min_size=n, max_size=n) for _ in range(2)])
)


def array(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_rounding_does_not_lead_out_of_the_range():
    """A vector and three times itself: without care, 1.0000000000000002."""
    rng = np.random.default_rng(0)
    vectors = [rng.normal(size=n) for n in range(2, 60)]
    assert all(abs(correlation(v, sign * 3 * v)) <= 1 for v in vectors for sign in (1, -1))


def test_by_hand():
    a, b = array([1, 2, 3, 4]), array([1, 3, 2, 4])
    assert rank_correlation(a, b) == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert tau_b(a, b) == pytest.approx(4 / 6)  # five pairs agree, one does not
    assert correlation(array([0, 1, 2]), array([0, 1, 5])) == pytest.approx(5 / math.sqrt(2 * 14))
    tied = array([1, 1, 2])  # ranks 1.5, 1.5, 3 against 1, 2, 3
    assert rank_correlation(tied, array([1, 2, 3])) == pytest.approx(1.5 / math.sqrt(1.5 * 2))
    assert tau_b(tied, array([1, 2, 3])) == pytest.approx(2 / math.sqrt(2 * 3))


def literal_tau_b(a: np.ndarray, b: np.ndarray) -> float:
    pairs = [(i, j) for i in range(len(a)) for j in range(i)]
    signs = [(np.sign(a[i] - a[j]), np.sign(b[i] - b[j])) for i, j in pairs]
    return sum(s * t for s, t in signs) / math.sqrt(sum(s != 0 for s, _ in signs) * sum(t != 0 for _, t in signs))


@given(vectors)
def test_against_scipy_and_the_formula(pair):
    a, b = map(array, pair)
    got = correlation(a, b), rank_correlation(a, b), tau_b(a, b)
    if len(set(pair[0])) == 1 or len(set(pair[1])) == 1:
        assert all(map(math.isnan, got))
        return
    assert got[0] == pytest.approx(np.corrcoef(a, b)[0, 1], abs=1e-12)
    assert got[1] == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)
    assert got[2] == pytest.approx(literal_tau_b(a, b), abs=1e-12)


def test_long_texts_go_through_scipy_and_agree(monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.integers(9, size=(2, 60)).astype(np.float64)
    short = tau_b(a, b)
    monkeypatch.setattr(ranks, "_FEW", 50)
    assert tau_b(a, b) == pytest.approx(short, abs=1e-12) == pytest.approx(literal_tau_b(a, b), abs=1e-12)


@given(vectors)
def test_laws(pair):
    a, b = map(array, pair)
    for function in (correlation, rank_correlation, tau_b):
        value = function(a, b)
        if not math.isnan(value):
            assert -1 <= value <= 1
            assert function(b, a) == pytest.approx(value, abs=1e-12)
            assert function(-a, b) == pytest.approx(-value, abs=1e-12)
            assert function(a, a) == pytest.approx(1)
    grown = a**3  # any rising function leaves ranks alone
    assert rank_correlation(grown, b) == pytest.approx(rank_correlation(a, b), nan_ok=True)


def test_extreme_numbers_do_not_overflow():
    a = array([1e300, -1e300, 5e299])
    assert correlation(a, a) == pytest.approx(1)
    assert correlation(a * 1e-320, -a) == pytest.approx(-1)


def case(**more: object) -> Case:
    return Case(
        scores=array([9, 1, 2, 3, 8]),
        special=np.array([True, False, False, False, True]),
        reference=array([5, 3, 2, 1, 4]),
        second=array([9, 1, 2, 3, 8]),
        **more,
    )


def test_special_tokens_can_be_left_out():
    for name in ("spearman", "kendall_tau", "pearson"):
        assert measure(name)(case(), special=False) == pytest.approx(-1)
        assert measure(name)(case()) > -1
    assert measure("consistency")(case()) == pytest.approx(1)


def test_special_rank():
    pieces = ("[CLS]", "Ġ,", "film", "▁.", "[SEP]")
    rank = measure("special_rank")
    expected = {"cls": 1.0, "sep": 4 / 5, "special": 4.5 / 5, "comma": 1 / 5, "full_stop": 3 / 5, "film": 2 / 5}
    for of, value in expected.items():
        assert rank(case(pieces=pieces), of=of) == pytest.approx(value)
    assert math.isnan(rank(case(pieces=pieces), of="absent"))
    with pytest.raises(UnknownOption):
        rank(case(pieces=pieces), of="")


def test_special_rank_of_ties_is_their_average():
    tied = Case(scores=array([2, 2, 1]), special=np.array([True, False, False]))
    assert measure("special_rank")(tied, of="cls") == pytest.approx(2.5 / 3)


def test_a_first_token_that_is_no_special_one_is_no_cls():
    causal = Case(scores=array([3, 2, 1]), special=np.array([False, False, True]))
    assert math.isnan(measure("special_rank")(causal, of="cls"))
    assert measure("special_rank")(causal, of="sep") == pytest.approx(1 / 3)
