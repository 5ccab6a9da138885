"""`Stream`: a row of positions, whatever they are: tokens of a text, patches of a picture, frames of speech.

Results, measures, views and storage know streams; what else a text has (ids, pieces, spans) is `Tokens`' own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mixlens.errors import InputError

Place = tuple[float, ...]


class Stream:
    """A row of positions, frozen. Its kinds are `capture.text.Tokens`, and `Positions` for whatever is no text.

    n: how many positions there are; None until a pass has said it (speech), when `with_length` fills it in
    names: what each position is called
    special: whether it is no content (special tokens, registers)
    places: where each stands in what came in, a number each of `axes`; None for one that stands nowhere, and
        altogether where nothing is known
    inputs: what the model is fed beside the ids of a text
    """

    unit: str = "position"  # what one position is called: token, patch, frame
    axes: tuple[str, ...] = ()  # the numbers of a place: start and end; left, top, right and bottom
    dropped: int = 0  # positions cut off because the caller asked for it
    padded: int = 0  # positions that are padding, read as if they were none

    if TYPE_CHECKING:  # a field of a frozen dataclass cannot stand over a property, so there is none at run time

        @property
        def n(self) -> int | None: ...  # noqa: D102
        @property
        def names(self) -> tuple[str, ...]: ...  # noqa: D102
        @property
        def special(self) -> tuple[bool, ...]: ...  # noqa: D102
        @property
        def places(self) -> Sequence[Place | None] | None: ...  # noqa: D102
        @property
        def inputs(self) -> Mapping[str, Any]: ...  # noqa: D102

    def __len__(self) -> int:
        if self.n is None:
            raise InputError(
                f"expected a stream of known length, got one of {self.units} that the model counts in its pass; "
                "ask behind the pass, or fill it in: stream.with_length(n)"
            )
        return self.n

    @property
    def alike(self) -> tuple[int, ...]:
        """What must be equal for streams of a length to go through a model together."""
        return ()

    @property
    def replaceable(self) -> range | tuple[int, ...]:
        """The positions in whose place something else can be put."""
        return range(len(self))

    @property
    def seed(self) -> tuple[int, ...]:
        """Numbers of what the model is fed, which random draws for this stream begin with."""
        raise NotImplementedError(f"a row of {self.units} seeds no draw")

    @property
    def units(self) -> str:
        """The plural of `unit`."""
        return self.unit + ("es" if self.unit.endswith(("ch", "s", "sh", "x")) else "s")

    def with_length(self, n: int) -> Stream:
        """The stream of `n` positions, where a pass was to say how many. Raises InputError if it has another length."""
        if n != self.n:
            raise InputError(f"expected the length of a stream of {self.n} {self.units}, got {n}; make another stream")
        return self

    @property
    def raw(self) -> str | tuple[str, ...] | None:
        """What came in, where that was a text (two of a pair); None for all else."""
        return None

    @property
    def display(self) -> tuple[str, ...]:
        """The positions as a reader knows them."""
        return self.names

    @property
    def offsets(self) -> tuple[tuple[int, int] | None, ...] | None:
        """Characters [start, end) of every position in its text; None where it is no text or they are not known."""
        return None

    @property
    def has_words(self) -> bool:
        """Whether `words.units` can put positions together to words."""
        return False

    def excerpt(self, first: int, last: int) -> str | None:
        """The text from position `first` to position `last`; None where there is none."""
        return None

    def columns(self) -> dict[str, list[float | None]]:
        """The places as columns of a table, one a name of `axes`."""
        places = (None,) * len(self) if self.places is None else self.places
        return {axis: [None if p is None else p[k] for p in places] for k, axis in enumerate(self.axes)}

    def validate(self) -> None:
        """Raises ValueError where lengths or places do not go together."""


@dataclass(frozen=True)
class Positions(Stream):
    """A stream of anything but text: patches of a picture with their boxes, frames of speech with their seconds.

    `labels`: names of the positions (without, they are numbered); `marks`: which are special (without, none is).
    Raises InputError where lengths do not agree.
    """

    unit: str = "position"
    n: int | None = None
    labels: tuple[str, ...] | None = None
    marks: tuple[bool, ...] | None = None
    places: tuple[Place | None, ...] | None = None
    axes: tuple[str, ...] = ()
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, row in (("labels", self.labels), ("marks", self.marks), ("places", self.places)):
            if row is not None and self.n is None:
                object.__setattr__(self, "n", len(row))
            if row is not None and len(row) != self.n:
                raise InputError(f"expected {self.n} {name}, one a {self.unit}, got {len(row)}")
        for place in self.places or ():
            if place is not None and len(place) != len(self.axes):
                raise InputError(f"expected places of {len(self.axes)} numbers {self.axes}, got {place}")

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, or numbered units. Raises InputError where a pass has yet to say how many."""
        return tuple(f"{self.unit} {i}" for i in range(len(self))) if self.labels is None else self.labels

    @property
    def special(self) -> tuple[bool, ...]:
        """The marks, or none. Raises InputError where a pass has yet to say how many."""
        return (False,) * len(self) if self.marks is None else self.marks

    def with_length(self, n: int, places: tuple[Place | None, ...] | None = None) -> Stream:
        """The stream as a pass has said it is: of `n` positions at `places`. Raises InputError if it was another."""
        if self.n is None:
            return replace(self, n=n, places=places)
        return super().with_length(n)
