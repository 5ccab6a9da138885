"""What becomes of a claim: by texts, by intervals, among other claims; and that the papers' claims are data."""

from __future__ import annotations

import numpy as np
import pytest

from mixlens.measure.ranks import rank_correlation
from mixlens.measure.significance import sign_flip
from mixlens.reproduce import Number, Panel
from mixlens.reproduce.claims import MATTERS, STRONG, Claim, Pair, beats, least, near_zero, nonzero, pairs
from mixlens.reproduce.record import PageRecord, record, table
from mixlens.reproduce.report import evidence, page
from mixlens.reproduce.verdicts import judge, measure, tally


def values(mean: float, n: int = 14, seed: int = 0) -> np.ndarray:
    return mean + 0.1 * np.random.default_rng(seed).standard_normal(n)


def panel(better: int = 1, **cells: np.ndarray | Number) -> Panel:
    return Panel("t", tuple(cells), ("c",), {(name, "c"): v for name, v in cells.items()}, better={"c": better})


def verdicts(p: Panel, *claims: Claim) -> list[str]:
    return [one.verdict for one in judge(measure(claims, [p]))]


@pytest.mark.parametrize(("better", "verdict"), [(1, "holds"), (-1, "reversed")])
def test_better_is_what_sign_flips_of_the_same_texts_say(better, verdict):
    p = panel(better, a=values(0.5), b=values(0.2, seed=1))
    assert verdicts(p, beats(p, "a is best", "c", "a")) == [verdict]


def test_noise_is_undecided():
    p = panel(a=values(0.0, seed=3), b=values(0.0, seed=4))
    assert verdicts(p, beats(p, "a is best", "c", "a")) == ["undecided"]


def test_an_effect_that_does_not_matter_holds_but_small():
    """There in every text, and a fifth of what matters: no "considerably"."""
    base = np.linspace(-1, 1, 12)
    p = panel(a=base + 0.01, b=base, d=base + 0.07)
    claims = beats(p, "a over b", "c", "a", ["b"]), beats(p, "b over a", "c", "b", ["a"])
    assert verdicts(p, *claims) == ["holds, but small", "reversed, but small"]
    larger = beats(p, "d over b", "c", "d", ["b"]), beats(p, "considerably", "c", "d", ["b"], STRONG)
    assert verdicts(p, *larger) == ["holds", "holds, but small"]
    assert evidence(judge(measure(claims, [p]))[0]).endswith("over b; 0.05 would matter")


def test_a_claim_over_several_fails_with_one():
    p = panel(a=values(0.5), b=values(0.2, seed=1), d=values(0.9, seed=2))
    found = judge(measure([beats(p, "a is best", "c", "a"), beats(p, "a beats b", "c", "a", ["b"])], [p]))
    assert [one.verdict for one in found] == ["reversed", "holds"]
    assert found[0].decisive is not None and found[0].decisive.pair.worse == "d"
    assert verdicts(p, beats(p, "a beats what is not there", "c", "a", ["e"])) == ["not measured"]


def test_a_claim_over_several_is_small_where_its_nearest_rival_is_near():
    base = np.linspace(-1, 1, 12)
    p = panel(a=base + 0.5, b=base, d=base + 0.49)
    found = judge(measure([beats(p, "a is best", "c", "a")], [p]))[0]
    assert found.verdict == "holds, but small" and evidence(found).startswith("+0.010 [+0.010, +0.010] over d;")


def test_p_of_a_claim_by_hand():
    """Nine texts: every pair's p is 2/512. All in favour: the largest; two against: twice the smallest of two pairs."""
    up = np.ones(9)
    p = panel(a=up, b=0 * up, d=0.5 * up)
    holds, fails = measure([beats(p, "", "c", "a"), beats(p, "", "c", "b")], [p])
    assert holds.p == 2 / 512 and fails.p == 2 * 2 / 512


def test_what_holds_alone_may_not_among_many():
    """p = 2/64 of six texts: below 0.05 alone, not as one of two claims."""
    p = panel(a=np.ones(6), b=np.zeros(6))
    one = beats(p, "a", "c", "a")
    assert verdicts(p, one) == ["holds"]
    assert verdicts(p, one, one) == ["undecided", "undecided"]
    assert judge(measure([one, one], [p]))[0].p == pytest.approx(4 / 64)


