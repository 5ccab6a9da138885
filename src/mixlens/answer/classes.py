"""Classes and tokens by name: which index a label, token or number means, and what an index is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.errors import TargetError, did_you_mean

BLANKS = ("\u0120", "\u2581")  # how byte-level BPE and SentencePiece write the blank before a word

if TYPE_CHECKING:
    from mixlens.subject.head import Head


def find(head: Head, what: str | int, count: int) -> int:
    """The class or token id that a label, token or index means. Raises TargetError with a suggestion."""
    kind = "label" if head.task in ("sequence", "token") else "token"
    if isinstance(what, int):
        if not 0 <= what < count:
            raise TargetError(f"expected a {kind} index of 0 to {count - 1}, got {what}")
        return what
    if kind == "label":
        known = [(i, label) for i, label in head.labels.items() if i < count]
        for matches in (
            [i for i, label in known if label == what],
            [i for i, label in known if label.casefold() == what.casefold()],
            [int(what)] if what.isdecimal() and int(what) < count else [],
        ):
            if len(matches) > 1:
                which = " and ".join(str(i) for i in matches)
                raise TargetError(f"expected a label of one class, {what!r} names classes {which}; pass the index")
            if matches:
                return matches[0]
        raise TargetError(f"no label {what!r}{did_you_mean(what, (label for _, label in known))}")
    if head.tokenizer is None:
        raise TargetError(f"a target token needs a tokenizer; pass its id instead of {what!r}")
    if any("\ud800" <= c <= "\udfff" for c in what):
        raise TargetError(f"expected a token of whole characters, got half of a surrogate pair in {what!r}")
    at = head.tokenizer.convert_tokens_to_ids(what)  # (the vocabulary as a dictionary takes longer than a pass)
    if isinstance(at, int) and head.tokenizer.convert_ids_to_tokens(at) == what:
        return at
    ids = head.tokenizer(what, add_special_tokens=False)["input_ids"]
    if _one_token(head, what):
        return int(ids[0])
    pieces = head.tokenizer.convert_ids_to_tokens(ids)
    whole = next((w for w in (f" {what}", what.strip(), what.lower()) if w != what and _one_token(head, w)), None)
    hint = f"did you mean {whole!r}, which is one?" if whole else "use one of them, or a word that is one token"
    raise TargetError(f"expected a target of one token, {what!r} is {len(ids)}: {pieces}; {hint}")


def sibling(head: Head, index: int) -> int | None:
    """The token that is the same letters with a blank before them, or without; None where there is none."""
    piece = head.tokenizer.convert_ids_to_tokens([index])[0]
    for blank in BLANKS:
        other = piece.removeprefix(blank) if piece.startswith(blank) else blank + piece
        at = head.tokenizer.convert_tokens_to_ids(other) if other else None
        if isinstance(at, int) and at != index and head.tokenizer.convert_ids_to_tokens([at])[0] == other:
            return at
    return None


def _one_token(head: Head, what: str) -> bool:
    ids = head.tokenizer(what, add_special_tokens=False)["input_ids"]
    return len(ids) == 1 and ids[0] != getattr(head.tokenizer, "unk_token_id", None)


def name(head: Head, index: int) -> str:
    """The label or token of an index."""
    if head.task in ("sequence", "token"):
        return str(head.labels.get(index, index))
    if head.tokenizer is None:
        return str(index)
    return str(head.tokenizer.convert_ids_to_tokens([index])[0])
