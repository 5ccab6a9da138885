"""Which functions state shapes: the others need no check of them, which would be a quarter of the tests' time."""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any, no_type_check

import jaxtyping

# The packages that state shapes: around the plumbing the checks would cost more than the tests.
SHAPED = ("aggregate", "answer", "attribute", "capture.picture", "decompose", "measure", "mixing", "similarity")
SHAPED += ("subject.unembedding",)
SHAPED = tuple(f"mixlens.{part}" for part in SHAPED)
SHAPE = re.compile(r"\b(Float|Int|Bool|Shaped)\[")


def states_shapes(function: FunctionType) -> bool:
    """Whether a shape stands in the signature, by itself or by the name of one."""
    stated = (function.__globals__.get(name) for name in named(function))
    return any(getattr(kind, "__module__", "") == "jaxtyping" or SHAPE.search(repr(kind)) for kind in stated)


def named(function: FunctionType) -> set[str]:
    """The names in the annotations."""
    return {name for said in function.__annotations__.values() for name in re.findall(r"[^\W\d]\w*", str(said))}


def may_state_shapes(function: FunctionType) -> bool:
    """The same while its module is being run: a name that is not there yet may come to be one of a shape."""
    there = function.__globals__.keys() | vars(builtins).keys()
    return states_shapes(function) or not named(function) <= there


def where_shapes_are(jaxtyped: Callable[..., Any]) -> Callable[..., Any]:
    """jaxtyping's decorator, which its import hook puts on all, on what may state shapes alone.

    What it wraps costs a module's import milliseconds, and a function inside a function does at every call.
    """

    def decorator(*, typechecker: Any) -> Callable[[Any], Any]:
        def decorate(thing: Any) -> Any:
            function = thing.__init__ if isinstance(thing, type) else thing
            may = may_state_shapes(function) if isinstance(function, FunctionType) else True
            return jaxtyped(thing, typechecker=typechecker) if may else thing

        return decorate

    return decorator


def functions(packages: Sequence[str]) -> Iterator[FunctionType]:
    """The functions of the packages' modules and classes, as they stand there: with what decorates them."""
    for name, module in [*sys.modules.items()]:
        if any(name == package or name.startswith(f"{package}.") for package in packages):
            places = [module, *(thing for thing in vars(module).values() if isinstance(thing, type))]
            for thing in (plain(value) for place in places for value in vars(place).values()):
                inner = inspect.unwrap(thing) if callable(thing) else None
                if isinstance(inner, FunctionType) and inner.__module__ == name:
                    yield thing


def plain(thing: Any) -> Any:
    """The function of a property, a cached one, a class method or a static one."""
    if isinstance(thing, cached_property):
        return thing.func
    thing = getattr(thing, "fget", thing)
    return getattr(thing, "__func__", thing)


def is_checked(function: Any) -> bool:
    """Whether jaxtyping's wrapper stands somewhere around it."""
    while function is not None:
        if getattr(getattr(function, "__code__", None), "co_filename", "") == jaxtyping._decorator.__file__:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def wrapped(packages: Sequence[str]) -> Iterator[FunctionType]:
    """The functions below jaxtyping's wrappers."""
    return (inspect.unwrap(function) for function in functions(packages) if is_checked(function))


def leave_the_others(packages: Sequence[str]) -> None:
    """What states no shape is passed by, as `typing.no_type_check` asks."""
    for function in wrapped(packages):
        if not states_shapes(function):
            no_type_check(function)
