"""The words of many texts against a literal version, and what chance makes of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mixlens.errors import NotFinite
from mixlens.measure import vocabulary
from mixlens.measure.vocabulary import TextWords, words_of

LETTERS = "a b c d e f g h".split()


def drawn(count: int, seed: int, lift: float = 0.0) -> list[TextWords]:
    """Texts of random words with random scores; "a" has `lift` more in the texts of "x"."""
    rng = np.random.default_rng(seed)
    out = []
    for row in range(count):
        words = rng.choice(LETTERS, rng.integers(1, 9)).tolist()
        group = "xy"[row % 2]
        scores = rng.random(len(words)) + lift * np.array([w == "a" and group == "x" for w in words])
        out.append(TextWords(row, group, words, scores.tolist()))
    return out


def literal(texts: list[TextWords], group: str, word: str) -> tuple[int, float, float, int]:
    """How many texts, mean, null mean and the row of the highest, by loops."""
    values, nulls, best = [], [], (-np.inf, -1)
    for text in texts:
        of_word = [s for w, s in zip(text.words, text.scores, strict=True) if w == word]
        if text.group == group and of_word:
            values.append(sum(of_word) / len(of_word))
            nulls.append(sum(text.scores) / len(text.scores))
            best = max(best, (values[-1], text.row), key=lambda pair: pair[0])
    return len(values), sum(values) / len(values), sum(nulls) / len(nulls), best[1]


def test_means_are_those_of_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_AT_ONCE", 7)  # parts that cut through the texts
    texts = drawn(60, 1)
    found = words_of(lambda: texts, least=2, resamples=20)
    assert {(w.group, w.word) for w in found.words} == {(g, w) for g in "xy" for w in LETTERS}
    for w in found.words:
        texts_of, mean, null, best = literal(texts, w.group, w.word)
        assert (w.texts, w.example) == (texts_of, best)
        assert (w.mean, w.null) == pytest.approx((mean, null), rel=1e-12)
        assert w.low < w.mean < w.high and w.null_low < w.null < w.null_high


def test_parts_change_no_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = drawn(40, 2)
    whole = {(w.group, w.word): w for w in words_of(lambda: texts, least=1, resamples=5).words}
    monkeypatch.setattr(vocabulary, "_AT_ONCE", 3)
    for w in words_of(lambda: texts, least=1, resamples=5).words:
        other = whole[w.group, w.word]
        assert (w.texts, w.example) == (other.texts, other.example)
        assert (w.mean, w.null) == pytest.approx((other.mean, other.null), rel=1e-12)


def test_the_interval_is_the_bootstrap_of_texts() -> None:
    """Against resampled texts, drawn one by one."""
    texts, rng = drawn(80, 3), np.random.default_rng(0)
    (word,) = [w for w in words_of(lambda: texts, resamples=1000).words if (w.group, w.word) == ("x", "b")]
    values = [
        np.mean([s for w, s in zip(t.words, t.scores, strict=True) if w == "b"])
        for t in texts
        if t.group == "x" and "b" in t.words
    ]
    means = [np.mean(rng.choice(values, len(values))) for _ in range(1000)]
    width = word.high - word.low
    assert np.quantile(means, [0.025, 0.975]) == pytest.approx([word.low, word.high], abs=0.15 * width)


def test_the_null_is_shuffled_within_texts() -> None:
    """Against scores that are shuffled one text after the other."""
    texts, rng = drawn(30, 4), np.random.default_rng(0)
    (word,) = [w for w in words_of(lambda: texts, resamples=1000).words if (w.group, w.word) == ("y", "c")]
    means = []
    for _ in range(300):
        mixed = [TextWords(t.row, t.group, t.words, rng.permutation(t.scores).tolist()) for t in texts]
        means.append(literal(mixed, "y", "c")[1])
    width = word.null_high - word.null_low
    assert np.mean(means) == pytest.approx(word.null, abs=0.1 * width)
    assert np.quantile(means, [0.025, 0.975]) == pytest.approx([word.null_low, word.null_high], abs=0.2 * width)


def test_what_was_lifted_stands_out_and_nothing_else() -> None:
    texts = drawn(200, 5, lift=0.6)
    found = words_of(lambda: texts).words
    assert [(w.group, w.word) for w in found if w.p <= 0.05 and w.mean > w.null] == [("x", "a")]
    assert found[0].word == "a" and found[0].group == "x"


def scaled(texts: list[TextWords], factors: Sequence[float]) -> list[TextWords]:
    """Each text's scores times a number of its own."""
    return [replace(t, scores=[f * s for s in t.scores]) for t, f in zip(texts, factors, strict=True)]


def distances(texts: list[TextWords], group: str) -> dict[str, float]:
    """Each word's distance from the null in texts' own deviations, over what shuffling makes of it, by loops."""
    away, variance = dict.fromkeys(LETTERS, 0.0), dict.fromkeys(LETTERS, 0.0)
    for text in texts:
        size, deviation = len(text.scores), statistics.pstdev(text.scores)
        for word in set(text.words) if text.group == group and deviation else ():
            of_word = [s for w, s in zip(text.words, text.scores, strict=True) if w == word]
            away[word] += (statistics.mean(of_word) - statistics.mean(text.scores)) / deviation
            variance[word] += (size - len(of_word)) / (size - 1) / len(of_word)  # drawn without putting back
    return {w: abs(away[w]) / variance[w] ** 0.5 for w in LETTERS if variance[w]}


