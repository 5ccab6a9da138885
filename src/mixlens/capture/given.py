"""What came in, as a list of single texts: nothing is read of them yet, and what is no text says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from mixlens.errors import EmptyInput, InputError

PER_TOKEN = ("token_type_ids", "position_ids")  # inputs with one number a token that go along with the ids
MASKED = "masked"  # of a text of `as_list`: a mask said what is padding, and it is gone
IGNORED = ("special_tokens_mask", "offset_mapping", "overflow_to_sample_mapping", "length", "labels")


class Words(tuple[str, ...]):
    """One text already split into words. Raises InputError.

    Examples:
        >>> attr = lens.attribute(mixlens.Words(["a", "meaningful", "film"]), method="alti")
        >>> [word.text for word in attr.words()]
        ['[CLS]', 'a', 'meaningful', 'film', '[SEP]']
    """

    def __new__(cls, words: Iterable[str] = ()) -> Words:
        """A str would silently become its letters, so it is refused."""
        if isinstance(words, (str, bytes)) or not isinstance(words, Iterable) or getattr(words, "ndim", 1) == 0:
            raise InputError(
                f"expected a list of words, got {type(words).__name__}: {words!r:.60}; split it, as in "
                'mixlens.Words(["a", "film"]), or explain the str itself'
            )
        return super().__new__(cls, words)


def as_list(data: Any) -> tuple[list[Any], bool]:
    """The texts in `data`, and whether it was a single one (so that one result goes back).

    In a list, what is no text is an InputError in its place: whoever encodes the texts knows their numbers.
    """
    if isinstance(data, Mapping):
        _refuse_messages([data])
        rows = _rows(data)
        return rows, len(rows) == 1
    if isinstance(data, (str, Words)):
        return [data], True
    if is_pair(data):
        return [data], True
    if hasattr(data, "tolist"):
        data = data.tolist()
    if isinstance(data, Sequence) and not isinstance(data, bytes):
        if len(data) == 0:
            raise EmptyInput("expected a text or a list of texts, got an empty list; pass at least one text")
        _refuse_messages(data)
        if all(is_id(t) for t in data):
            return [[int(t) for t in data]], True
        return [row for item in data for row in _item(item)], False
    raise InputError(
        "expected a str, a (premise, hypothesis) tuple, mixlens.Words([...]), a list of token ids, a mapping of "
        f"model inputs or a list of those, got {type(data).__name__}"
    )


def _refuse_messages(data: Sequence[Any]) -> None:
    """Raises InputError for the messages of a chat, or a list of chats."""
    first: Any = data[0]
    if isinstance(first, Mapping) and "messages" in first:
        first = first["messages"]
    if isinstance(first, (list, tuple)) and first:
        first = first[0]
    if isinstance(first, Mapping) and "role" in first and "input_ids" not in first:
        raise InputError(
            f"expected texts or token ids, got chat messages (with the keys {sorted(map(str, first))}); apply the "
            "tokenizer's chat template and explain what it gives: tokenizer.apply_chat_template(messages, "
            "tokenize=True, add_generation_prompt=True)"
        )


def is_id(value: Any) -> bool:
    """Whether a value is a whole number, as token ids are."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_pair(value: Any) -> bool:
    """Whether a value is two texts that belong together."""
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(t, str) for t in value)


def _item(item: Any) -> list[Any]:
    """A text of a list; a list or tuple in it is token ids or a pair, never taken apart into texts."""
    if isinstance(item, (list, tuple)) and not (isinstance(item, Words) or is_pair(item) or all(map(is_id, item))):
        return [
            InputError(
                f"expected texts in a list, got a {type(item).__name__} in it: {item!r:.60}; "
                "a pair is a tuple of two str, split words go in mixlens.Words([...])"
            )
        ]
    try:
        return as_list(item)[0]
    except InputError as error:
        return [error]


def _rows(data: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """A mapping of model inputs, padded on either side, to one dict of unpadded lists a text."""
    if data.get("input_ids") is None:
        raise InputError(f"expected a mapping with 'input_ids', got the keys {sorted(map(str, data))}")
    unknown = [str(k) for k in data if k not in ("input_ids", "attention_mask", *PER_TOKEN, *IGNORED)]
    if unknown:
        raise InputError(
            f"expected input_ids, attention_mask, {', '.join(PER_TOKEN)}, got also {unknown}; "
            "remove them, or explain token ids alone"
        )
    table = {k: _two(data[k], k) for k in ("input_ids", "attention_mask", *PER_TOKEN) if data.get(k) is not None}
    lengths = [len(row) for row in table["input_ids"]]
    for key, value in table.items():
        if [len(row) for row in value] != lengths:
            raise InputError(f"expected '{key}' as long as 'input_ids' ({lengths}), got {[len(row) for row in value]}")
    rows = []
    for b in range(len(table["input_ids"])):
        row = {k: v[b] for k, v in table.items()}
        has_mask = "attention_mask" in row
        mask = row.pop("attention_mask", [1] * len(row["input_ids"]))
        kept = [i for i, m in enumerate(mask) if m]
        if kept and kept[-1] - kept[0] + 1 != len(kept):
            raise InputError(f"expected padding at one side only, got the attention mask {mask}")
        rows.append({**{k: [v[i] for i in kept] for k, v in row.items()}, **({MASKED: []} if has_mask else {})})
    return rows


def _two(value: Any, name: str) -> list[list[Any]]:
    try:
        value = value.tolist() if hasattr(value, "tolist") else list(value)
    except TypeError:
        raise InputError(f"expected '{name}' as a list or tensor of numbers, got {type(value).__name__}") from None
    value = [value] if not value or not isinstance(value[0], (list, tuple)) else [list(v) for v in value]
    if value[0] and isinstance(value[0][0], (list, tuple)):
        raise InputError(f"expected '{name}' with the axes (text, token) or (token,), got more")
    return value
