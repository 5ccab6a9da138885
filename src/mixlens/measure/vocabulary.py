"""The words of many texts: the mean score of each, an interval over texts, and what chance would give.

A text gives a word one number, the mean score of its occurrences there. Over the texts of a group (those of one
class) that hold the word: their mean; its interval by a Poisson bootstrap of texts (each counts 0, 1, 2 ... times); the
null by shuffling each text's scores among its words, exact in its mean, with its quantiles by draws.

Whether a word stands out is asked with each text's scores in standard deviations of that text: how large scores are
differs up to thirtyfold between texts (gradients of a sure answer are small), and a mean of them as they are is that of
a few texts. The word's distance from the null, over what shuffling makes of it, is held against the largest of
all words of its group in each shuffle (Westfall & Young 1993): one statement for the group, however many words it has.

Two passes over the texts; what is held grows with the vocabulary, not with the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from mixlens.errors import NotFinite

Array = NDArray[np.float64]
MOST = 10_000  # words that are counted beside each other: those of most texts
_AT_ONCE = 512  # texts


@dataclass(frozen=True)
class TextWords:
    """A text's words and their scores. `row`: its number; `group`: what it is counted with."""

    row: int
    group: Hashable
    words: Sequence[str]
    scores: Sequence[float]


@dataclass(frozen=True)
class WordStatistics:
    """A word in the texts of its group. `p`: that shuffling takes any word of it as far, by texts' own deviations.

    `example`: the row of the text in which its score is largest.
    """

    group: Any
    word: str
    texts: int
    mean: float
    low: float
    high: float
    null: float
    null_low: float
    null_high: float
    p: float
    example: int


@dataclass(frozen=True)
class Found:
    """Statistics of words by group, and how many words of enough texts were not counted (see `MOST`)."""

    words: tuple[WordStatistics, ...]
    left_out: int


def words_of(
    texts: Callable[[], Iterable[TextWords]],
    *,
    least: int = 3,
    level: float = 0.95,
    resamples: int = 200,
    seed: int = 0,
    most: int = MOST,
) -> Found:
    """The statistics of every word in at least `least` texts of a group, in the order of the groups' first texts.

    `texts`: called twice, the same each time. Words of a group: the farthest above its null first. Raises NotFinite.
    """
    slots, left_out = _counted(texts(), least, most)
    sums = _Sums(len(slots), resamples)
    rng = np.random.default_rng(seed)
    groups = list(dict.fromkeys(group for group, _ in slots))
    for part in _parts(texts()):
        _add(sums, part, slots, rng)
    tails = sorted({(1 - level) / 2, (1 + level) / 2})
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, null = sums.total / sums.texts, sums.null / sums.texts
        drawn = np.divide(sums.drawn, sums.drawn_texts, out=sums.drawn)  # of no text: NaN
        shuffled = np.divide(sums.shuffled, sums.texts[:, None], out=sums.shuffled)
    deviation = np.sqrt(np.where(sums.variance > 0, sums.variance, np.inf))  # nothing to shuffle: no distance
    away = np.abs(sums.away) / deviation
    away[sums.away * (mean - null) < 0] = 0.0  # texts disagree with their mean: neither above nor below
    shuffled_away = np.abs(sums.shuffled_away, out=sums.shuffled_away)
    shuffled_away /= deviation[:, None]
    p = np.ones(len(slots))
    number = {group: k for k, group in enumerate(groups)}
    member = np.array([number[group] for group, _ in slots], dtype=int)
    for k in range(len(groups)):
        mine = np.flatnonzero(member == k)
        largest = shuffled_away[mine].max(0)
        p[mine] = (1 + (largest[None] >= away[mine][:, None] - 1e-9).sum(1)) / (1 + resamples)
    low, high = np.nanquantile(drawn, tails, axis=1) if len(slots) else np.empty((2, 0))
    null_low, null_high = np.quantile(shuffled, tails, axis=1) if len(slots) else np.empty((2, 0))
    columns = (mean, low, high, null, null_low, null_high, p)
    out = []
    for (group, word), i in slots.items():
        numbers = [float(column[i]) for column in columns]
        out.append(WordStatistics(group, word, int(sums.texts[i]), *numbers, int(sums.best_row[i])))  # type: ignore[arg-type, call-arg]
    out.sort(key=lambda w: (number[w.group], w.p > 1 - level or w.mean <= w.null, -(w.mean - w.null), w.word))
    return Found(tuple(out), left_out)


_FLAT = 1e-6  # a text of equal scores has nothing to shuffle: what rounding to float32 leaves is no deviation


