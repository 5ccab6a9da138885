"""What an argument of a public function may be, by its name: one table, and one check before anything begins."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from mixlens.errors import MixlensError, ResultFileError, UnknownMethod, UnknownOption

P = ParamSpec("P")
R = TypeVar("R")

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_MOST = 1 << 62  # bytes; more is no budget


@dataclass(frozen=True)
class Kind:
    """What is expected, as it stands behind an argument's name, and whether a value is that."""

    says: str
    fits: Callable[[Any], bool]
    error: type[MixlensError] = UnknownOption

    def check(self, name: str, value: Any) -> None:
        """Raises `error` for a value that does not fit."""
        if not self.fits(value):
            raise self.error(f"expected {name}{self.says}, got {shown(value)}")

    def or_none(self) -> Kind:
        """The same, or None."""
        return Kind(f"{self.says}, or None", lambda value: value is None or self.fits(value), self.error)


def shown(value: Any) -> str:
    """A value in a message: not all of a long one, and whatever its own `repr` does."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number of Python's; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf


def budget(memory: Any) -> int | None:
    """`memory=` in bytes: "2GB", "512MiB", a number; None stays None. Raises UnknownOption."""
    if memory is None:
        return None
    size: Any = memory if is_whole(memory) else 0
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", memory.lower()) if isinstance(memory, str) else None
    if found is not None:
        size = float(found[1]) * _UNITS.get(found[2], 0)
    if 0 < size <= _MOST:
        return max(1, int(size))
    raise UnknownOption(f"expected memory= bytes, '2GB', '512MiB' or None (what is free), got {shown(memory)}")


def _is_budget(memory: Any) -> bool:
    try:
        budget(memory)
    except UnknownOption:
        return False
    return True


def _some_names(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Iterable) and not isinstance(value, (bytes, Mapping)))


def one_of(*values: str) -> Kind:
    """One of a few words."""
    *most, last = map(repr, values)
    return Kind(f"= {', '.join(most)} or {last}", lambda value: isinstance(value, str) and value in values)


FLAG = Kind("= True or False", lambda value: isinstance(value, bool))
TEXT = Kind("= a str", lambda value: isinstance(value, str))
COUNT = Kind(" of 1 or more", lambda value: is_whole(value) and value >= 1)
NUMBERS = Kind("= a list of numbers", lambda value: isinstance(value, (list, tuple, range)))
WHOLE = Kind("= a whole number", is_whole)
PATH = Kind("= a path", lambda value: isinstance(value, (str, os.PathLike)), ResultFileError)

# By name: what every public function's argument of this name may be. What is left to the function itself because it
# depends on the model, the text or the method: text, target, data, queries beyond their type ... (see the tests).
KINDS: Mapping[str, Kind] = {
    "batch_size": COUNT,
    "costly": COUNT.or_none(),
    "device": TEXT.or_none(),
    "encoding": TEXT.or_none(),
    "errors": one_of("raise", "skip"),
    "faithfulness": FLAG,
    "head": WHOLE.or_none(),
    "kind": TEXT.or_none(),
    "level": Kind(" between 0 and 1", lambda value: is_number(value) and 0 < value < 1),
    "limit": COUNT.or_none(),
    "maps": FLAG,
    "measure": TEXT.or_none(),
    "name": TEXT,
    "memory": Kind("= bytes, '2GB', '512MiB' or None (what is free)", _is_budget),
    "method": Kind("= a method's name, a str,", lambda value: isinstance(value, str), UnknownMethod),
    "methods": Kind("= a method's name or a list of them", _some_names, UnknownMethod).or_none(),
    "normalize": FLAG,
    "out": PATH.or_none(),
    "path": PATH.or_none(),
    "progress": Kind(
        "= True (a bar), None, or a function of (done, in all)",
        lambda value: value is None or isinstance(value, bool) or callable(value),
    ),
    "queries": NUMBERS.or_none(),
    "receptive_field": FLAG,
    "reference": Kind("= a method's name, a str,", lambda value: isinstance(value, str), UnknownMethod),
    "resamples": COUNT,
    "seed": Kind("= a whole number of 0 or more", lambda value: is_whole(value) and value >= 0),
    "truncate": FLAG,
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose arguments are held against `KINDS` before it begins."""
    expected = signature(function)
    kinds = {
        name: KINDS[name]
        for name, parameter in expected.parameters.items()
        if name in KINDS and parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    }

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in expected.bind(*args, **kwargs).arguments.items():
            if name in kinds:
                kinds[name].check(name, value)
        return function(*args, **kwargs)

    return run
