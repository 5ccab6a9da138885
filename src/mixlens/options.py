"""A function's options, read from its signature: one place says their names and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Name -> default of the keyword-only arguments (also behind a decorator, where `__kwdefaults__` is lost)."""
    parameters = signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def shallow(value: Any, most: int = 100) -> bool:
    """Whether a value is lists and mappings within each other at most `most` deep: no file or page holds more."""
    level = {id(value): value}
    for _ in range(most + 1):
        inner = [v for part in level.values() if isinstance(part, (list, tuple, Mapping)) for v in _parts(part)]
        level = {id(v): v for v in inner}
        if not level:
            return True
    return False


def _parts(value: Any) -> list[Any]:
    return [*value.keys(), *value.values()] if isinstance(value, Mapping) else list(value)
