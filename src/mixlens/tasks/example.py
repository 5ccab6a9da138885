"""One labelled text, and where its cue, rationale or answer stands among the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.capture.text import Tokens
from mixlens.errors import DataError

Chars = tuple[int, int]  # [start, end) in characters


@dataclass(frozen=True)
class Example:
    """A text and what is known about it.

    `text`: what `Lens.attribute` takes: a str, a pair, `mixlens.Words`, token ids, model inputs. `label`: the gold
    label. `target`, `foil`: the right and the wrong word of an agreement example. `cue`, `phrase`, `rationale`:
    [start, end) characters of the text (the first of a pair; `Words` are joined by blanks); a rationale of None is
    unknown, an empty one says that nothing counts. `answer`: the same in the last text.

    Examples:
        >>> example = mixlens.Example("7", "a good film.", label="positive", rationale=((2, 6),))
        >>> example.text[slice(*example.rationale[0])]
        'good'
    """

    id: str
    text: Any
    label: str | int | None = None
    target: str | int | None = None
    foil: str | int | None = None
    cue: tuple[Chars, ...] = ()
    phrase: tuple[Chars, ...] = ()
    rationale: tuple[Chars, ...] | None = None
    answer: Chars | None = None


def token_mask(tokens: Tokens, spans: Sequence[Chars], *, segment: int = 0, pieces: str = "all") -> NDArray[np.float64]:
    """(token,): 1 for each token that shares a character with one of the spans of that text, else 0.

    `pieces="first"`: only the first token of each span. Raises DataError where the tokens have no offsets, and for a
    span that holds no token (it lies outside the text, or in what was cut off).
    """
    if pieces not in ("all", "first"):
        raise DataError(f"expected pieces='all' or 'first', got {pieces!r}")
    if tokens.spans is None:
        raise DataError("spans of characters need offsets: pass text, not token ids, and load a fast tokenizer")
    out = np.zeros(len(tokens))
    for start, end in spans:
        inside = [
            i for i, s in enumerate(tokens.spans) if s is not None and s[0] == segment and s[1] < end and s[2] > start
        ]
        if not inside:
            raise DataError(
                f"expected a token within characters {start} to {end}, got none; the text has "
                f"{len(tokens.text[segment])} characters"
                + (f" and {tokens.dropped} tokens of it were cut off" if tokens.dropped else "")
            )
        out[inside[:1] if pieces == "first" else inside] = 1.0
    return out
