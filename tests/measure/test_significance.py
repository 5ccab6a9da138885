"""p values by hand, and their correction for many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mixlens.errors import UnknownOption
from mixlens.measure.significance import holm, interval_p, sign_flip, sign_floor

NAN = math.nan


def test_sign_flips_by_hand():
    """Of the eight sums +-1 +-2 +-3 two are as far from 0 as 6, four as far as 4 = 3 + 2 - 1, and all as far as 0."""
    columns = np.array([[1.0, -1.0, 1.0], [2.0, 2.0, 2.0], [3.0, 3.0, -3.0]])
    np.testing.assert_array_equal(sign_flip(columns), [2 / 8, 4 / 8, 1.0])


def test_a_text_without_a_number_is_left_out():
    columns = np.array([[1.0, NAN], [NAN, NAN], [2.0, NAN], [3.0, NAN]])
    p = sign_flip(columns)
    assert p[0] == 2 / 8 and math.isnan(p[1])
    assert math.isnan(sign_flip(np.full((30, 1), NAN))[0])


def test_few_texts_have_a_floor():
    for n in (1, 2, 5, 9):
        assert sign_flip(np.ones((n, 1)))[0] == sign_floor(n) == 2 / 2**n
    assert sign_floor(0) == 1.0


def test_many_texts_are_sampled():
    """As scipy's paired t test says, and never 0."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((200, 2)) + np.array([0.1, 2.0])
    p = sign_flip(values, samples=20_000)
    assert p[0] == pytest.approx(stats.ttest_1samp(values[:, 0], 0).pvalue, abs=0.01)
    assert p[1] == 1 / 20_001
    np.testing.assert_array_equal(p, sign_flip(values, samples=20_000))
    with pytest.raises(UnknownOption, match="samples: expected a whole number of at least 1, got 0"):
        sign_flip(values, samples=0)


def test_sampled_and_exact_agree():
    values = np.random.default_rng(1).standard_normal((16, 1)) + 0.4
    padded = np.concatenate([values, np.full((1, 1), NAN)])  # 17 rows: sampled
    assert sign_flip(padded)[0] == pytest.approx(sign_flip(values)[0], abs=0.005)


def test_p_of_an_interval_by_hand():
    """1.96 standard errors from 0 is 5 %; rounding takes the number nearer and the interval wider."""
    assert interval_p(1.0, 0.0, 2.0) == pytest.approx(0.05)
    assert interval_p(-1.0, -2.0, 0.0) == pytest.approx(0.05)
    assert interval_p(1.0, 0.0, 2.0, rounding=0.5) == pytest.approx(math.erfc(0.5 / (1.5 / 1.959964) / math.sqrt(2)))
    assert interval_p(0.001, 0.001, 0.001, rounding=0.0005) == pytest.approx(0.05)
    assert interval_p(0.0004, 0.0, 0.0, rounding=0.0005) == 1.0
    assert interval_p(1.0, 1.0, 1.0) == 0.0 and interval_p(0.0, 0.0, 0.0) == 1.0
    assert math.isnan(interval_p(1.0, NAN, NAN)) and math.isnan(interval_p(NAN, -1.0, 1.0))


def test_holm_by_hand():
    """0.01 x 4; 0.02 x 3 = 0.06; 0.03 x 2 = 0.06; 0.2 x 1. A smaller one never comes after a larger."""
    assert holm([0.03, 0.01, 0.2, 0.02]) == pytest.approx([0.06, 0.04, 0.2, 0.06])
    assert holm([0.01, 0.011]) == pytest.approx([0.02, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []
    found = holm([0.04, NAN])
    assert found[0] == 0.04 and math.isnan(found[1])
