"""Scores that are the tokens' places say so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

import mixlens
from mixlens.attribute.position import MOST, SURE, mostly_position, position_meta, position_rho
from models import families

LONG = families.text(24)


def test_rho_is_spearman_s():
    scores = torch.tensor([0.3, 0.1, 0.1, 0.7, 0.9, 0.8])
    assert position_rho(scores) == pytest.approx(stats.spearmanr(scores.numpy(), np.arange(6)).statistic, abs=1e-12)
    assert position_rho(torch.ones(5)) is None and position_rho(torch.ones(1)) is None
    assert position_meta(torch.ones(5), "mean") == {}


def test_most_is_half_of_the_ranks_variance_and_not_by_chance():
    edge = MOST**0.5
    assert mostly_position(edge + 0.01, 100) and mostly_position(-edge - 0.01, 100)
    assert not mostly_position(edge - 0.01, 100) and not mostly_position(None, 100)
    few = int(SURE**2)  # tokens of which not even a perfect order is beyond chance
    assert not mostly_position(1.0, few) and mostly_position(1.0, few + 2)


def test_random_scores_are_rarely_called_places():
    draw = np.random.default_rng(0)
    warned = [
        "warnings" in position_meta(torch.from_numpy(draw.random(n)), n - 1) for n in (8, 16, 64) for _ in range(300)
    ]
    assert np.mean(warned) < 0.02


@pytest.mark.parametrize("method", ["attention_rollout", "globenc+rollout"])
def test_a_rollout_that_drains_into_the_first_tokens_says_so(method):
    """Attention of random weights is near even, so what is rolled out falls from the first token to the last."""
    lens = families.lens("gpt2", "causal", n_layer=8)
    attr = lens.attribute(LONG, method, receptive_field=False)
    assert attr.meta["position_rho"] == pytest.approx(position_rho(attr.scores), abs=1e-12)
    assert attr.meta["position_rho"] < -0.8
    (warning,) = attr.meta["warnings"]
    assert "mostly that of the tokens' places (Spearman's rho -" in warning and "leave method= out" in warning
    assert warning in " ".join(str(attr).split()) and "tokens&#39; places" in attr.to_html()


def test_what_a_row_does_not_see_is_left_out():
    lens = families.lens("gpt2", "causal")
    short = lens.attribute(LONG[:9], "attention_rollout", receptive_field=False)
    at = lens.attribute(LONG, "attention_rollout", mixlens.Target(position=8), receptive_field=False)
    assert at.meta["position_rho"] == pytest.approx(short.meta["position_rho"], abs=1e-9)


def test_rows_that_see_all_tokens_have_no_such_number():
    assert "position_rho" not in families.lens("bert", "sequence").attribute(LONG, "alti").meta


def test_a_trace_says_it_of_its_rows():
    lens = families.lens("gpt2", "causal", n_layer=8)
    trace = lens.trace(LONG[:20], LONG[20:], "attention_rollout", receptive_field=False)
    rhos = [position_rho(trace.scores[t, : 20 + t]) for t in range(4)]
    assert trace.meta["position_rho"] == pytest.approx(np.mean(rhos), abs=1e-12)
    assert "mostly that of the tokens' places" in trace.meta["warnings"][0]
    assert "position_rho" not in lens.trace(LONG[:20], LONG[20:]).meta
