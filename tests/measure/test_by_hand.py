"""Every measure of the table on a tiny example whose number is worked out on paper."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from mixlens.measure import MEASURES, Case, measure, probing

SCORES = [4.0, 1.0, 3.0, 2.0]  # special, text, text, special: the order of all is 0 2 3 1, of the text 2 1


def case(scores: list[float] = SCORES, **more: object) -> Case:
    return Case(np.array(scores), np.array([True, False, False, True]), **more)  # type: ignore[arg-type]


def vector(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def marks(*values: int) -> np.ndarray:
    return np.array(values, dtype=bool)


def foretold() -> Case:
    """Tokens 1 and 2 may go; without both, 2, 1 and none of them more is left, as the scores say: 0 1 3 4."""
    left = {(1, 2): -9.0, (2,): -3.0, (1,): -2.0, (): -1.0}
    return case(curve=vector(-1, *(left[gone] for gone in measure("lds").removed(case()))))  # type: ignore[attr-defined]


CURVE = np.log([0.8, 0.6, 0.4])  # untouched, then two levels

# name -> (what is looked at, its number); ranks are those of SCORES from the lowest: 4 1 3 2
HAND: dict[str, tuple[Callable[[], Case], float]] = {
    # ranks of the reference 1 2 3 4: differences 3 -1 0 -2, their squares sum to 14: 1 - 6 * 14 / (4 * 15)
    "spearman": (lambda: case(reference=vector(10, 20, 30, 40)), -0.4),
    # of six pairs (4 1 3 2 against 1 2 3 4) two agree, (1 3) and (1 2): (2 - 4) / 6
    "kendall_tau": (lambda: case(reference=vector(10, 20, 30, 40)), -1 / 3),
    # deviations 1.5 -1.5 .5 -.5 and -6 -4 -2 12: products -9 + 6 - 1 - 6, squares 5 and 200
    "pearson": (lambda: case(reference=vector(0, 2, 4, 18)), -10 / math.sqrt(5 * 200)),
    "aopc": (lambda: case(curve=CURVE), (0.2 + 0.4) / 2),
    "log_odds": (lambda: case(curve=CURVE), (math.log(0.6 / 0.8) + math.log(0.4 / 0.8)) / 2),
    "comprehensiveness": (lambda: case(curve=CURVE), (0.2 + 0.4) / 2),
    "sufficiency": (lambda: case(curve=np.log([0.8, 0.9, 0.5])), (-0.1 + 0.3) / 2),
    # orders 0 2 3 1 and 3 2 1 0: of the pairs of the first, four rise, (2 1) and (3 1) fall; of the other all fall:
    # two agree, (2 - 4) / 6
    "kendall_confidence": (lambda: case(others=(vector(1, 2, 3, 4),)), -1 / 3),
    # the two highest are tokens 0 and 2; the answer is 2 and 3; a count of the 20 highest: both
    "precision_at_k": (lambda: case(answer=marks(0, 0, 1, 1)), 2.0),
    "cue_dot": (lambda: case(cue=marks(0, 0, 1, 1)), 5 / 10),
    # the order is 0 2 3 1; cue tokens 2 and 3 come in at precision 1/2 and 2/3
    "cue_ap": (lambda: case(cue=marks(0, 0, 1, 1)), (1 / 2 + 2 / 3) / 2),
    "probes_needed": (lambda: case(cue=marks(0, 1, 1, 0)), 2.0),  # 0 and 3 stand before 1
    "special_rank": (lambda: case(), (4 / 4 + 2 / 4) / 2),
    # against 1 4 9 16, whose ranks are 1 2 3 4: as spearman
    "consistency": (lambda: case(second=vector(1, 4, 9, 16)), -0.4),
    # special tokens left out: the highest is 2, the rationale 1
    "token_f1": (lambda: case(rationale=vector(0, 1, 0, 0)), 0.0),
    # precision is 0 at recall 0, 1/2 at recall 1; the curve begins at (0, 1): (0 + 1/2) / 2
    "auprc": (lambda: case(rationale=vector(0, 1, 0, 0)), 0.25),
    "recovery": (lambda: case(gold=marks(0, 0, 1, 1)), 0.0),  # of the one highest, 0
    "mrr": (lambda: case(gold=marks(0, 0, 1, 1)), 1 / 2),
    "gold_mass": (lambda: case([4.0, -1.0, 3.0, 2.0], gold=marks(0, 1, 1, 0)), 3 / 9),
    # ln p falls from -1 by shares 1, .5, .75 (never rising: .5), 0: trapezoids .75, .5, .25
    "rise": (lambda: case(curve=vector(-1, -3, -2, -5)), (0.75 + 0.5 + 0.25) / 3),
    "top_k_drop": (lambda: case(curve=vector(-1, -3)), 2.0),
    # one of two tokens goes at the first ten levels, the one of 3/4; the curve is at 1/2 there, what is left at 1/4:
    # (1 + 3/4) / 2, nine times 3/4, 3/8, then 0
    "mas": (lambda: case(curve=vector(-1, *[-2] * 10, *[-3] * 10)), 8 / 20),
    "lds": (lambda: foretold(), 1.0),
    # p at shares 0, .1 ... 1: eleven levels, .8 at ten of them and .4 at the last: nine tenths of .8, one of .6
    "disrupt": (lambda: case(curve=np.log([0.8] * 11 + [0.4])), 0.9 * 0.8 + 0.1 * 0.6),
    "recover": (lambda: case(curve=np.log([0.8, *[0.4] * 10, 0.8])), 0.9 * 0.4 + 0.1 * 0.6),
    # H is 1/2 with nothing, then always 1/4: H / H_0 is 1 at retention 0, 1/2 at .1 to .9, 0 at 1
    "soft_nc": (lambda: case(curve=np.log([0.8, 0.5, *[0.75] * 5])), 0.1 * 0.75 + 0.8 * 0.5 + 0.1 * 0.25),
    "soft_ns": (lambda: case(curve=np.log([0.8, 0.5, *[0.625] * 5])), 1 - (0.1 * 0.875 + 0.8 * 0.75 + 0.1 * 0.375)),
    "iou": (lambda: case(rationale=vector(0, 1, 1, 0)), 1.0),
}


@pytest.mark.parametrize("name", HAND)
def test_a_measure_of_a_text(name: str) -> None:
    looked_at, number = HAND[name]
    assert measure(name)(looked_at()) == pytest.approx(number, abs=1e-12)


def test_anisotropy() -> None:
    """Text one: (1, 0), (0, 2). Text two: (3, 3). Cosines 1 / sqrt 2 twice, both ways. Its draws: one text twice."""
    sums, counts = np.array([[1.0, 1.0], [1 / math.sqrt(2)] * 2]), np.array([2, 1])
    assert measure("anisotropy")(sums, counts) == pytest.approx(1 / math.sqrt(2))
    spread = MEASURES["anisotropy"].spread_of(sums, counts, level=0.95, resamples=20, draw_seed=0)  # type: ignore[attr-defined]
    assert (spread.n, spread.null, spread.p_null) == (2, 0.0, 0.5)
    assert spread.value == pytest.approx(1 / math.sqrt(2)) == spread.low == spread.high


def test_mdl_compression(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of four: 2 labels at 1 bit each, then one and one by a probe that says 3/4 for the class "a"."""
    monkeypatch.setattr(probing, "ENDS", (50, 75, 100))

    class Says(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(torch.tensor([0.75, 0.25])).expand(len(x), 2)

    monkeypatch.setattr(probing, "_trained", lambda *a: Says())
    order = np.random.default_rng(0).permutation(4)
    labels = np.empty(4, dtype="<U1")
    labels[order] = ["a", "b", "a", "b"]
    bits = 1 + 1 + math.log2(4 / 3) + 2
    assert measure("mdl_compression")(np.zeros((4, 3)), labels) == pytest.approx(4 / bits, abs=1e-6)


def test_all_measures_are_here() -> None:
    assert {*HAND, "anisotropy", "mdl_compression"} == set(MEASURES)
