"""Which tokens go at which level, and what the curve's numbers are."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlens.errors import UnknownOption
from mixlens.measure import Case, measure
from mixlens.measure.perturb import attcat_counts, counts, order, removed

TEXT = Case(scores=np.array([9.0, 1.0, 3.0, 2.0, 3.0, 8.0]), special=np.array([True, *[False] * 4, True]))


def test_order_is_stable():
    assert order(np.array([1.0, 3.0, 2.0, 3.0])).tolist() == [1, 3, 2, 0]


@given(st.integers(0, 500))
def test_tenths_are_rounded_up(n):
    assert counts(n) == tuple(math.ceil(Fraction(k * n, 10)) for k in range(11))


def test_removed_by_hand():
    assert removed(TEXT.scores, TEXT.removable, (0, 0.25, 0.5, 0.51, 1)) == [(), (2,), (2, 4), (2, 3, 4), (1, 2, 3, 4)]
    kept = removed(TEXT.scores, TEXT.removable, (0, 0.25, 1), kept=True)
    assert kept == [(1, 2, 3, 4), (1, 3, 4), ()]
    assert len(measure("aopc").removed(TEXT)) == 11
    assert measure("sufficiency").removed(TEXT, levels=(0.25,)) == [(1, 3, 4)]
    assert len(measure("comprehensiveness").removed(TEXT)) == 5


def test_what_is_asked_about_stays():
    keep = np.zeros(6, dtype=bool)
    keep[2] = True
    given = Case(scores=TEXT.scores, special=TEXT.special, keep=keep)
    assert measure("aopc").removed(given, levels=(1,)) == [(1, 3, 4)]


def test_attcat_levels():
    """By hand: 6/9 of the way in sixths; half to even; the walk passes special tokens and stops before the last one."""
    assert attcat_counts(6) == (1, 2, 3, 4, 5, 6)
    assert attcat_counts(10) == (1, 2, 3, 4, 6, 7, 8, 9, 10)
    assert len(attcat_counts(128)) == 9
    assert removed(TEXT.scores, TEXT.removable, "attcat-code") == [
        (2,),
        (2, 4),
        *[(2, 3, 4)] * 4,
    ]  # token 1 is the last


def test_texts_that_are_too_short():
    assert measure("aopc").removed(TEXT, levels=(1,), shortest=7) == []
    assert measure("aopc").removed(TEXT, levels=(1,), shortest=6) == [(1, 2, 3, 4)]


@pytest.mark.parametrize("levels", ["fifths", (), (0.5, 1.1), (-0.1,)])
def test_levels_that_are_none(levels):
    with pytest.raises(UnknownOption, match="levels"):
        measure("aopc").removed(TEXT, levels=levels)


def curve(*probabilities: float) -> Case:
    return Case(scores=TEXT.scores, special=TEXT.special, curve=np.log(np.array(probabilities)))


def test_numbers_by_hand():
    given = curve(0.8, 0.8, 0.4, 1.0)
    drops = (0, 0.4, -0.2)
    for name in ("aopc", "comprehensiveness", "sufficiency"):
        assert measure(name)(given) == pytest.approx(sum(drops) / 3)
    assert measure("aopc")(given, absolute=True) == pytest.approx(0.6 / 3)
    assert measure("log_odds")(given) == pytest.approx((math.log(0.5) + math.log(1 / 0.8)) / 3)


def test_log_odds_reaches_beyond_the_smallest_probability():
    """What log-softmax is for: exp(-2000) is 0, its logarithm is not."""
    given = Case(scores=TEXT.scores, special=TEXT.special, curve=np.array([-1.0, -2000.0]))
    assert measure("log_odds")(given) == -1999


def test_levels_with_nothing_left_to_read_are_left_out():
    assert measure("aopc")(curve(0.8, 0.6, math.nan)) == pytest.approx(0.2)
    assert math.isnan(measure("aopc")(curve(0.8, math.nan)))
    assert math.isnan(measure("log_odds")(curve(0.8)))


@given(st.permutations(range(6)), st.integers(0, 3))
def test_every_level_holds_the_one_before(ranks, specials):
    special = np.arange(6) < specials
    sets = removed(np.array(ranks, dtype=np.float64), ~special)
    assert all(set(a) <= set(b) for a, b in pairwise(sets))
    assert sets[0] == () and set(sets[-1]) == set(range(specials, 6))
    lowest = removed(-np.array(ranks, dtype=np.float64), ~special, kept=True)
    highest = removed(np.array(ranks, dtype=np.float64), ~special)
    assert [len(s) for s in lowest] == [6 - specials - len(s) for s in highest]
