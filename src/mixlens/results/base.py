"""What all results have: the tokens, where the numbers come from, and the way to a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from mixlens.arguments import checked
from mixlens.capture.text import Tokens
from mixlens.capture.words import Unit, units

if TYPE_CHECKING:
    from mixlens.results import Attribution, Comparison, LayerMaps

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Result:
    """Scores of the tokens of one text. What an axis means, the classes below say."""

    source: Tokens
    scores: Tensor
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str | tuple[str, ...] | None:
        """The raw text, a pair of texts, or None where token ids were explained."""
        return None if not self.source.text else self.source.text[0] if len(self.source.text) == 1 else self.source.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokenizer's own names of the tokens, one a score: `"##ing"`, `"Ġfilm"`."""
        return self.source.pieces

    @property
    def offsets(self) -> tuple[tuple[int, int] | None, ...] | None:
        """Characters [start, end) of every token in its raw text; None for special tokens (and altogether for ids)."""
        return None if self.source.spans is None else tuple(s and s[1:] for s in self.source.spans)

    @property
    def special(self) -> tuple[bool, ...]:
        """True where a token was put there by the tokenizer's template."""
        return self.source.special

    @property
    def display(self) -> tuple[str, ...]:
        """The tokens as a reader knows them: the raw text's characters where there are offsets.

        A token of blanks alone shows as `␣` (`↵` for a line end); where token ids came in, the tokenizer's own name.
        """
        return tuple(_shown(self.source, i) for i in range(len(self.source)))

    def units(self) -> tuple[Unit, ...]:
        """The words of the text with the tokens that each holds (see `capture.words.units`)."""
        return units(self.source)

    @checked
    def save(self, path: PathLike) -> Path:
        """Write everything to one safetensors file (numbers bit-exact, the rest as JSON in its header).

        Written beside and renamed, so that a killed run leaves no half file. Raises ResultFileError.
        """
        from mixlens import storage

        return storage.write(cast("Attribution | LayerMaps", self), path)


def _shown(source: Tokens, i: int) -> str:
    piece = source.pieces[i]
    if source.special[i] or not source.text:
        return piece
    span = source.spans[i] if source.spans is not None else None
    if span is None:  # a slow tokenizer: its mark of a blank is all there is to take away
        return piece.lstrip("\u0120\u2581") or "␣"
    seg, start, end = span
    blank = "↵" if source.text[seg][max(start - 1, 0) : start] in ("\n", "\r") else "␣"
    return source.text[seg][start:end] or blank


@checked
def read(path: PathLike) -> Attribution | LayerMaps | Comparison:
    """Read a result that `save` wrote; every number comes back bit-exact. Raises ResultFileError."""
    from mixlens import storage

    return storage.read(path)
