"""Which answer tokens are explained as one, as a caller says it."""

from __future__ import annotations

from typing import Any

from mixlens.arguments import is_whole, shown
from mixlens.errors import UnknownOption


def answer_spans(name: str, span: Any, count: int) -> list[range]:
    """The answer's tokens by what is explained as one: "token", each alone; "answer", all; (first, last), those from
    `first` to `last` - 1, the others each alone. Raises UnknownOption.
    """
    if span == "token":
        return [range(t, t + 1) for t in range(count)]
    if span == "answer":
        return [range(count)]
    chosen = token_range(name, "span", span, count)
    alone = [range(t, t + 1) for t in range(count)]
    return [*alone[: chosen.start], chosen, *alone[chosen.stop :]]


def token_range(name: str, option: str, value: Any, count: int, start: int = 0) -> range:
    """(first, last) as a range of tokens, of `start` to `count`. Raises UnknownOption."""
    if not is_pair(value):
        raise UnknownOption(f"expected {option}=(first, last) of tokens for {name}, got {shown(value)}")
    first, last = value
    if not start <= first < last <= count:
        raise UnknownOption(
            f"expected {option}=(first, last) with {start} <= first < last <= {count} for {name}, got {shown(value)}"
        )
    return range(first, last)


def is_pair(value: Any) -> bool:
    """Whether a value is two whole numbers."""
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_whole, value))
