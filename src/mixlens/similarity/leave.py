"""A text without one of its words: what its vector loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mixlens.attribute.variants import removal_default, replacement, without
from mixlens.capture.stream import Stream
from mixlens.capture.words import units
from mixlens.errors import InputError, UnknownOption
from mixlens.similarity.encoder import Encoder
from mixlens.similarity.method import Passes, Similarity
from mixlens.similarity.vectors import TextVectors, spread, unit

UNITS = ("word", "token")


@dataclass(frozen=True)
class LeaveOut(Similarity):
    """u - u without a word, u the text's vector divided by its length: a pair's product is the second difference of
    the cosine, cos - cos(a without i) - cos(b without j) + cos(both without).
    """

    complete: bool = False

    def options(self) -> dict[str, Any]:  # noqa: D102 (as in the base)
        return {"unit": "word", "replace": None}

    def vectors(
        self, encoder: Encoder, texts: Sequence[Stream], options: Mapping[str, Any], passes: Passes
    ) -> list[TextVectors]:
        """A pass for each word. A word's tokens have equal parts; special tokens stay, and have none."""
        subject, choice = encoder.subject, options.get("replace")
        filler = removal_default(subject.head) if choice is None else choice
        put = None if filler == "delete" else replacement(subject, self.name, filler)
        groups = [groups_of(tokens, options.get("unit", "word")) for tokens in texts]
        changed = [
            encoder.filled(without(tokens, g, put), len(tokens))
            for tokens, of in zip(texts, groups, strict=True)
            for g in of
        ]
        units_of = [unit(v) for v in encoder.vectors([*texts, *changed], passes)]
        out, at = [], len(texts)
        for tokens, whole, of in zip(texts, units_of, groups, strict=False):
            parts = [whole - less for less in units_of[at : at + len(of)]]
            at += len(of)
            out.append(TextVectors(tokens, whole, spread(parts, of, len(tokens))))
        return out


def groups_of(tokens: Stream, by: Any) -> list[tuple[int, ...]]:
    """The tokens that go together, special ones left out. Raises UnknownOption, InputError."""
    if by not in UNITS:
        raise UnknownOption(f"expected unit='word' or 'token', got {by!r}")
    if by == "word" and tokens.has_words:
        every: list[tuple[int, ...]] = [u.indices for u in units(tokens)]
    else:
        every = [(i,) for i in range(len(tokens))]
    out = [group for group in every if not any(tokens.special[i] for i in group)]
    if len(out) < 2:
        raise InputError(
            f"expected a text of two {by}s or more to take one out of, got {list(tokens.names)!r:.60}; use another "
            "method for so short a text"
        )
    return out
