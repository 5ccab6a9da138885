"""What a similarity method is: a vector for each token of a text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixlens.capture.stream import Stream
from mixlens.progress import Progress
from mixlens.similarity.encoder import Encoder
from mixlens.similarity.vectors import TextVectors


@dataclass(frozen=True)
class Passes:
    """How texts go through the model: at most so many at a time, in so much memory, and who is told."""

    batch_size: int = 32
    memory: int | str | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Similarity(ABC):
    """A line of the table. `words`: what it takes. `complete`: the tokens' vectors sum to the text's own, so that
    pairs sum to the cosine.
    """

    name: str
    summary: str
    cite: str
    words: str
    complete: bool = True

    def options(self) -> dict[str, Any]:
        """Its options with their defaults."""
        return {}

    @abstractmethod
    def vectors(
        self, encoder: Encoder, texts: Sequence[Stream], options: Mapping[str, Any], passes: Passes
    ) -> list[TextVectors]:
        """Of each text. Raises UnknownOption, Undefined, NotFinite, OverBudget."""