def test_few_texts_give_no_verdict():
    p = panel(a=np.ones(5), b=np.zeros(5))
    found = judge(measure([beats(p, "a", "c", "a")], [p]))[0]
    assert found.verdict == "too few" and "smallest p that so few could give is 0.062" in evidence(found)


def test_a_correlation_over_three_gives_no_verdict():
    """r = -1 over three: a sixth of all orders gives it, whatever r is."""
    p = panel(a=Number(-1.0, n=3, p=2 / 6, floor=1 / 6), b=Number(-0.9, n=8, p=0.001, floor=1 / 40320))
    assert verdicts(p, nonzero(p, "opposite", "c", "a", -1), nonzero(p, "opposite", "c", "b", -1)) == [
        "too few",
        "holds",
    ]
    assert verdicts(p, nonzero(p, "alike", "c", "b")) == ["reversed"]


def test_undefined_texts_are_left_out_of_a_comparison():
    a, b = values(0.5), values(0.2, seed=1)
    a[:4] = np.nan
    p = panel(a=a, b=b)
    assert p.summary("a", "c").n == 10
    found = measure([beats(p, "a", "c", "a")], [p])[0].pairs[0]
    assert found.n == 10 and found.p == pytest.approx(sign_flip((a - b)[4:, None])[0])


def test_numbers_without_interval_give_no_verdict():
    p = panel(a=Number(0.3), b=Number(0.1))
    assert verdicts(p, beats(p, "a", "c", "a")) == ["not measured"]


@pytest.mark.parametrize(
    ("a", "b", "better", "verdict"),
    [
        (Number(0.3, 0.25, 0.35), Number(0.1, 0.05, 0.15), 1, "holds"),
        (Number(0.3, 0.25, 0.35), Number(0.1, 0.05, 0.15), -1, "reversed"),
        (Number(0.3, 0.15, 0.45), Number(0.1, 0.05, 0.15), 1, "undecided"),
        (Number(0.9, 0.8, 1.0), values(0.2), 1, "holds"),
    ],
)
def test_numbers_are_told_apart_as_if_they_erred_in_opposite_directions(a, b, better, verdict):
    p = panel(better, a=a, b=b)
    claim = beats(p, "a", "c", "a")
    assert verdicts(p, claim) == [verdict] and measure([claim], [p])[0].pairs[0].source == "two intervals"


def test_a_printed_difference_is_used_before_two_intervals():
    wide = {("a", "c"): Number(0.3, 0.0, 0.6), ("b", "c"): Number(0.2, -0.1, 0.5)}
    p = Panel("t", ("a", "b"), ("c",), wide)
    claim = beats(p, "a", "c", "a")
    assert verdicts(p, claim) == ["undecided"]
    known = Panel("t", ("a", "b"), ("c",), wide, differences={("c", "a", "b"): Number(0.1, 0.09, 0.11)})
    assert verdicts(known, claim) == ["holds"]
    rounded = Panel("t", ("a", "b"), ("c",), wide, differences=known.differences, rounding=(0.0, 0.06))
    assert verdicts(rounded, claim) == ["undecided"]


def test_alike_means_within_what_matters_everywhere():
    """That no difference matters has to be shown: noise is undecided, and one column that is far is enough."""
    base = np.linspace(0, 1, 12)
    cells = {("a", "c"): base, ("b", "c"): base + 0.01, ("a", "d"): base, ("b", "d"): base + 0.01}
    p = Panel("t", ("a", "b"), ("c", "d"), cells)
    claim = Claim("hardly matters", pairs(p, p.columns, "a"), alike=True)
    assert verdicts(p, claim) == ["holds"]
    far = Panel("t", ("a", "b"), ("c", "d"), {**cells, ("b", "d"): base + 0.3})
    found = judge(measure([claim], [far]))[0]
    assert found.verdict == "reversed"
    assert evidence(found).startswith("-0.300 [-0.300, -0.300] from b (d); alike is taken as within 0.05")
    noisy = np.random.default_rng(0).standard_normal(12)
    assert verdicts(Panel("t", ("a", "b"), ("c", "d"), {**cells, ("b", "d"): base + noisy}), claim) == ["undecided"]


