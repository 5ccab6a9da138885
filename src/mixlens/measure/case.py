"""What a measure may look at."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int

from mixlens.errors import InputError

Scores = Float[np.ndarray, " token"]
Mask = Bool[np.ndarray, " token"]
Shares = Float[np.ndarray, " token"]


@dataclass(frozen=True, eq=False)
class Case:
    """What a measure may look at: one text, explained by one method (or by one layer of it).

    All arrays but `others` and `curve` have one entry a token. `scores` and what they are compared with are float64.
    """

    scores: Scores
    """The method's scores."""
    special: Mask
    """Where the tokenizer put a token that is no text."""
    pieces: tuple[str, ...] = ()
    """The tokens as the tokenizer writes them."""
    reference: Scores | None = None
    """What another method says of the same text and target."""
    second: Scores | None = None
    """What the same method says of the same text in another model."""
    others: tuple[Scores, ...] = ()
    """The same method's scores for each of the other classes."""
    cue: Mask | None = None
    """Tokens of the cue words."""
    rationale: Shares | None = None
    """The share of annotators who marked the token: 0 to 1."""
    answer: Mask | None = None
    """Tokens of the answer (question answering)."""
    curve: Float[np.ndarray, " level"] | None = None
    """Log-probabilities of the explained class: of the untouched text, then of what is left at each level; NaN where
    nothing is left to read."""
    keep: Mask | None = None
    """Tokens that may never be removed (a [MASK] that is asked about); special tokens never are."""
    gold: Mask | None = None
    """Tokens that the answer is known to be from."""
    units: Int[np.ndarray, " token"] | None = None
    """The number of the unit that a token is of, from 0; -1: of none. None: each token is one."""
    wrong: bool = False
    """The model answers otherwise, so nothing is known of where its answer is from."""

    def __post_init__(self) -> None:
        n = len(self.scores)
        for name in (f.name for f in fields(self) if f.name not in ("pieces", "others", "curve", "wrong")):
            value = getattr(self, name)
            if value is not None and len(value) != n:
                raise InputError(f"expected {n} values of {name}, one a token, got {len(value)}")
        if any(len(scores) != n for scores in self.others):
            raise InputError(f"expected {n} scores a class, one a token, got {[len(o) for o in self.others]}")
        if self.pieces and len(self.pieces) != n:
            raise InputError(f"expected {n} pieces, one a token, got {len(self.pieces)}")

    @property
    def removable(self) -> Mask:
        """Tokens that a perturbation may take out."""
        return ~self.special if self.keep is None else ~(self.special | self.keep)
