"""Cue alignment and plausibility against scikit-learn and numbers worked out by hand; two classes' explanations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, f1_score, jaccard_score, precision_recall_curve

from mixlens.errors import Undefined, UnknownOption
from mixlens.measure import Case, measure
from mixlens.measure.confidence import need_classes
from mixlens.measure.cue import average_precision, sharing

scored = st.integers(1, 10).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-3, 3), min_size=n, max_size=n), st.lists(st.booleans(), min_size=n, max_size=n)
    )
)


def array(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def case(scores: list[float], marked: list[int], special: list[int] | None = None) -> Case:
    mask = np.array(marked, dtype=bool)
    hidden = np.zeros(len(mask), dtype=bool) if special is None else np.array(special, dtype=bool)
    return Case(array(scores), hidden, cue=mask, rationale=mask.astype(np.float64), answer=mask)


# ---- the cue


def test_cue_by_hand():
    given = case([-4, 1, 3, 2], [0, 0, 1, 1])
    assert measure("cue_dot")(given) == pytest.approx(5 / 10)
    assert measure("cue_dot")(given, signed="relu") == pytest.approx(5 / 6)
    assert measure("cue_dot")(given, signed="minmax") == pytest.approx(13 / 18)
    assert measure("cue_ap")(given) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert measure("cue_ap")(given, signed="relu") == pytest.approx(1)
    assert measure("probes_needed")(given) == 1
    assert measure("probes_needed")(case([5, 1, 4, 3, 2], [0, 1, 1, 0, 0])) == 3
    assert measure("probes_needed")(case([5, 1, 4, 3, 2], [0, 1, 1, 0, 0]), until="first") == 1
    hidden = case([9, 1, 3, 9], [0, 0, 1, 0], [1, 0, 0, 1])
    assert measure("cue_dot")(hidden, special=False) == pytest.approx(3 / 4)
    assert measure("probes_needed")(hidden, special=False) == 0 < measure("probes_needed")(hidden)


@pytest.mark.parametrize("name", ["cue_dot", "cue_ap", "probes_needed"])
def test_cue_options(name):
    with pytest.raises(UnknownOption, match="signed"):
        measure(name)(case([1, 2], [0, 1]), signed="square")
    if name == "probes_needed":
        with pytest.raises(UnknownOption, match="until"):
            measure(name)(case([1, 2], [0, 1]), until="second")


@given(scored)
def test_average_precision_is_scikit_learns(pair):
    scores, wanted = array(pair[0]), np.array(pair[1])
    if not wanted.any():
        assert math.isnan(average_precision(scores, wanted))
    else:
        assert average_precision(scores, wanted) == pytest.approx(average_precision_score(wanted, scores), abs=1e-12)


@given(scored, st.sampled_from(["abs", "relu", "minmax"]))
def test_shares_sum_to_one(pair, signed):
    shares = sharing(array(pair[0]), signed)
    assert np.isnan(shares).all() or (shares.min() >= 0 and shares.sum() == pytest.approx(1))


@given(scored)
def test_the_last_cue_needs_at_least_the_probes_of_the_first(pair):
    assume(any(pair[0]) and any(pair[1]))
    probes, given = measure("probes_needed"), case(*pair)
    others = len(pair[1]) - sum(pair[1])
    assert 0 <= probes(given, until="first") <= probes(given) <= others
    # one by one, from the definition
    ranked = sorted(range(len(pair[0])), key=lambda i: (-abs(pair[0][i]), i))
    last = max(k for k, i in enumerate(ranked) if pair[1][i])
    assert probes(given) == sum(not pair[1][i] for i in ranked[:last])


# ---- rationales and answers


def test_precision_at_k_by_hand():
    given = case([5, -6, 3, 2, 1], [1, 1, 0, 0, 1])
    assert measure("precision_at_k")(given, k=2) == 1
    assert measure("precision_at_k")(given, k=2, absolute=True) == 2
    assert measure("precision_at_k")(given, k=2, fraction=True) == 0.5
    assert measure("precision_at_k")(given) == 3
    assert measure("precision_at_k")(given, fraction=True) == 3 / 20
    with pytest.raises(UnknownOption, match="k"):
        measure("precision_at_k")(given, k=0)


def test_plausibility_by_hand():
    given = case([9, 5, 4, 3, 9], [0, 1, 0, 1, 0], [1, 0, 0, 0, 1])
    assert measure("token_f1")(given) == 0.5  # 1, 2 against 1, 3
    assert measure("iou")(given) == pytest.approx(1 / 3)
    assert measure("token_f1")(given, top=1) == pytest.approx(2 / 3)
    assert measure("iou")(given, top=1) == 0.5
    assert measure("token_f1")(given, top=0.5) == pytest.approx(2 / 4)
    assert measure("token_f1")(given, special=True) == 0
    precision, recall = (1, 1, 1 / 2, 2 / 3), (0, 0.5, 0.5, 1)
    area = sum((recall[k + 1] - recall[k]) * (precision[k + 1] + precision[k]) / 2 for k in range(3))
    assert measure("auprc")(given) == pytest.approx(area)


def test_shares_of_annotators():
    given = Case(array([3, 2, 1]), np.zeros(3, dtype=bool), rationale=array([1 / 3, 1 / 2, 1]))
    assert measure("token_f1")(given, top=1) == 0
    assert measure("token_f1")(given, top=1, threshold=0.3) == 0.5
    assert measure("token_f1")(given) == 0.5  # two tokens are marked by half of them at least
    assert measure("token_f1")(given, threshold=0.6) == 0
    for threshold in (0, 1.5):
        with pytest.raises(UnknownOption, match="threshold"):
            measure("iou")(given, threshold=threshold)
    for top in (0, 1.5, -1):
        with pytest.raises(UnknownOption, match="top"):
            measure("iou")(given, top=top)


@given(scored, st.integers(1, 10))
def test_plausibility_is_scikit_learns(pair, top):
    scores, wanted = array(pair[0]), np.array(pair[1])
    assume(wanted.any())
    marked = np.zeros(len(scores), dtype=bool)
    marked[sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:top]] = True
    given = case(*pair)
    assert measure("token_f1")(given, top=top) == pytest.approx(f1_score(wanted, marked), abs=1e-12)
    assert measure("iou")(given, top=top) == pytest.approx(jaccard_score(wanted, marked), abs=1e-12)
    precision, recall, _ = precision_recall_curve(wanted, scores)
    assert measure("auprc")(given) == pytest.approx(auc(recall, precision), abs=1e-12)


# ---- two classes


def classes(*scores: list[float]) -> Case:
    own, *others = map(array, scores)
    return Case(own, np.zeros(len(own), dtype=bool), others=tuple(others))


def test_kendall_confidence_by_hand():
    """The orders are 2 0 1 and 0 2 1: as values no pair of three agrees, though two of the scores' do."""
    given = classes([2, 1, 3], [3, 1, 2])
    assert measure("kendall_confidence")(given) == -1
    assert measure("kendall_confidence")(given, on="scores") == pytest.approx(1 / 3)
    # orders 1 2 3 0 and 3 0 1 2 agree in 2 pairs of 6; the scores rise and fall together in 3
    given = classes([0, 3, 2, 1], [2, 1, 0, 3])
    assert measure("kendall_confidence")(given) == pytest.approx(literal([1, 2, 3, 0], [3, 0, 1, 2]))
    assert measure("kendall_confidence")(given, on="scores") == pytest.approx(literal([0, 3, 2, 1], [2, 1, 0, 3]))


def literal(a: list[int], b: list[int]) -> float:
    signs = [(a[i] - a[j]) * (b[i] - b[j]) for i in range(len(a)) for j in range(i)]
    return sum(1 if s > 0 else -1 for s in signs) / len(signs)


def test_more_classes_are_averaged():
    given = classes([1, 2, 3], [1, 2, 3], [3, 2, 1])
    assert measure("kendall_confidence")(given, on="scores") == 0
    assert measure("kendall_confidence")(classes([1, 2, 3], [1, 2, 3], [0, 0, 0])) == 1  # a constant one is left out
    with pytest.raises(UnknownOption, match="on"):
        measure("kendall_confidence")(given, on="ranks")


def test_what_is_fixed_by_construction_is_refused():
    need_classes("attcat", True, False)
    with pytest.raises(Undefined, match="globenc says the same for every class"):
        need_classes("globenc", False, False)
    with pytest.raises(Undefined, match="foil"):
        need_classes("attcat", True, True)
