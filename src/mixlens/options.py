"""A function's options, read from its signature: one place says their names and defaults."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any


def options_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Name -> default of the keyword-only arguments (also behind a decorator, where `__kwdefaults__` is lost)."""
    parameters = signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
