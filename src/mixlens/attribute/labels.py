"""Classes and tokens by name: which index a label, token or number means, and what an index is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.errors import TargetError, did_you_mean

if TYPE_CHECKING:
    from mixlens.attribute.readout import Head


def find(head: Head, what: str | int, count: int) -> int:
    """The class or token id that a label, token or index means. Raises TargetError with a suggestion."""
    kind = "label" if head.task in ("sequence", "token") else "token"
    if isinstance(what, int):
        if not 0 <= what < count:
            raise TargetError(f"expected a {kind} index of 0 to {count - 1}, got {what}")
        return what
    if kind == "label":
        by_name = {label: i for i, label in head.labels.items()}
        folded = {label.casefold(): i for label, i in by_name.items()}
        if what in by_name:
            return by_name[what]
        if what.casefold() in folded:
            return folded[what.casefold()]
        if what.isdecimal() and int(what) < count:
            return int(what)
        raise TargetError(f"no label {what!r}{did_you_mean(what, by_name)}")
    if head.tokenizer is None:
        raise TargetError(f"a target token needs a tokenizer; pass its id instead of {what!r}")
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