class _Sums:
    """Over texts, a number a word: what the statistics are made of. `away`, `variance`: in texts' own deviations."""

    def __init__(self, count: int, resamples: int) -> None:
        self.texts, self.total, self.null, self.away, self.variance = (np.zeros(count) for _ in range(5))
        self.drawn, self.drawn_texts = (np.zeros((count, resamples)) for _ in range(2))
        self.shuffled, self.shuffled_away = (np.zeros((count, resamples)) for _ in range(2))
        self.best, self.best_row = np.full(count, -np.inf), np.zeros(count, dtype=np.int64)


def _counted(texts: Iterable[TextWords], least: int, most: int) -> tuple[dict[tuple[Any, str], int], int]:
    """(group, word) -> its place, for those of enough texts; how many are left out of these."""
    counts: Counter[tuple[Any, str]] = Counter()
    first: dict[Any, int] = {}
    for text in texts:
        first.setdefault(text.group, len(first))
        counts.update((text.group, word) for word in set(text.words))
    enough = [key for key, count in counts.items() if count >= least]
    enough.sort(key=lambda key: (-counts[key], first[key[0]], key[1]))
    kept = sorted(enough[:most], key=lambda key: (first[key[0]], key[1]))
    return {key: i for i, key in enumerate(kept)}, len(enough) - len(kept)


def _parts(texts: Iterable[TextWords]) -> Iterator[list[TextWords]]:
    part: list[TextWords] = []
    for text in texts:
        if len(text.words):
            part.append(text)
        if len(part) == _AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _add(sums: _Sums, part: Sequence[TextWords], slots: dict[tuple[Any, str], int], rng: np.random.Generator) -> None:
    """Add some texts. Raises NotFinite: no number would be larger than NaN, so that every word would stand out."""
    sizes = np.array([len(text.words) for text in part])
    text_of = np.repeat(np.arange(len(part)), sizes)
    scores = np.concatenate([np.asarray(text.scores, dtype=np.float64) for text in part])
    if not np.isfinite(scores).all():
        row = part[text_of[np.flatnonzero(~np.isfinite(scores))[0]]].row
        raise NotFinite(f"expected finite scores of words, got NaN or infinity in row {row}")
    slot = np.array([slots.get((text.group, word), -1) for text in part for word in text.words])
    means = np.bincount(text_of, scores) / sizes
    spread = np.sqrt(np.bincount(text_of, (scores - means[text_of]) ** 2) / sizes)
    varies = spread > _FLAT * np.sqrt(np.bincount(text_of, scores**2) / sizes)
    scale = np.where(varies, 1 / np.where(varies, spread, 1.0), 0.0)
    kept = np.flatnonzero(slot >= 0)
    pairs, pair_of, times = np.unique(text_of[kept] * len(slots) + slot[kept], return_inverse=True, return_counts=True)
    texts, words = np.divmod(pairs, max(1, len(slots)))
    resamples = sums.shuffled.shape[1]
    weights = rng.poisson(1.0, (len(part), resamples)).astype(np.float64)
    if not len(pairs):
        return

    def by_pair(values: Array) -> Array:
        """The mean score of each word in each text."""
        return np.bincount(pair_of, values[kept], len(pairs)) / times

    value, count = by_pair(scores), len(sums.texts)
    chance, weight = means[texts], scale[texts]
    sums.texts += np.bincount(words, minlength=count)
    sums.total += np.bincount(words, value, count)
    sums.null += np.bincount(words, chance, count)
    sums.away += np.bincount(words, (value - chance) * weight, count)
    size = sizes[texts]  # the variance of a mean of `times` of `size` scores, drawn without putting back
    left = np.where(size > 1, (size - times) / np.maximum(size - 1, 1), 0.0)
    sums.variance += np.bincount(words, varies[texts] / times * left, count)
    here, place = np.unique(words, return_inverse=True)
    shape = (len(here), len(part))
    sums.drawn[here] += csr_matrix((value, (place, texts)), shape) @ weights
    sums.drawn_texts[here] += csr_matrix((np.ones(len(value)), (place, texts)), shape) @ weights
    for draw in range(resamples):
        order = np.argsort(text_of + rng.random(len(text_of)))
        mixed = by_pair(scores[order])
        sums.shuffled[:, draw] += np.bincount(words, mixed, count)
        sums.shuffled_away[:, draw] += np.bincount(words, (mixed - chance) * weight, count)
    order = np.lexsort((-texts, value))  # of equal ones the first text
    best = np.full(count, -1)
    best[words[order]] = order
    for i in np.flatnonzero(best >= 0):
        if value[best[i]] > sums.best[i]:
            sums.best[i], sums.best_row[i] = value[best[i]], part[texts[best[i]]].row
