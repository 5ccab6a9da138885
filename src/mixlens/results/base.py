"""What all results have: the stream, where the numbers come from, and the way to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from mixlens import storage
from mixlens.arguments import checked
from mixlens.capture.stream import Stream
from mixlens.capture.words import Unit, units
from mixlens.files import PathLike


@dataclass(frozen=True, eq=False)
class Result:
    """Scores of the positions of one stream: the tokens of a text. What an axis means, the classes below say."""

    source: Stream
    scores: Tensor
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str | tuple[str, ...] | None:
        """The raw text, a pair of texts, or None where token ids, or no text at all, were explained."""
        return self.source.raw

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of the positions, one a score; of a text its tokenizer's own: `"##ing"`, `"Ġfilm"`."""
        return self.source.names

    @property
    def offsets(self) -> tuple[tuple[int, int] | None, ...] | None:
        """Characters [start, end) of every token in its raw text; None for special tokens (and altogether for ids)."""
        return self.source.offsets

    @property
    def special(self) -> tuple[bool, ...]:
        """True where a token was put there by the tokenizer's template."""
        return self.source.special

    @property
    def display(self) -> tuple[str, ...]:
        """The tokens as a reader knows them: the raw text's characters where there are offsets.

        A token of blanks alone shows as `␣` (`↵` for a line end); where token ids came in, the tokenizer's own name.
        """
        return self.source.display

    def units(self) -> tuple[Unit, ...]:
        """The words of the text with the tokens that each holds (see `capture.words.units`)."""
        return units(self.source)

    @checked
    def save(self, path: PathLike) -> Path:
        """Write everything to one safetensors file (numbers bit-exact, the rest as JSON in its header).

        Written beside and renamed, so that a killed run leaves no half file. Raises ResultFileError.
        """
        return storage.write(self, path)
