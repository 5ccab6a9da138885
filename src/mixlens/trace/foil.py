"""What the answer is explained rather than: another answer as long, or one token for each of its tokens."""

from __future__ import annotations

from typing import Any

from mixlens.capture.given import is_id
from mixlens.capture.text import Tokens
from mixlens.errors import InputError
from mixlens.subject import Subject
from mixlens.trace.answered import ids_of
from mixlens.trace.prompt import read_answer


def foils(subject: Subject, foil: Any, answer: Tokens) -> tuple[int, ...] | None:
    """The token that each answer token is explained rather than; None: no foil. Raises InputError.

    `foil`: a str or token ids as long as the answer, or one token for all.
    """
    if foil is None:
        return None
    foil = ids_of(foil)
    if is_id(foil):
        foil = [foil]
    other = read_answer(subject, foil, "a foil")
    if len(other) == 1:
        ids = other.ids * len(answer)
    elif len(other) == len(answer):
        ids = other.ids
    else:
        raise InputError(
            f"expected a foil of {len(answer)} tokens, as many as the answer has, or of one, got {len(other)}: "
            f"{list(other.pieces)!r:.80} against {list(answer.pieces)!r:.80}"
        )
    if ids == answer.ids:
        raise InputError("expected a foil other than the answer, got the answer itself; nothing speaks for either")
    return ids
