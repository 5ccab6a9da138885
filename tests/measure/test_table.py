"""The table: names, facts, and what every measure does with odd inputs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mixlens
from mixlens.errors import InputError, UnknownMethod, UnknownOption
from mixlens.measure import MEASURES, Ablation, Case, Corpus, Curve, Measure, measure

NAMES = (
    "spearman kendall_tau pearson aopc log_odds comprehensiveness sufficiency kendall_confidence precision_at_k "
    "cue_dot cue_ap probes_needed special_rank consistency token_f1 auprc iou recovery mrr gold_mass rise mas "
    "top_k_drop lds disrupt recover soft_ns soft_nc mdl_compression anisotropy"
).split()
OF_A_TEXT = [name for name, m in MEASURES.items() if not isinstance(m, Corpus)]
CURVES = [name for name, m in MEASURES.items() if isinstance(m, Curve)]


def full(scores: list[float], special: list[int], marked: list[int]) -> Case:
    """A case with all that any measure asks for."""
    n = len(scores)
    values, mask = np.array(scores, dtype=np.float64), np.array(marked, dtype=bool)
    return Case(
        scores=values,
        special=np.array(special, dtype=bool),
        pieces=tuple("abcdefgh"[:n]),
        reference=np.arange(n, dtype=np.float64),
        second=np.arange(n, dtype=np.float64) ** 2,
        others=(np.arange(n, dtype=np.float64)[::-1].copy(),),
        cue=mask,
        rationale=mask.astype(np.float64),
        answer=mask,
        curve=np.log(np.array([0.8, 0.8, 0.5, 0.1])),
        gold=mask,
    )


def fitting(m: Measure, case: Case) -> Case:
    """The same with a curve of as many points as the measure has levels or sets of tokens."""
    if m.name not in ("mas", "lds", "disrupt", "recover", "soft_ns", "soft_nc"):
        return case
    return replace(case, curve=np.log(np.linspace(0.8, 0.1, 1 + len(m.removed(case)))))


def test_no_name_is_lost():
    assert [name for name in MEASURES if name in NAMES] == NAMES
    assert all(name == m.name for name, m in MEASURES.items())


def test_facts():
    facts = mixlens.measures()
    assert [fact["name"] for fact in facts] == list(MEASURES)
    for fact in facts:
        assert fact["summary"] and fact["cite"] and fact["range"][0] < fact["range"][1]
        assert set(fact) == set("name summary needs higher_is_better range per_layer options cite".split())
    known = [fact for fact in facts if fact["name"] in NAMES]
    assert {f["name"] for f in known if f["higher_is_better"] is False} == {
        "log_odds",
        "sufficiency",
        "kendall_confidence",
        "probes_needed",
        "rise",
        "mas",
        "disrupt",
    }
    assert {f["name"] for f in known if f["higher_is_better"] is None} == {
        "special_rank",
        "mdl_compression",
        "anisotropy",
    }


def test_every_measure_has_a_card_that_says_where_it_is_undefined():
    page = (Path(__file__).parents[2] / "docs" / "measures.md").read_text("utf-8")
    cards = {name: card for card in page.split("\n## ") for name in re.findall(r"`(\w+)`", card.partition("\n")[0])}
    assert set(cards) == set(MEASURES)
    assert all("undefined" in cards[name].lower() for name in MEASURES)


def test_importing_the_package_leaves_the_function():
    assert callable(mixlens.measures)


def test_unknown_names():
    assert measure("aopc") is MEASURES["aopc"]
    with pytest.raises(UnknownMethod, match="did you mean 'aopc'"):
        measure("aopcc")
    for name in OF_A_TEXT:
        with pytest.raises(UnknownOption, match="has no option 'ks'"):
            MEASURES[name](full([1, 2, 3], [0, 0, 0], [1, 0, 0]), ks=1)
    with pytest.raises(UnknownOption):
        MEASURES["mdl_compression"](np.zeros((2, 2)), np.zeros(2, dtype=int), sed=1)
    with pytest.raises(UnknownOption):
        MEASURES["aopc"].removed(full([1, 2], [0, 0], [1, 0]), level="tenths")


@pytest.mark.parametrize("name", OF_A_TEXT)
def test_what_is_needed_is_asked_for(name):
    bare = Case(scores=np.array([1.0, 2.0]), special=np.array([False, False]))
    if MEASURES[name].needs == "special":
        assert MEASURES[name].given(bare)
        return
    assert not MEASURES[name].given(bare)
    with pytest.raises(InputError, match=f"{name} needs {MEASURES[name].needs}"):
        MEASURES[name](bare)


ODD = {
    "constant": ([1, 1, 1, 1], [1, 0, 0, 1], [0, 1, 0, 0]),
    "all zero": ([0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 0, 0]),
    "one token": ([2], [0], [1]),
    "one special token": ([2], [1], [1]),
    "nothing but special tokens": ([1, 2], [1, 1], [1, 0]),
    "no token": ([], [], []),
    "ties": ([2, 1, 2, 1, 0], [1, 0, 0, 0, 1], [0, 1, 1, 0, 0]),
    "nothing marked": ([3, 1, 2], [0, 0, 0], [0, 0, 0]),
    "all marked": ([3, 1, 2], [0, 0, 0], [1, 1, 1]),
    "negative": ([-3, -1, -2], [0, 0, 0], [1, 0, 0]),
    "huge": ([1e300, -1e300, 5e299], [0, 0, 0], [1, 0, 0]),
    "tiny": ([5e-324, 0, 1e-323], [0, 0, 0], [1, 0, 0]),
}


@pytest.mark.parametrize("name", OF_A_TEXT)
def test_odd_texts_give_a_value_in_range_or_nan(name):
    for kind in ODD:
        in_range_or_nan(name, kind)


def in_range_or_nan(name, kind):
    m = MEASURES[name]
    given = fitting(m, full(*ODD[kind]))
    value = m(given)
    assert math.isnan(value) or m.range[0] <= value <= m.range[1]
    if isinstance(m, Curve) and m.replacement == "soft":
        kept = np.array(m.removed(given))
        assert bool(len(kept)) == given.removable.any()
        assert not len(kept) or ((kept[:, 1:] >= 0) & (kept[:, 1:] <= 1)).all()
    elif isinstance(m, Ablation):
        assert all(given.removable[list(s)].all() and s == tuple(sorted(set(s))) for s in m.removed(given))
    elif isinstance(m, Curve):
        for levels in ("tenths", "eraser", "attcat-code", (0.5,)):
            sets = m.removed(given, levels=levels)
            assert bool(sets) == given.removable.any()
            assert all(given.removable[list(s)].all() and s == tuple(sorted(set(s))) for s in sets)


NO_ORDER, NO_SHARES = {"constant", "all zero", "one token"}, {"all zero", "nothing marked"}
UNDEFINED = {
    "spearman": NO_ORDER,
    "kendall_tau": NO_ORDER,
    "pearson": NO_ORDER,
    "consistency": NO_ORDER,
    "kendall_confidence": NO_ORDER,
    "cue_dot": NO_SHARES,
    "cue_ap": NO_SHARES,
    "probes_needed": NO_SHARES,
    "precision_at_k": {"nothing marked"},
    "token_f1": {"nothing marked"},
    "auprc": {"nothing marked"},
    "iou": {"nothing marked"},
    "recovery": {"nothing marked"},
    "mrr": {"nothing marked"},
    "gold_mass": NO_SHARES,
    "mas": {"all zero"},
    "lds": {"all zero", "one token"},
    "special_rank": {"one token", "nothing marked", "all marked"},
}


@pytest.mark.parametrize("kind", ["constant", "all zero", "one token", "nothing marked", "all marked"])
def test_which_are_undefined(kind):
    given = full(*ODD[kind])
    undefined = {name for name in OF_A_TEXT if math.isnan(MEASURES[name](fitting(MEASURES[name], given)))}
    assert undefined == {name for name, kinds in UNDEFINED.items() if kind in kinds}


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_without_levels_is_undefined(name):
    given = Case(scores=np.array([1.0]), special=np.array([True]), curve=np.array([-0.5]))
    assert math.isnan(MEASURES[name](given))


LENGTHS = {
    "special": (np.zeros(3, dtype=bool), "expected 2 values of special, one a token, got 3"),
    "reference": (np.zeros(1), "expected 2 values of reference, one a token, got 1"),
    "second": (np.zeros(3), "expected 2 values of second, one a token, got 3"),
    "cue": (np.zeros(3, dtype=bool), "expected 2 values of cue, one a token, got 3"),
    "rationale": (np.zeros(3), "expected 2 values of rationale, one a token, got 3"),
    "answer": (np.zeros(0, dtype=bool), "expected 2 values of answer, one a token, got 0"),
    "gold": (np.zeros(3, dtype=bool), "expected 2 values of gold, one a token, got 3"),
    "units": (np.zeros(3, dtype=int), "expected 2 values of units, one a token, got 3"),
    "keep": (np.zeros(3, dtype=bool), "expected 2 values of keep, one a token, got 3"),
    "others": ((np.zeros(2), np.zeros(3)), r"expected 2 scores a class, one a token, got \[2, 3\]"),
    "pieces": (("a",), "expected 2 pieces, one a token, got 1"),
}


@pytest.mark.parametrize("field", LENGTHS)
def test_lengths_that_do_not_fit(field, unshaped):
    value, says = LENGTHS[field]
    fitting = {"scores": np.zeros(2), "special": np.zeros(2, dtype=bool)}
    Case(**fitting, curve=np.zeros(5))
    with pytest.raises(InputError, match=says):
        Case(**{**fitting, field: value})


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("aopc", {"shortest": -1}, "aopc: expected shortest= a whole number of 0 or more, got -1"),
        ("aopc", {"shortest": True}, "aopc: expected shortest= a whole number of 0 or more, got True"),
        ("aopc", {"absolute": 1}, "aopc: expected absolute= True or False, got 1"),
        ("anisotropy", {"of": "inputs"}, "anisotropy: expected of='outputs' or 'transformed', got 'inputs'"),
    ],
)
def test_options_that_would_be_misread(name, options, says):
    with pytest.raises(UnknownOption, match=says):
        MEASURES[name].checked(options)
    assert MEASURES["anisotropy"].checked({"of": "transformed"}) == {"of": "transformed"}
    assert MEASURES["aopc"].checked({"shortest": 0, "absolute": True})["shortest"] == 0
