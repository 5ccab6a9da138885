"""Which functions state shapes: the others need no check of them, which would be a fifth of a test's time."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any, no_type_check

SHAPE = re.compile(r"\b(Float|Int|Bool|Shaped)\[")


def states_shapes(function: FunctionType) -> bool:
    """Whether a shape stands in the signature, by itself or by the name of one."""
    names = {name for said in function.__annotations__.values() for name in re.findall(r"\w+", str(said))}
    stated = (function.__globals__.get(name) for name in names)
    return any(getattr(kind, "__module__", "") == "jaxtyping" or SHAPE.search(repr(kind)) for kind in stated)


def wrapped(packages: Sequence[str]) -> Iterator[FunctionType]:
    """The functions below jaxtyping's wrappers, whose import hook takes every one of a module."""
    for name, module in [*sys.modules.items()]:
        if any(name == package or name.startswith(f"{package}.") for package in packages):
            places = [module, *(thing for thing in vars(module).values() if isinstance(thing, type))]
            for thing in (value for place in places for value in vars(place).values()):
                inner = inspect.unwrap(plain(thing)) if hasattr(plain(thing), "__wrapped__") else None
                if isinstance(inner, FunctionType):
                    yield inner


def plain(thing: Any) -> Any:
    """The function of a property, a class method or a static one."""
    thing = getattr(thing, "fget", thing)
    return getattr(thing, "__func__", thing)


def leave_the_others(packages: Sequence[str]) -> None:
    """What states no shape is passed by, as `typing.no_type_check` asks."""
    for function in wrapped(packages):
        if not states_shapes(function):
            no_type_check(function)
