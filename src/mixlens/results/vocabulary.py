"""The words of an explained data set: a table of what speaks for each class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from mixlens.results.tabled import Tabled

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class WordScore:
    """A word over the texts of a class: the mean of its score there, and what chance gives.

    `texts`: how many of them hold it; `low`, `high`: the bootstrap interval of the mean over texts; `null`,
    `null_low`, `null_high`: the mean where each text's scores are shuffled among its words, and its interval; `p`:
    that shuffling takes any word of the class as far from its null, each text's scores measured in their own standard
    deviation; `stands_out`: p is at most 1 - level. `by`: the value of the column that the texts are split by.
    `example`: the row of the text in which its score is largest.
    """

    target: str | None
    word: str
    texts: int
    mean: float
    low: float
    high: float
    null: float
    null_low: float
    null_high: float
    p: float
    stands_out: bool
    example: int
    by: str | None = None

    @property
    def excess(self) -> float:
        """How far the mean is above the null."""
        return self.mean - self.null


@dataclass(frozen=True)
class WordTable(Tabled, Sequence[WordScore]):
    """`WordScore`s, those of a class together; of each first the words that stand out above their null, by how far.

    `left_out`: words of enough texts that were not counted, since there were too many; `tested`: how many were.
    """

    rows: tuple[WordScore, ...]
    level: float
    left_out: int = 0
    tested: int = 0

    _columns: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("by", "target", "word"), "str"),
        "texts": "int",
        **dict.fromkeys(("mean", "low", "high", "null", "null_low", "null_high", "p"), "float"),
        "stands_out": "bool",
        "example": "int",
    }

    def __getitem__(self, i: Any) -> Any:
        return self.rows[i]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[WordScore]:
        return iter(self.rows)

    def of(self, target: str | None, by: str | None = None) -> tuple[WordScore, ...]:
        """The words of one class."""
        return tuple(row for row in self.rows if row.target == target and row.by == by)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A row a word as plain data."""
        return [{name: values[name] for name in self._columns} for values in map(asdict, self.rows)]

    def to_frame(self) -> pandas.DataFrame:
        """The rows of `to_dicts` as a table. Needs the extra `pandas`. Raises MissingExtra."""
        from mixlens.view import explained

        return explained.words_frame(self.to_dicts(), tuple(self._columns))

    to_pandas = to_frame

    def __repr__(self) -> str:
        return f"WordTable({len(self.rows)} words of {self.tested})"
