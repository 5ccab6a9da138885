"""Metric numbers of AttCAT's code and of sklearn and scipy, under the options that name the authors' ways."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from mixlens.measure import Case, measure
from mixlens.measure.confidence import order_tau
from mixlens.measure.perturb import attcat_counts
from mixlens.measure.ranks import tau_b
from models import stored

TOLERANCE = 1e-12
TABLE: dict[str, Any] = json.loads((stored.GOLDEN / "measures.json").read_text())
PAD = 0
each_curve = pytest.mark.parametrize("row", TABLE["curves"], ids=[row["key"] for row in TABLE["curves"]])
each_cue = pytest.mark.parametrize("row", TABLE["cues"], ids=range(len(TABLE["cues"])))


def case(row: dict[str, Any], probabilities: list[float] | None = None) -> Case:
    return Case(
        scores=np.array(row["scores"]),
        special=np.isin(row["ids"], TABLE["special"]),
        others=(np.array(row["other"]),),
        curve=None if probabilities is None else np.log([row["original_prob"], *probabilities]),
    )


@cache
def probabilities() -> dict[tuple[str, tuple[int, ...]], float]:
    """Every text that a curve asks for, all of one length in one pass."""
    asked: dict[tuple[str, int], set[tuple[int, ...]]] = {}
    for row in TABLE["curves"]:
        sets = [(), *measure("aopc").removed(case(row), levels="attcat-code")]
        for ids in (without(row["ids"], removed, filler) for removed in sets for filler in (None, PAD)):
            asked.setdefault((row["model"], len(ids)), set()).add(ids)
    found = {}
    for (name, _), texts in asked.items():
        batch = sorted(texts)
        with torch.no_grad():
            out = stored.model(name)(torch.tensor(batch)).logits.softmax(-1)[:, 1]
        found |= {(name, ids): float(p) for ids, p in zip(batch, out, strict=True)}
    return found


def probability(model: str, ids: tuple[int, ...]) -> float:
    return probabilities()[model, ids]


def without(ids: list[int], removed: tuple[int, ...], filler: int | None) -> tuple[int, ...]:
    if filler is None:
        return tuple(t for i, t in enumerate(ids) if i not in removed)
    return tuple(filler if i in removed else t for i, t in enumerate(ids))


@each_curve
@pytest.mark.parametrize(("name", "filler"), [("deletion_probs", None), ("pad_probs", PAD)])
def test_curves_of_the_authors_walk(row, name, filler):
    """Which tokens go at which level shows in the model's own probabilities."""
    assert (0, *attcat_counts(len(row["ids"]))) == tuple(row["trunc_words_num"])
    assert probability(row["model"], tuple(row["ids"])) == pytest.approx(row["original_prob"], abs=TOLERANCE)
    sets = measure("aopc").removed(case(row), levels="attcat-code")
    got = [probability(row["model"], without(row["ids"], removed, filler)) for removed in sets]
    np.testing.assert_allclose(got, row[name], rtol=0, atol=TOLERANCE)


@each_curve
@pytest.mark.parametrize(("curve", "short"), [("deletion_probs", "del"), ("pad_probs", "pad")])
def test_aopc_and_log_odds_of_the_authors(row, curve, short):
    given = case(row, row[curve])
    assert measure("aopc")(given, absolute=True) == pytest.approx(row[f"aopc_{short}"], abs=TOLERANCE)
    assert measure("log_odds")(given) == pytest.approx(row[f"lodds_{short}"], abs=TOLERANCE)


@each_curve
def test_kendall_of_two_classes(row):
    """RawAtt and Rollout say the same of both classes: what the run refuses by `need_classes`."""
    got = measure("kendall_confidence")(case(row))
    assert got == pytest.approx(row["kendall_c1_vs_c0"], abs=TOLERANCE)


@each_cue
def test_cue_alignment(row):
    scores, cue = np.array(row["scores"]), np.array(row["cue"], dtype=bool)
    given = Case(scores=scores, special=np.zeros(len(cue), dtype=bool), cue=cue)
    assert measure("cue_dot")(given) == pytest.approx(row["dot"], abs=TOLERANCE)
    assert measure("cue_ap")(given) == pytest.approx(row["ap"], abs=TOLERANCE)
    assert measure("probes_needed")(given) == row["probes_needed_all_cues"]
    assert measure("probes_needed")(given, until="first") == row["probes_needed_first_cue"]


@each_cue
def test_kendall_both_ways(row):
    a, b = np.array(row["kendall_a"]), np.array(row["kendall_b"])
    assert order_tau(a, b) == pytest.approx(row["kendall_attcat"], abs=TOLERANCE)
    assert tau_b(a, b) == pytest.approx(row["kendall_scores"], abs=TOLERANCE)
    given = Case(scores=a, special=np.zeros(len(a), dtype=bool), others=(b,))
    assert measure("kendall_confidence")(given, on="scores") == pytest.approx(row["kendall_scores"], abs=TOLERANCE)
