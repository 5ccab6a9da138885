"""A spec as Python source, to be read, kept and handed to `load` again."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any


def written(part: Any, indent: str = "") -> str:
    """A spec as the expression that makes it; what has its default is left out.

    >>> written(spec)
    Spec(
        layers='layers',
        ...
    """
    if not is_dataclass(part):
        return repr(part)
    inner = indent + "    "
    shown = [(f.name, getattr(part, f.name)) for f in fields(part) if _told(f, getattr(part, f.name))]
    if not any(_holds(value) or is_dataclass(value) for _, value in shown):
        return f"{type(part).__name__}({', '.join(f'{name}={_plain(value)}' for name, value in shown)})"
    lines = []
    for name, value in shown:
        if is_dataclass(value):
            lines.append(f"{inner}{name}={written(value, inner)},\n")
        elif _holds(value):
            parts = "".join(f"{inner}    {written(p, inner + '    ')},\n" for p in value)
            lines.append(f"{inner}{name}=(\n{parts}{inner}),\n")
        else:
            lines.append(f"{inner}{name}={_plain(value)},\n")
    return f"{type(part).__name__}(\n{''.join(lines)}{indent})"


def _told(field: Any, value: Any) -> bool:
    return bool(field.default is MISSING or value != field.default)


def _holds(value: Any) -> bool:
    return isinstance(value, tuple) and any(is_dataclass(item) for item in value)


def _plain(value: Any) -> str:
    return str(getattr(value, "__name__", value)) if callable(value) else repr(value)
