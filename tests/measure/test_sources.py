"""Measures of a known source: perfect, at random, reversed; ties; units; each once more, literally."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, permutations
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixlens.errors import InputError, UnknownOption
from mixlens.measure import Case, measure
from mixlens.measure.answers import STEPS

NAMES = ("recovery", "mrr", "gold_mass")


def case(scores, gold, **more) -> Case:
    values = np.array(scores, dtype=np.float64)
    special = more.pop("special", np.zeros(len(values), dtype=bool))
    return Case(values, special, gold=np.array(gold, dtype=bool), **more)


def literal(name: str, order: list[int], gold: set[int]) -> float:
    """The measure of an order without ties."""
    if name == "mrr":
        return 1 / (1 + min(order.index(i) for i in gold))
    return len(gold & set(order[: ceil(0.1 * len(order) - 1e-9)])) / len(gold)


@pytest.mark.parametrize("name", ["recovery", "mrr"])
@given(scores=st.lists(st.integers(0, 2), min_size=2, max_size=5), data=st.data())
def test_ties_are_a_random_order_in_expectation(name, scores, data):
    n = len(scores)
    gold = data.draw(st.sets(st.integers(0, n - 1), min_size=1))
    orders = [list(o) for o in permutations(range(n)) if all(scores[a] >= scores[b] for a, b in pairwise(o))]
    expected = np.mean([literal(name, order, gold) for order in orders])
    assert measure(name)(case(scores, [i in gold for i in range(n)])) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_all_on_the_source_is_best_and_nothing_is_worst(name, data):
    n = data.draw(st.integers(10, 40))
    gold = np.zeros(n, dtype=bool)
    gold[data.draw(st.integers(0, n - 1))] = True
    noise = np.array(data.draw(st.lists(st.floats(0.01, 1), min_size=n, max_size=n)))
    best, own = measure(name)(case(gold * 1.0, gold)), measure(name)(case(noise, gold))
    worst = measure(name)(case(np.where(gold, -1.0, noise), gold))
    assert best == 1 >= own >= worst >= 0
    assert worst == (1 / n if name == "mrr" else 0)


def test_wrong_answers_have_no_source():
    for name in NAMES:
        asked = case([1, 2], [0, 1], wrong=True)
        assert np.isnan(measure(name)(asked)) and measure(name)(asked, wrong=True) > 0


def test_what_is_left_out_of_the_order():
    asked = case([9, 1, 5, 2], [0, 1, 0, 0], special=np.array([False, False, True, False]))
    assert measure("mrr")(asked) == 1 / 4
    assert measure("mrr")(asked, first=False) == 1 / 3
    assert measure("mrr")(asked, first=False, special=False) == 1 / 2


def test_units_are_ranked_by_their_sums():
    asked = case([3, 3, 4, 0, 9], [0, 0, 0, 1, 0], units=np.array([0, 0, 1, 1, -1]))
    assert measure("mrr")(asked, by="unit") == 1 / 2
    assert measure("recovery")(asked, by="unit", share=1.0) == 1
    for options, says in (({"by": "word"}, "by: expected token or unit"), ({"share": 0.0}, "share: expected a number")):
        with pytest.raises(UnknownOption, match=says):
            measure("recovery")(asked, **options)


# --- what is left of an answer ---


def mas(scores, curve):
    """Literally: the curve of RISE, the positive scores that are left, their distance put on top."""
    top, n = curve[0] - curve[-1], len(scores)
    line, least = [], 1.0
    for s in curve:
        least = min(least, max(0.0, min(1.0, (s - curve[-1]) / abs(top))))
        line.append(least)
    ranked = sorted(range(n), key=lambda i: -scores[i])
    positive = [max(0.0, scores[i]) for i in ranked]
    left = [1 - sum(positive[: ceil(k * n - 1e-9)]) / sum(positive) for k in (0, *STEPS)]
    line = [a + abs(a - b) for a, b in zip(line, left, strict=True)]
    line = [max(0.0, min(1.0, (a - line[-1]) / (line[0] - line[-1]))) for a in line]
    return sum((a + b) / 2 for a, b in pairwise(line)) / (len(line) - 1)


@given(data=st.data())
def test_mas(data):
    n = data.draw(st.integers(1, 30))
    scores = data.draw(st.lists(st.floats(0.01, 1), min_size=n, max_size=n))
    curve = sorted(data.draw(st.lists(st.floats(-9, -0.5), min_size=20, max_size=20)), reverse=True)
    curve = [curve[0] + 0.25, *curve]
    asked = Case(np.array(scores), np.zeros(n, dtype=bool), curve=np.array(curve))
    assert measure("mas")(asked) == pytest.approx(mas(scores, curve), abs=1e-9)
    assert 0 <= measure("rise")(asked) <= 1


def test_an_answer_that_goes_at_once_is_best():
    nothing = Case(np.arange(5.0), np.zeros(5, dtype=bool), curve=np.array([-1.0] + [-9.0] * 20))
    late = replace(nothing, curve=np.array([-1.0] * 20 + [-9.0]))
    assert measure("rise")(nothing) == pytest.approx(0.5 / 20) and measure("rise")(late) == pytest.approx(1 - 0.5 / 20)
    assert np.isnan(measure("rise")(replace(nothing, curve=np.array([-1.0] * 21))))


def test_scores_that_foretell_every_ablation():
    """The model's log-odds are the sum of the kept units' own: rho is 1, of the opposite -1."""
    rng = np.random.default_rng(0)
    own, units = rng.normal(size=12), np.repeat(np.arange(6), 2)
    asked = Case(own, np.zeros(12, dtype=bool), units=units)
    sets = measure("lds").removed(asked)
    odds = np.array([own.sum()] + [own.sum() - own[list(gone)].sum() for gone in sets])
    asked = replace(asked, curve=-np.log1p(np.exp(-odds)))
    assert len(sets) == 32 and sets == measure("lds").removed(replace(asked, scores=-own))
    assert all(
        (len(gone) % 2, units[list(gone)][::2].tolist()) == (0, units[list(gone)][1::2].tolist()) for gone in sets
    )
    assert measure("lds")(asked) == pytest.approx(1) and measure("lds")(replace(asked, scores=-own)) == pytest.approx(
        -1
    )
    assert abs(measure("lds")(replace(asked, scores=rng.normal(size=12)))) < 0.9
    with pytest.raises(InputError, match="expected a curve of 17 points"):
        measure("lds")(asked, ablations=16)


def test_the_top_units_go_whole():
    asked = Case(np.array([1.0, 1, 3, 0, 9]), np.array([0, 0, 0, 0, 1], dtype=bool), units=np.array([0, 0, 1, 2, 3]))
    assert measure("top_k_drop").removed(asked, k=1) == [(2,)]
    assert measure("top_k_drop").removed(asked, k=2) == [(0, 1, 2)]
    with pytest.raises(UnknownOption, match="k: expected a whole number from 1"):
        measure("top_k_drop").removed(asked, k=0)