def test_p_is_that_of_the_largest_distance_of_loops() -> None:
    """Against scores that are shuffled one text after the other, of texts whose scores differ in size."""
    rng = np.random.default_rng(8)
    texts = scaled(drawn(24, 8, lift=0.3), rng.lognormal(0, 2, 24))
    draws = 1000
    found = {w.word: w for w in words_of(lambda: texts, least=1, resamples=draws).words if w.group == "x"}
    mine = [t for t in texts if t.group == "x"]
    mixed = ([replace(t, scores=rng.permutation(t.scores).tolist()) for t in mine] for _ in range(draws))
    largest = np.array([max(distances(m, "x").values()) for m in mixed])
    compared = 0
    for word, distance in distances(texts, "x").items():
        _, mean, null, _ = literal(texts, "x", word)
        above = sum(  # by texts' own deviations
            (np.mean([s for w, s in zip(t.words, t.scores, strict=True) if w == word]) - np.mean(t.scores))
            / (np.std(t.scores) or 1.0)
            for t in mine
            if word in t.words
        )
        if (above > 0) == (mean > null):
            assert found[word].p == pytest.approx(np.mean(largest >= distance), abs=0.08)  # 3.6 deviations at .5
            compared += found[word].p < 0.98
        else:
            assert found[word].p == 1
    assert compared >= 4


def test_how_large_a_texts_scores_are_moves_no_p() -> None:
    texts = drawn(60, 9, lift=0.6)
    plain = {w.word: w for w in words_of(lambda: texts).words if w.group == "x"}
    mixed = scaled(texts, [10.0 ** -(i % 4) for i in range(60)])
    other = {w.word: w for w in words_of(lambda: mixed).words if w.group == "x"}
    assert plain["a"].p <= 0.05 and plain["a"].p == other["a"].p
    loud = TextWords(60, "x", LETTERS, [500.0, 0.0, 900.0, 100.0, 300.0, 700.0, 200.0, 600.0])
    (hidden,) = [w for w in words_of(lambda: [*texts, loud]).words if (w.group, w.word) == ("x", "a")]
    assert hidden.p <= 0.05  # of the mean that is the loud text's alone, it would be 1


def test_a_word_and_the_rest_of_its_texts_are_as_far() -> None:
    """Three of four words: less is left to draw, and what they are above, the fourth is below."""
    scores = np.random.default_rng(11).random((20, 4)) + np.array([0.0, 0.0, 0.0, 0.3])
    texts = [TextWords(i, "x", ["a", "a", "a", "b"], row.tolist()) for i, row in enumerate(scores)]
    a, b = words_of(lambda: texts).words
    assert a.p == b.p < 0.5


def test_a_word_whose_texts_disagree_with_its_mean_does_not_stand_out() -> None:
    """Above in thirty texts of small scores, below in one of large ones: its mean is below."""
    small = [TextWords(i, "x", ["a", "b", "c", "d"], [0.02, 0.0, 0.01, 0.005]) for i in range(30)]
    large = TextWords(30, "x", ["a", "b", "c", "d"], [-900.0, 0.0, 500.0, 400.0])
    (alone,) = [w for w in words_of(lambda: small).words if w.word == "a"]
    (word,) = [w for w in words_of(lambda: [*small, large]).words if w.word == "a"]
    assert (alone.p <= 0.05, alone.mean > alone.null) == (True, True)
    assert (word.p, word.mean < word.null) == (1.0, True)


def test_by_chance_a_group_has_a_word_in_one_of_twenty() -> None:
    hits = 0
    for seed in range(60):
        texts = scaled(drawn(60, 100 + seed), np.random.default_rng(seed).lognormal(0, 2, 60))
        hits += len({w.group for w in words_of(lambda t=texts: t, resamples=39).words if w.p <= 0.05})
    assert 1 <= hits <= 13  # of 120 groups 6 are expected; more than 13, or none, have a probability of .005


def test_equal_scores_and_single_words_say_nothing() -> None:
    flat = [TextWords(i, "x", ["a", "b", "a"], [0.1, 0.1, 0.1]) for i in range(9)]
    rounded = [TextWords(i, "x", ["a", "b", "c"], [0.1 + 7e-9, 0.1, 0.1]) for i in range(9)]  # as float32 does
    alone = [TextWords(i, "x", ["a"], [float(i)]) for i in range(9)]
    for texts in (flat, alone, rounded):
        assert {w.p for w in words_of(lambda t=texts: t).words} == {1.0}


def test_too_many_words_are_counted_out_and_said() -> None:
    texts = drawn(60, 6)
    found = words_of(lambda: texts, least=1, most=5, resamples=3)
    assert (len(found.words), found.left_out) == (5, 11)
    assert min(w.texts for w in found.words) >= 13


def test_no_word_of_enough_texts() -> None:
    assert words_of(lambda: drawn(4, 7), least=9).words == ()
    assert words_of(lambda: [TextWords(0, "x", [], [])], least=1).words == ()


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_are_refused(score: float) -> None:
    """Of all words of a group p would be the least there is."""
    texts = drawn(20, 0)
    texts[7] = replace(texts[7], scores=[*texts[7].scores[:-1], score])
    with pytest.raises(NotFinite, match=r"expected finite scores of words, got NaN or infinity in row 7"):
        words_of(lambda: texts, resamples=5)
