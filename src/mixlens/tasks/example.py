"""One labelled text, and where its cue, rationale or answer stands among the tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.capture.stream import Stream
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

    An answer of a language model has a `prompt` instead of a text, all that `Lens.trace` takes: a str, token ids, chat
    messages, with `documents` by name. Its `answer` is a str or token ids (None: what the model says), its `foil`
    likewise. `gold`: where the answer is from, each [start, end) characters of the prompt as the model reads it, a
    token's position, a document's name, or words that stand there once. `units`: what is ranked or taken out together,
    "word", "sentence", "document" ... or characters; None: tokens.

    Examples:
        >>> example = mixlens.Example("7", "a good film.", label="positive", rationale=((2, 6),))
        >>> example.text[slice(*example.rationale[0])]
        'good'
        >>> asked = mixlens.Example("8", prompt="Ann has a cat. Ann has a", answer=" cat", gold=((10, 13),))
    """

    id: str
    text: Any = None
    label: str | int | None = None
    target: str | int | None = None
    foil: Any = None
    cue: tuple[Chars, ...] = ()
    phrase: tuple[Chars, ...] = ()
    rationale: tuple[Chars, ...] | None = None
    answer: Any = None
    prompt: Any = None
    documents: Mapping[str, str] | None = None
    gold: tuple[Chars | int | str, ...] | None = None
    units: str | tuple[Chars, ...] | None = None

    def __post_init__(self) -> None:
        if (self.text is None) == (self.prompt is None):
            raise DataError(
                f"expected a text, or a prompt with its answer, in example {self.id!r}, got "
                f"{'neither' if self.text is None else 'both'}"
            )
        if self.prompt is None and self.documents is not None:
            raise DataError(f"expected a prompt beside the documents of example {self.id!r}, got a text")

    @property
    def traced(self) -> bool:
        """Whether it is an answer of a language model, explained by `Lens.trace`."""
        return self.prompt is not None


def gold_mask(stream: Stream, gold: Sequence[Any], documents: Mapping[str, tuple[int, int]]) -> NDArray[np.bool_]:
    """(token,): whether a token is one of the gold ones (see `Example`); `documents`: name -> its tokens [first, last).

    Raises DataError for what is not there, or not once.
    """
    out = np.zeros(len(stream), dtype=bool)
    if not isinstance(stream, Tokens):
        for box in gold:
            out |= _inside(stream, box)
        return out
    tokens = stream
    for span in gold:
        if isinstance(span, str) and span in documents:
            out[slice(*documents[span])] = True
        elif isinstance(span, str):
            text = tokens.text[0] if tokens.text else ""
            if not span or text.count(span) != 1:
                raise DataError(
                    f"expected gold {span!r:.60} once in the prompt, or as a document's name, got it "
                    f"{text.count(span) if span else 0} times; name [start, end) characters"
                )
            at = text.index(span)
            out |= token_mask(tokens, [(at, at + len(span))]) > 0
        elif isinstance(span, int) and not isinstance(span, bool):
            if not 0 <= span < len(tokens):
                raise DataError(f"expected gold tokens of 0 to {len(tokens) - 1}, got {span}")
            out[span] = True
        else:
            out |= token_mask(tokens, [span]) > 0
    return out


def _inside(stream: Stream, box: Any) -> NDArray[np.bool_]:
    """(position,): whether the middle of its place lies in a box, each axis from its first number to its last."""
    half = len(stream.axes) // 2
    if not isinstance(box, tuple) or len(box) != 2 * half or stream.places is None:
        raise DataError(f"expected gold of {stream.units} as places of {', '.join(stream.axes)}, got {box!r:.60}")
    out = np.zeros(len(stream), dtype=bool)
    for i, place in enumerate(stream.places):
        middle = () if place is None else tuple((place[k] + place[half + k]) / 2 for k in range(half))
        out[i] = bool(middle) and all(box[k] <= middle[k] < box[half + k] for k in range(half))
    if not out.any():
        raise DataError(f"expected one of the {stream.units} in {box}, got none; the picture is smaller")
    return out


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
