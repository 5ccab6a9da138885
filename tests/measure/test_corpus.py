"""Anisotropy against all pairs one by one; online coding on labels that vectors do and do not tell."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mixlens.errors import InputError, UnknownOption
from mixlens.measure import corpus, measure, probing
from mixlens.measure.corpus import anisotropy, unit_sum
from mixlens.measure.probing import ENDS, _nats, _trained, block_ends, mdl_compression, mdl_spread, online_code
from mixlens.measure.statistics import resampled


@pytest.fixture
def short(monkeypatch):
    """Probes that learn a little: enough where it does not matter how well they learn."""
    monkeypatch.setattr(probing, "_CHECKS", 3)


def texts(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 5)) + 1 for n in (3, 1, 4, 2)]


def pairs(vectors: list[np.ndarray]) -> list[float]:
    """Cosines of all ordered pairs of different texts."""
    return [
        float(x @ y / math.sqrt((x @ x) * (y @ y)))
        for i, a in enumerate(vectors)
        for j, b in enumerate(vectors)
        if i != j
        for x in a
        for y in b
    ]


def gathered(vectors: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    sums, counts = zip(*map(unit_sum, vectors), strict=True)
    return np.stack(sums), np.array(counts)


def test_anisotropy_is_the_mean_over_all_pairs():
    assert measure("anisotropy")(*gathered(texts())) == pytest.approx(np.mean(pairs(texts())))


def test_anisotropy_of_a_draw():
    """A text that was drawn twice does not pair with itself."""
    a, b, c, _ = texts()
    weights = np.array([2.0, 1.0, 1.0, 0.0])
    twice = [x for x in pairs([a, b]) + pairs([a, c]) for _ in range(2)] + pairs([b, c])
    assert anisotropy(*gathered(texts()), weights) == pytest.approx(np.mean(twice))


def test_many_draws_at_once_are_each_draw(monkeypatch):
    """Also where texts come in blocks; a draw of one text alone has no pair."""
    monkeypatch.setattr(corpus, "_BLOCK", 3)
    sums, counts = gathered(texts())
    drawn = np.array([[1, 1, 1, 1], [2, 1, 1, 0], [0, 4, 0, 0], [0, 2, 0, 2]], dtype=np.float64)
    together = corpus.anisotropy_draws(sums, counts, drawn)
    np.testing.assert_allclose(together, [anisotropy(sums, counts, w) for w in drawn])
    assert math.isnan(together[2])
    spread = corpus.anisotropy_spread(sums, counts, resamples=200)
    low, high = resampled(lambda w: anisotropy(sums, counts, w), 4, resamples=200)
    assert (spread.low, spread.high) == pytest.approx((low, high)) and spread.n == 4


def test_the_null_of_probing_is_permuted_labels(short):
    vectors, labels = told(12)
    spread = mdl_spread(vectors, labels, resamples=200)
    mixed = labels[np.random.default_rng((0, 12)).permutation(12)]
    assert (spread.value, spread.null) == (mdl_compression(vectors, labels), mdl_compression(vectors, mixed))
    assert spread.low <= spread.value <= spread.high and 0 < spread.p_null <= 1
    one = mdl_spread(vectors, np.zeros(12, dtype=int))
    assert one.n == 0 and math.isnan(one.value) and math.isnan(one.p_null)


def test_anisotropy_at_its_ends():
    one = np.array([[1.0, 2.0]])
    assert anisotropy(*gathered([one, 3 * one])) == pytest.approx(1)
    assert anisotropy(*gathered([one, -one])) == pytest.approx(-1)
    assert math.isnan(anisotropy(*gathered([one])))
    assert math.isnan(anisotropy(*gathered([one, 0 * one])))  # no direction
    assert unit_sum(np.zeros((2, 3)))[1] == 0


def test_a_text_alone_has_no_spread():
    """And is not counted: the measure is undefined."""
    spread = corpus.anisotropy_spread(*gathered([np.ones((3, 2))]), resamples=10)
    assert spread.n == 0
    numbers = (spread.value, spread.low, spread.high, spread.null, spread.p_null)
    assert all(math.isnan(number) for number in numbers)


# ---- online coding


def told(n: int, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    return rng.normal(size=(n, 8)) + 4 * np.eye(8)[labels], labels


def test_blocks():
    assert block_ends(1000) == [8, 16, 32, 62, 125, 250, 500, 1000]
    assert block_ends(100) == [2, 3, 6, 12, 25, 50, 100]
    assert block_ends(2) == [2] and block_ends(1) == [1] and block_ends(0) == [0]
    assert ENDS[-1] == 100


def test_labels_that_vectors_tell_and_do_not():
    vectors, labels = told(300)
    separable = mdl_compression(vectors, labels)
    random = mdl_compression(vectors, np.random.default_rng(1).permutation(labels))
    assert 0.8 < random < 1.05  # small blocks are coded with probes that stopped on one or two examples
    assert separable > 5


def test_compression_is_the_ratio_of_the_code_lengths(short):
    vectors, labels = told(40, classes=3)
    code = online_code(vectors, labels)
    assert code.uniform == math.log2(3)
    assert code.compression == pytest.approx(40 * math.log2(3) / code.bits.sum())
    assert measure("mdl_compression")(vectors, labels) == code.compression
    first = np.random.default_rng(0).permutation(40)[: block_ends(40)[0]]
    assert (code.bits[first] == math.log2(3)).all()  # the first block goes in the uniform code
    assert (code.bits > 0).all()


def test_names_of_classes_do_not_matter_and_nothing_is_left_to_chance(short):
    vectors, labels = told(20)
    before = torch.get_rng_state()
    one = online_code(vectors, labels, seed=3)
    torch.rand(5)
    other = online_code(vectors, np.array(["no", "yes"])[labels], seed=3)
    assert (one.bits == other.bits).all()
    assert not (one.bits == online_code(vectors, labels, seed=4).bits).all()
    torch.set_rng_state(before)
    online_code(vectors, labels)
    assert (torch.get_rng_state() == before).all()


def test_a_block_to_be_coded_is_never_looked_at(short):
    """Other labels in the last block leave the bits of all other blocks alone."""
    vectors, labels = told(40)
    last = np.random.default_rng(0).permutation(40)[block_ends(40)[-2] :]
    changed = labels.copy()
    changed[last] = 1 - changed[last]
    one, other = online_code(vectors, labels).bits, online_code(vectors, changed).bits
    rest = np.setdiff1d(np.arange(40), last)
    assert (one[rest] == other[rest]).all()
    np.testing.assert_allclose(2 ** -one[last] + 2 ** -other[last], 1)  # one probe's two answers


def test_the_state_with_the_least_held_out_loss_is_kept():
    """On labels that nothing tells, training on makes the held-out loss rise above the untrained probe's."""
    rng = np.random.default_rng(0)
    x, y = torch.tensor(rng.normal(size=(100, 30)), dtype=torch.float32), torch.tensor(rng.integers(2, size=100))
    with torch.random.fork_rng(devices=[]):
        for seed in range(3):
            torch.manual_seed(seed)
            assert _nats(_trained(x, y, 2, 16), x[:10], y[:10]).mean() <= math.log(2) + 1e-6


