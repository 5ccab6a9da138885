"""What an explained data set must have to be drawn, as `drawn`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from mixlens.view.kit.drawn import Attribution


class WordScore(Protocol):
    """A word over the texts of a class."""

    @property
    def word(self) -> str:
        """The word."""

    @property
    def texts(self) -> int:
        """How many texts hold it."""

    @property
    def mean(self) -> float:
        """The mean of its score."""

    @property
    def low(self) -> float:
        """The lower end of its interval."""

    @property
    def high(self) -> float:
        """The upper end of its interval."""

    @property
    def null(self) -> float:
        """What chance gives."""

    @property
    def stands_out(self) -> bool:
        """Whether chance does not explain it."""

    @property
    def excess(self) -> float:
        """The mean less what chance gives."""

    @property
    def example(self) -> int:
        """The row of the text in which it has its largest score."""


class WordTable(Protocol):
    """The words of every class."""

    @property
    def level(self) -> float:
        """Of the intervals."""

    @property
    def tested(self) -> int:
        """How many words were counted."""

    @property
    def left_out(self) -> int:
        """How many were not."""

    def of(self, target: str | None, by: str | None = None) -> Sequence[WordScore]:
        """The words of a class."""


class Explained(Protocol):
    """The explained texts of a data set."""

    @property
    def manifest(self) -> Mapping[str, Any]:
        """How they were made."""

    @property
    def method(self) -> str:
        """By which method."""

    @property
    def finished(self) -> bool:
        """Whether all of the data was read."""

    @property
    def failures(self) -> Sequence[Any]:
        """The rows that could not be explained: row, id, error."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...

    def columns(self, *names: str) -> Iterator[dict[str, Any]]:
        """The texts as plain data of these columns alone."""

    def attributions(self, rows: Sequence[int]) -> Mapping[int, Attribution]:
        """The Attributions of texts by the numbers of their rows."""

    def words(self, *, by: str | None = None, seed: int = 0) -> WordTable:
        """The words that speak for each class."""
