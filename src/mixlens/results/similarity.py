"""`Similarity`: which tokens of two texts made their vectors alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mixlens.arguments import checked, is_whole, shown
from mixlens.capture.picture import Picture
from mixlens.capture.stream import Stream
from mixlens.capture.words import Unit, units
from mixlens.errors import InputError, UnknownOption
from mixlens.escape import visible
from mixlens.files import PathLike, csv_text, put
from mixlens.results.attribution import Attribution
from mixlens.results.base import Result
from mixlens.results.maps import LayerMaps
from mixlens.results.plain import described, with_origin

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from mixlens.view.kit.style import Look


@dataclass(frozen=True)
class Pair:
    """A word of either text (or a patch of a picture), and their share in the cosine."""

    first: Unit
    second: Unit
    score: float


@dataclass(frozen=True, eq=False)
class Similarity(Result):
    """`scores` (first, second): the share of each pair of tokens in the cosine of two texts' vectors, or pictures'.

    `into` is the stream of the first text (the rows), `source` that of the second (the columns). `first_scores` and
    `second_scores`: what each token of either text adds to the cosine, the other text as it is. `value`: the cosine;
    `explained`: what the pairs sum to, the cosine itself where the method shares all of it out. Raises InputError for
    numbers that are not of these texts' lengths.

    Examples:
        >>> encoder = mixlens.load("mixlens:minilm")
        >>> alike = encoder.similarity("a fast car", "the quick automobile")
        >>> [(pair.first.text, pair.second.text) for pair in alike.top(2)]
        [('car', 'automobile'), ('fast', 'quick')]
    """

    into: Stream | None = None
    first_scores: Tensor | None = None
    second_scores: Tensor | None = None
    value: float = 0.0

    def __post_init__(self) -> None:
        if self.into is None or self.first_scores is None or self.second_scores is None:
            raise TypeError("Similarity needs two streams (source= and into=), and scores of both")
        shapes = [tuple(t.shape) for t in (self.scores, self.first_scores, self.second_scores)]
        n, m = len(self.into), len(self.source)
        if shapes != [(n, m), (n,), (m,)]:
            raise InputError(f"expected scores ({n}, {m}), and {n} and {m} of either text, got {shapes}")

    @property
    def explained(self) -> float:
        """What the pairs sum to."""
        return float(self.scores.double().sum())

    @property
    def streams(self) -> tuple[Stream, Stream]:
        """The first text and the second."""
        assert self.into is not None
        return self.into, self.source

    @property
    def first(self) -> Attribution:
        """What each token of the first text adds to the cosine."""
        return self._text(0, self.first_scores)

    @property
    def second(self) -> Attribution:
        """What each token of the second text adds to the cosine."""
        return self._text(1, self.second_scores)

    def _text(self, which: int, scores: Tensor | None) -> Attribution:
        assert scores is not None
        return Attribution(self.streams[which], scores, self.method, self.options, self.meta)

    @property
    def map(self) -> LayerMaps:
        """The pairs as one map, of the first text's tokens by the second's."""
        return LayerMaps(
            keys=self.source, queries=self.into, scores=self.scores[None], method=self.method, options=self.options,
            meta=self.meta, signed=True,
        )  # fmt: skip

    def words(self) -> tuple[tuple[Unit, ...], tuple[Unit, ...], Tensor]:
        """The words of both texts, special tokens alone, and the share of each pair of words (first, second).

        Of a picture its patches. Raises InputError where there are no offsets.
        """
        parts = tuple(_parts(stream) for stream in self.streams)
        rows = torch.stack([self.scores[list(u.indices)].sum(0) for u in parts[0]])
        return parts[0], parts[1], torch.stack([rows[:, list(u.indices)].sum(1) for u in parts[1]], 1)

    @checked
    def top(self, k: int = 5) -> list[Pair]:
        """The pairs of words (of a picture: patches) with the largest shares, special tokens left out.

        Raises InputError (no offsets), UnknownOption.
        """
        if not is_whole(k) or k < 1:
            raise UnknownOption(f"expected k of 1 or more, how many pairs, got {shown(k)}")
        firsts, seconds, shares = self.words()
        pairs = [
            Pair(a, b, float(shares[i, j]))
            for i, a in enumerate(firsts)
            for j, b in enumerate(seconds)
            if not (a.special or b.special)
        ]
        return sorted(pairs, key=lambda pair: -pair.score)[:k]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: both texts and their tokens, the cosine, shares of pairs, scores of each text."""
        numbers = {"first_scores": self.first.scores.tolist(), "second_scores": self.second.scores.tolist()}
        first = {f"first_{key}": value for key, value in described(self.streams[0]).items()}
        return {**with_origin(self, {**first, **numbers}), "cosine": self.value, "explained": self.explained}

    def to_dicts(self) -> list[dict[str, Any]]:
        """A row a pair of tokens: first, second (their numbers), first_token, second_token, score."""
        names = [stream.names for stream in self.streams]
        rows = self.scores.tolist()
        return [
            {"first": i, "second": j, "first_token": a, "second_token": b, "score": rows[i][j]}
            for i, a in enumerate(names[0])
            for j, b in enumerate(names[1])
        ]

    def to_frame(self) -> pandas.DataFrame:
        """A row a pair of tokens, as in `to_dicts`. Needs the extra `pandas`."""
        from mixlens.view import similarity

        return similarity.data_frame(self)

    @checked
    def to_csv(self, path: PathLike | None = None) -> str:
        """The rows of `to_dicts` as CSV; written to `path` if given. Raises ResultFileError."""
        return put(csv_text(_COLUMNS, self.to_dicts()), path)

    @checked
    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own: both texts in colours, the pairs as a picture; written to `path` if given."""
        from mixlens.view import similarity

        return similarity.page(self, path)

    @checked
    def plot(self, path: PathLike | None = None, **look: Unpack[Look]) -> Figure:
        """The pairs as a heatmap. The ending of `path` says the format. Raises UnknownOption, ResultFileError."""
        from mixlens.view import maps_figures, similarity

        return maps_figures.pairs(self.map, similarity.over_pairs(self), path, look)

    def _repr_html_(self) -> str:
        from mixlens.view import similarity

        return similarity.fragment(self)

    def __rich__(self) -> Any:
        from mixlens.view import similarity
        from mixlens.view.kit.visible import Visible

        return Visible(similarity.printout(self))

    def __str__(self) -> str:
        from mixlens.view.kit import terminal

        return terminal.as_text(self.__rich__())

    def __repr__(self) -> str:
        into, source = self.streams
        first = f"{len(into)}" if into.unit == source.unit else f"{len(into)} {into.units}"
        both = f"{first} x {len(source)} {source.units}"
        return visible(f"Similarity({self.method}, {both}, cosine {self.value:.3f})")


def _parts(stream: Stream) -> tuple[Unit, ...]:
    """The words of a text, the positions of a picture."""
    if not isinstance(stream, Picture):
        return units(stream)
    places = stream.places or (None,) * len(stream)
    rows = zip(stream.names, stream.special, places, strict=True)
    return tuple(Unit(name, (i,), special=special, place=place) for i, (name, special, place) in enumerate(rows))


_COLUMNS = ("first", "second", "first_token", "second_token", "score")
