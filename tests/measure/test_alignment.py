"""Alignment error rate, against a count by hand."""

from __future__ import annotations

import itertools

import pytest
import torch

from mixlens.errors import InputError
from mixlens.measure.alignment import alignment, alignment_error_rate


def test_each_target_token_has_the_source_of_its_largest_score():
    scores = torch.tensor([[0.1, 0.7, 0.2], [0.0, 0.0, 0.0], [-1.0, -2.0, 3.0]])
    assert alignment(scores) == {(0, 1), (2, 2)}


def test_rates_by_hand():
    sure, possible = {(0, 0), (1, 2)}, {(1, 1)}
    assert alignment_error_rate(sure, sure, possible) == 0
    assert alignment_error_rate({*sure, *possible}, sure, possible) == 0
    assert alignment_error_rate({(0, 0), (1, 1)}, sure, possible) == pytest.approx(1 - (1 + 2) / 4)
    assert alignment_error_rate({(5, 5)}, sure, possible) == 1
    assert alignment_error_rate((), sure) == 1


def test_every_small_case_is_the_formula_counted_link_by_link():
    """1 - (hits that are sure + hits that are possible) / (links + sure links), each counted in a loop."""
    pairs = [(0, 0), (0, 1), (1, 0)]
    subsets = [set(c) for k in range(4) for c in itertools.combinations(pairs, k)]
    for links, sure, possible in itertools.product(subsets, subsets[1:], subsets):
        hits = 0
        for link in links:
            hits += link in sure
            hits += link in sure or link in possible
        assert alignment_error_rate(links, sure, possible) == 1 - hits / (len(links) + len(sure))


def test_without_sure_links_there_is_no_rate():
    with pytest.raises(InputError, match="at least one sure link"):
        alignment_error_rate({(0, 0)}, ())