def test_a_number_near_zero():
    p = panel(a=Number(0.05, 0.04, 0.06), b=Number(0.2, 0.19, 0.21), d=Number(0.0, -0.3, 0.3))
    claims = [near_zero(p, "near", "c", row, 0.1) for row in "abd"]
    assert verdicts(p, *claims) == ["holds", "reversed", "undecided"]


def test_what_matters_is_written_down_for_every_kind():
    assert all(matter.least > 0 and matter.why for matter in MATTERS.values())
    mixed = Panel("t", ("a",), ("x", "y"), {}, kind={"x": "probability", "y": "log odds"})
    assert (least(mixed, "x"), least(mixed, "y", STRONG)) == (0.01, 0.1)


def test_what_matters_of_a_rank_correlation_by_hand():
    """One of 20 tokens moved by eight places: 1 - 6 (8 x 8 + 8 x 1) / (20 x 399)."""
    ranks = np.arange(20.0)
    moved = np.insert(np.delete(ranks, 3), 11, 3.0)
    assert rank_correlation(np.argsort(moved).astype(float), ranks) == pytest.approx(1 - 6 * 72 / (20 * 399))
    assert MATTERS["rank correlation"].least == round(6 * 72 / (20 * 399), 2)


def test_orderings_are_the_papers_pairs():
    cells = {"a": values(0.5), "b": values(0.2, seed=1), "d": values(0.1, seed=2)}
    p = panel(**cells)
    p = Panel("t", p.rows, ("c",), p.values, {("a", "c"): 0.1, ("b", "c"): 0.7, ("d", "c"): 0.1})
    got = {(one.pair.better, one.pair.worse): one.toward > 0 for one in tally(p)}
    assert got == {("b", "a"): False, ("b", "d"): True}  # a and d are tied in the paper


def test_a_record_comes_back_and_gives_the_same_page(tmp_path):
    """What is stored is enough: the page is written from it, by other claims beside it too."""
    cells = {("a", "c"): np.ones(6), ("b", "c"): np.zeros(6)}
    p = Panel("t", ("a", "b"), ("c",), cells, {("a", "c"): 0.5, ("b", "c"): 0.6})
    made = record("n", "Someone 2020, Table 1", "a title", ["how"], [p], [beats(p, "a", "c", "a", ["b"])], [], ["so"])
    made.save(tmp_path / "r.json")
    again = PageRecord.read(tmp_path / "r.json")
    assert page(again) == page(made)
    assert "| a | holds | 0.031 | +1.000 [+1.000, +1.000] over b |" in page(made)
    assert "of the 1 pairs that the paper's numbers put in an order, 0 hold here, 1 are reversed" in page(made)
    assert "| a | undecided | 0.062 |" in page(again, judge([*again.claims] * 2)[:1])


def test_a_table_keeps_what_was_measured():
    p = panel(a=np.array([1.0, np.nan, 3.0]), b=Number(0.5, 0.4, 0.6))
    kept = table(p).cells
    assert kept["a", "c"]["mean"] == 2.0 and kept["a", "c"]["n_undefined"] == 1
    assert kept["b", "c"] == {"n": 0, "mean": 0.5, "low": 0.4, "high": 0.6}


def test_a_pair_names_its_panel():
    one = Panel("one", ("a", "b"), ("c",), {("a", "c"): np.ones(9), ("b", "c"): np.zeros(9)})
    two = Panel("two", ("a", "b"), ("c",), {("a", "c"): np.ones(9) * 3, ("b", "c"): np.zeros(9)})
    both = Claim("a", tuple(Pair(p.title, "c", "a", "b", 0.05) for p in (one, two)))
    found = measure([both], [one, two])[0]
    assert [m.difference for m in found.pairs] == [1, 3]
    assert "(one, c)" in evidence(judge([found])[0])
