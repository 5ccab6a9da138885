"""What a trace must have to be drawn (see `drawn`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from mixlens.capture.stream import Stream
from mixlens.target import Target
from mixlens.view.kit.drawn import Attribution


class Part(Protocol):
    """A unit of a trace: tokens that stand together."""

    @property
    def name(self) -> str:
        """A document's name, a turn's role, else the text."""

    @property
    def text(self) -> str:
        """The text."""

    @property
    def indices(self) -> tuple[int, ...]:
        """Its tokens, from the prompt's first on."""

    @property
    def where(self) -> str:
        """Prompt, answer or template."""


class Trace(Protocol):
    """Each answer token's scores over prompt and answer."""

    @property
    def prompt(self) -> Stream:
        """What was asked."""

    @property
    def answer(self) -> Stream:
        """What was answered."""

    @property
    def scores(self) -> Tensor:
        """(answer token, source)."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Of which model, with which documents."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """What is explained of each answer token."""

    @property
    def said(self) -> tuple[Mapping[str, Any], ...]:
        """What the model says there."""

    @property
    def foil(self) -> str | None:
        """What the answer is explained rather than."""

    def __len__(self) -> int: ...

    def span(self, first: int, last: int, *, prompt_only: bool = False) -> Attribution:
        """The mean of several answer tokens' rows."""

    def units(self, by: Any = ...) -> UnitTrace:
        """The same by units."""

    def citations(self, threshold: float = ...) -> Sequence[Any]:
        """What each sentence came from."""


class UnitTrace(Protocol):
    """A trace by units on both axes."""

    @property
    def answer(self) -> tuple[Part, ...]:
        """The answer's."""

    @property
    def sources(self) -> tuple[Part, ...]:
        """The sources'."""

    @property
    def scores(self) -> Tensor:
        """(answer unit, source unit)."""

    @property
    def by(self) -> tuple[str, str]:
        """What the units are, of prompt and answer."""

    @property
    def probabilities(self) -> tuple[float | None, ...]:
        """Of each answer unit's tokens together."""

    @property
    def method(self) -> str:
        """What made the scores."""

    @property
    def options(self) -> Mapping[str, Any]:
        """With which options."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Of which model."""

    def top(self, n: int = ...) -> Sequence[Any]:
        """Each answer unit's largest sources."""
