"""Whether a value that came from a file is what its dataclass says: types, all the way down, from the annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints


def check(value: Any, kind: Any, at: str) -> None:
    """Raises ValueError that says where something is not of its kind. A bool is no int; an int passes for a float.

    `kind`: a class, a dataclass (its fields are checked too), Any, Literal, a union, tuple, list or Mapping with the
    kinds of what they hold.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if origin in (Union, types.UnionType):
        _one_of(value, inner, at)
    elif origin is Literal:
        if value not in inner:
            raise ValueError(f"{at} is {value!r:.40}, not {' or '.join(map(repr, inner))}")
    elif origin is tuple:
        _of(value, tuple, at)
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        if len(each) != len(value):
            raise ValueError(f"{at} has {len(value)} entries, not {len(each)}")
        for number, (part, expected) in enumerate(zip(value, each, strict=True)):
            check(part, expected, f"{at}[{number}]")
    elif origin is not None and issubclass(origin, Mapping):
        _of(value, Mapping, at)
        for key, part in value.items():
            check(key, inner[0], f"a key of {at}")
            check(part, inner[1], f"{at}.{key}")
    elif origin is not None and issubclass(origin, Sequence):
        _of(value, list, at)
        for number, part in enumerate(value):
            check(part, inner[0], f"{at}[{number}]")
    else:
        _of(value, kind, at)
        if is_dataclass(kind):
            for name, expected in _hints(cast(Any, kind)).items():
                check(getattr(value, name), expected, f"{at}.{name}")


def _one_of(value: Any, kinds: Sequence[Any], at: str) -> None:
    message = ""
    for kind in kinds:
        try:
            return check(value, kind, at)
        except ValueError as error:  # the kind that reaches furthest says most
            message = max(message, str(error), key=len)
    raise ValueError(message)


def _of(value: Any, kind: type, at: str) -> None:
    whole = type(value) is int and kind is float
    if not (whole or isinstance(value, kind)) or (isinstance(value, bool) and kind in (int, float)):
        raise ValueError(f"{at} is {type(value).__name__}, not {kind.__name__}")


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
