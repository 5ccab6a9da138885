"""Retentions brought to a mean, and areas of what they leave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlens.errors import InputError, UnknownOption
from mixlens.measure import Case, measure
from mixlens.measure.soft import RETENTIONS, brought_to

SCORES = st.lists(st.floats(-5, 5), min_size=1, max_size=12)


@given(scores=SCORES, mean=st.floats(0.01, 0.99))
def test_retentions_have_the_mean_and_the_order_of_the_scores(scores, mean):
    scores = np.array(scores)
    kept = brought_to(scores, mean)
    assert kept.mean() == pytest.approx(mean, abs=1e-9) and kept.min() >= 0 and kept.max() <= 1
    order = np.argsort(np.maximum(scores, 0), kind="stable")
    assert (np.diff(kept[order]) >= -1e-9).all()


def test_retentions_by_hand():
    np.testing.assert_allclose(brought_to(np.array([1.0, 2, 3, 4]), 0.25), [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(brought_to(np.array([1.0, 1, 8]), 0.5), [0.25, 0.25, 1.0])  # the highest is full
    np.testing.assert_allclose(brought_to(np.array([-3.0, 0, 5, 0]), 0.5), [1 / 3, 1 / 3, 1, 1 / 3])
    np.testing.assert_allclose(brought_to(np.array([0.0, -1]), 0.3), [0.3, 0.3])


def test_what_is_special_stays_and_both_ways_keep_as_much():
    asked = Case(np.array([9.0, 1, 3, 0]), np.array([True, False, False, False]))
    for name in ("soft_ns", "soft_nc"):
        kept = np.array(measure(name).removed(asked, seed=7))
        assert kept.shape == (1 + len(RETENTIONS), 5) and (kept[:, 0] == 7).all() and (kept[:, 1] == 1).all()
        np.testing.assert_allclose(kept[:, 2:].mean(1), [0, *RETENTIONS], atol=1e-12)
    more, less = (np.array(measure(name).removed(asked))[1:, 2:] for name in ("soft_ns", "soft_nc"))
    assert (more[:, 1] >= more[:, 0]).all() and (less[:, 1] <= less[:, 0]).all()


def test_levels_need_not_be_even():
    asked = Case(np.arange(4.0), np.zeros(4, dtype=bool), curve=np.log([0.9, 0.8, 0.2, 0.4]))
    expected = (0.25 * 0.6 + 0.5 * 0.3) / 0.75  # shares 0, 1/4, 3/4 with .8, .4, .2
    assert measure("disrupt")(asked, levels=[0.0, 0.75, 0.25]) == pytest.approx(expected)
    assert measure("recover")(asked, levels=[0.5, 0.5, 0.5]) == pytest.approx(1.4 / 3)
    with pytest.raises(InputError, match="expected a curve of 3 points"):
        measure("disrupt")(asked, levels=[0.1, 0.2])


@pytest.mark.parametrize("retentions", [(), (0.5, 0.2), (0.0, 0.5), (1.0,), (0.5, 0.5)])
def test_what_are_no_retentions(retentions):
    asked = Case(np.arange(3.0), np.zeros(3, dtype=bool), curve=np.zeros(3))
    for call in (measure("soft_ns"), measure("soft_nc").removed):
        with pytest.raises(UnknownOption, match="retentions: expected rising shares between 0 and 1"):
            call(asked, retentions=retentions)


def test_an_output_that_does_not_move_says_nothing():
    asked = Case(np.arange(3.0), np.zeros(3, dtype=bool), curve=np.zeros(7))
    assert np.isnan(measure("soft_ns")(asked)) and np.isnan(measure("soft_nc")(asked))
    with pytest.raises(InputError, match="expected a curve of 3 points, two more than retentions, got 7"):
        measure("soft_nc")(asked, retentions=(0.5,))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("aopc", {"replace": "soft"}, "aopc: expected replace='delete' or another word, got 'soft'"),
        ("soft_ns", {"replace": "zero"}, "soft_ns: expected replace='soft', got 'zero'"),
        ("disrupt", {"mask_pad": True}, "disrupt: mask_pad=True needs replace='pad', got 'zero'"),
    ],
)
def test_what_takes_no_place(name, options, says):
    with pytest.raises(UnknownOption, match=says):
        measure(name).checked(options)