class Watched:
    """Counts the optimiser's steps and the held-out losses of one training; sees whether neurons were dropped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps, self.losses, self.dropped = 0, 0, set[bool]()
        step, nats, forward = torch.optim.AdamW.step, probing._nats, torch.nn.Dropout.forward

        def counted_step(optimiser, *args, **more):
            self.steps += 1
            return step(optimiser, *args, **more)

        def counted_nats(*args):
            self.losses += 1
            return nats(*args)

        def seen(dropout, x):
            self.dropped.add(dropout.training)
            return forward(dropout, x)

        monkeypatch.setattr(torch.optim.AdamW, "step", counted_step)
        monkeypatch.setattr(probing, "_nats", counted_nats)
        monkeypatch.setattr(torch.nn.Dropout, "forward", seen)


def trained(x: np.ndarray, y: np.ndarray) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        _trained(torch.tensor(x, dtype=torch.float32), torch.tensor(y), 2, 16)


def test_training_ends_where_the_held_out_loss_no_longer_falls(monkeypatch):
    rng = np.random.default_rng(0)
    nothing = Watched(monkeypatch)
    trained(rng.normal(size=(600, 30)), rng.integers(2, size=600))
    assert 1 + probing._PATIENCE <= nothing.losses < 1 + probing._CHECKS
    assert nothing.steps == 5 * (nothing.losses - 1)  # 540 examples in batches of 128
    assert nothing.dropped == {True, False}  # while it learns, and not while it is asked
    monkeypatch.undo()
    some = Watched(monkeypatch)
    labels = rng.integers(2, size=200)
    trained(rng.normal(size=(200, 8)) + 1.5 * np.eye(8)[labels], labels)
    assert 10 + probing._PATIENCE < some.losses < 1 + probing._CHECKS
    assert some.steps == probing._STEPS * (some.losses - 1)


def test_corpora_too_small_or_of_one_class():
    vectors = np.ones((3, 2))
    assert math.isnan(mdl_compression(vectors, np.zeros(3, dtype=int)))
    assert math.isnan(mdl_compression(vectors[:0], np.zeros(0, dtype=int)))
    assert mdl_compression(vectors[:2], np.array([0, 1])) == 1
    assert mdl_compression(vectors, np.array([0, 1, 2])) > 0
    with pytest.raises(UnknownOption, match="hidden"):
        mdl_compression(vectors, np.zeros(3, dtype=int), hidden=0)
    with pytest.raises(InputError, match="finite"):
        mdl_compression(vectors * np.nan, np.array([0, 1, 0]))
    with pytest.raises(InputError, match="a label for each"):
        mdl_compression(vectors, np.array([0, 1]))
