"""Classes and tokens by name: which index a label, token or number means, and what an index is called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mixlens.errors import TargetError, did_you_mean

BLANKS = ("\u0120", "\u2581")  # how byte-level BPE and SentencePiece write the blank before a word

if TYPE_CHECKING:
    from mixlens.subject.head import Head


def find(head: Head, choice: str | int, count: int, others: Iterable[str] = ()) -> int:
    """The class or token id that a label, token or index means.

    Raises TargetError with a suggestion, which may be one of `others`.
    """
    kind = "label" if head.task in ("sequence", "token") else "token"
    if isinstance(choice, int):
        if not 0 <= choice < count:
            raise TargetError(f"expected a {kind} index of 0 to {count - 1}, got {choice}")
        return choice
    if kind == "label":
        known = [(i, label) for i, label in head.labels.items() if i < count]
        for matches in (
            [i for i, label in known if label == choice],
            [i for i, label in known if label.casefold() == choice.casefold()],
            [int(choice)] if choice.isdecimal() and int(choice) < count else [],
        ):
            if len(matches) > 1:
                which = " and ".join(str(i) for i in matches)
                raise TargetError(f"expected a label of one class, {choice!r} names classes {which}; pass the index")
            if matches:
                return matches[0]
        raise TargetError(f"no label {choice!r}{did_you_mean(choice, [*(label for _, label in known), *others])}")
    if head.tokenizer is None:
        raise TargetError(f"a target token needs a tokenizer; pass its id instead of {choice!r}")
    if any("\ud800" <= c <= "\udfff" for c in choice):
        raise TargetError(f"expected a token of whole characters, got half of a surrogate pair in {choice!r}")
    at = head.tokenizer.convert_tokens_to_ids(choice)  # (the vocabulary as a dictionary takes longer than a pass)
    if isinstance(at, int) and head.tokenizer.convert_ids_to_tokens(at) == choice:
        return at
    ids = head.tokenizer(choice, add_special_tokens=False)["input_ids"]
    if _one_token(head, choice):
        return int(ids[0])
    pieces = head.tokenizer.convert_ids_to_tokens(ids)
    whole = next(
        (w for w in (f" {choice}", choice.strip(), choice.lower()) if w != choice and _one_token(head, w)), None
    )
    hint = f"did you mean {whole!r}, which is one?" if whole else "use one of them, or a word that is one token"
    raise TargetError(f"expected a target of one token, {choice!r} is {len(ids)}: {pieces}; {hint}")


def sibling(head: Head, index: int) -> int | None:
    """The token that is the same letters with a blank before them, or without; None where there is none."""
    piece = head.tokenizer.convert_ids_to_tokens([index])[0]
    for blank in BLANKS:
        other = piece.removeprefix(blank) if piece.startswith(blank) else blank + piece
        at = head.tokenizer.convert_tokens_to_ids(other) if other else None
        if isinstance(at, int) and at != index and head.tokenizer.convert_ids_to_tokens([at])[0] == other:
            return at
    return None


def _one_token(head: Head, text: str) -> bool:
    ids = head.tokenizer(text, add_special_tokens=False)["input_ids"]
    return len(ids) == 1 and ids[0] != getattr(head.tokenizer, "unk_token_id", None)


def name(head: Head, index: int) -> str:
    """The label or token of an index."""
    if head.task in ("sequence", "token"):
        return str(head.labels.get(index, index))
    if head.tokenizer is None:
        return str(index)
    return str(head.tokenizer.convert_ids_to_tokens([index])[0])
