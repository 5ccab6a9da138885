"""What a result must have to be drawn, under the names of the classes that have it; views know no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mixlens.capture.stream import Stream
from mixlens.capture.words import Unit
from mixlens.target import Target

if TYPE_CHECKING:
    from mixlens.measure.faithfulness import Faithfulness
    from mixlens.measure.statistics import Ranking


class Result(Protocol):
    """Scores of the positions of a stream, and where they come from."""

    @property
    def source(self) -> Stream:
        """The stream that the last axis of the scores is of."""

    @property
    def scores(self) -> Tensor:
        """The numbers."""

    @property
    def method(self) -> str:
        """What made them."""

    @property
    def options(self) -> Mapping[str, Any]:
        """With which options."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Of which model, by which versions, with which answer and warnings."""

    @property
    def display(self) -> tuple[str, ...]:
        """The positions' names as a reader knows them."""

    @property
    def special(self) -> tuple[bool, ...]:
        """Which positions are of the tokenizer's template."""


class Attribution(Result, Protocol):
    """One score a position."""

    @property
    def target(self) -> Target | None:
        """What is explained."""

    @property
    def layers(self) -> Tensor | None:
        """The scores of each layer, (layer, position)."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The positions' own names."""

    def units(self) -> tuple[Unit, ...]:
        """The words, and the positions that each holds."""


class LayerMaps(Result, Protocol):
    """A map a layer, (layer, query, key) or (layer, head, query, key)."""

    @property
    def keys(self) -> Stream:
        """The stream that is taken from."""

    @property
    def queries(self) -> Stream:
        """The stream that takes."""

    @property
    def heads(self) -> int | None:
        """How many heads have a map each."""

    @property
    def rows(self) -> tuple[int, ...] | None:
        """Which query rows are here, where not all."""

    @property
    def layer_numbers(self) -> tuple[int, ...] | None:
        """Which layers are here, where not all."""

    def __len__(self) -> int: ...

    def row(self, i: int | str) -> Tensor:
        """A query row of every layer."""


class Similarity(Result, Protocol):
    """The shares of pairs of two texts' tokens."""

    @property
    def first(self) -> Attribution:
        """What each token of the first text adds."""

    @property
    def second(self) -> Attribution:
        """What each token of the second text adds."""

    @property
    def map(self) -> LayerMaps:
        """The pairs as a map."""

    @property
    def streams(self) -> tuple[Stream, Stream]:
        """Both texts."""

    @property
    def value(self) -> float:
        """The cosine."""

    @property
    def explained(self) -> float:
        """What the pairs sum to."""

    def top(self, k: int = 5) -> Sequence[Any]:
        """The pairs of words with the largest shares."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """A row a pair."""


class Comparison(Protocol):
    """Several methods on one text."""

    @property
    def attributions(self) -> Mapping[str, Attribution]:
        """Each method's scores."""

    @property
    def maps(self) -> Mapping[str, LayerMaps]:
        """The maps behind a method."""

    @property
    def faithfulness(self) -> Mapping[str, Faithfulness]:
        """How faithful a method is."""

    @property
    def skipped(self) -> Mapping[str, str]:
        """Why a method is missing."""

    @property
    def first(self) -> Attribution:
        """What has all that the methods share."""


class Results(Protocol):
    """A result a text, None where a text was skipped; or of one text, a result for each of several `names`."""

    @property
    def names(self) -> Sequence[str]:
        """What each is of; of several texts none."""

    @property
    def skipped(self) -> Mapping[int, str]:
        """Why a text was."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __getitem__(self, part: slice, /) -> Sequence[Any]: ...


class Row(Protocol):
    """A line of an evaluation's table."""

    @property
    def measure(self) -> str:
        """The measure, without its reference."""

    @property
    def method(self) -> str:
        """The method, or "model"."""

    @property
    def layer(self) -> int | None:
        """The layer, from 0; None for the whole model."""

    @property
    def n(self) -> int:
        """How many values were defined."""

    @property
    def n_undefined(self) -> int:
        """How many were not."""

    @property
    def n_errors(self) -> int:
        """How many texts failed."""

    @property
    def mean(self) -> float | None:
        """The mean over texts."""

    @property
    def low(self) -> float | None:
        """The lower end of its interval."""

    @property
    def high(self) -> float | None:
        """The upper end."""

    @property
    def null(self) -> float | None:
        """The mean of random scores."""

    @property
    def p_null(self) -> float | None:
        """The p value against them."""


class Table(Protocol):
    """What an evaluation found."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """All lines."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """How it was made."""

    @property
    def wrong(self) -> tuple[str, ...]:
        """Answers that are not the model's own, by their ids."""

    @property
    def level(self) -> float:
        """Of the intervals."""

    @property
    def resamples(self) -> int:
        """Of the bootstrap."""

    @property
    def seed(self) -> int:
        """Of the bootstrap."""

    @property
    def array(self) -> NDArray[np.float64]:
        """Every text's values, (column, text)."""

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods' labels."""

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures of methods."""

    @property
    def corpora(self) -> tuple[str, ...]:
        """The measures of the model's vectors."""

    def row(self, measure: str, method: str, layer: int | None = None) -> Row:
        """One line."""

    def layers(self, measure: str, method: str = ...) -> tuple[Row, ...]:
        """The lines of single layers."""

    def is_of(self, row: Any, measure: str) -> bool:
        """Whether a line belongs to a measure."""

    def curve(self, measure: str, method: str) -> NDArray[np.float64]:
        """The answer's probability as tokens go, (text, level)."""

    def ranking(self, measure: str) -> Ranking:
        """The methods from the best down."""

    def facts(self, measure: str) -> Mapping[str, Any]:
        """What the manifest says of a measure."""

    def named(self, name: str) -> str:
        """A measure's own name."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """The lines as plain data."""
