"""What an argument of a public function may be, by its name: one table, and one check before anything begins."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from mixlens.errors import MixlensError, ResultFileError, UnknownMethod, UnknownOption
from mixlens.options import shallow

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

    def check(self, name: str, value: Any, of: str = "") -> None:
        """Raises `error` for a value that does not fit."""
        if not self.fits(value):
            raise self.error(f"expected {name}{self.says}{of}, got {shown(value)}")

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
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", memory.lower()) if isinstance(memory, str) else None
    if match is not None:
        size = float(match[1]) * _UNITS.get(match[2], 0)
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
    try:
        iter(value)
    except TypeError:
        return False
    return not isinstance(value, bytes)


def _is_statistics(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 2 and all(hasattr(part, "shape") for part in value)


def one_of(*values: str) -> Kind:
    """One of a few words."""
    *most, last = map(repr, values)
    return Kind(f"= {', '.join(most)} or {last}", lambda value: isinstance(value, str) and value in values)


FLAG = Kind("= True or False", lambda value: isinstance(value, bool))
TEXT = Kind("= a str", lambda value: isinstance(value, str))
COUNT = Kind(" of 1 or more", lambda value: is_whole(value) and value >= 1)
NUMBERS = Kind("= a list of numbers", lambda value: isinstance(value, (list, tuple, range)))
WHOLE = Kind("= a whole number", is_whole)
_PAIR = Kind(
    "=(first, last), two whole numbers",
    lambda value: isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_whole, value)),
)
_SPANS = ("token", "answer")
PATH = Kind("= a path", lambda value: isinstance(value, (str, os.PathLike)), ResultFileError)

# By name: what every public function's argument of this name may be. What is left to the function itself because it
# depends on the model, the text or the method: text, target, data, queries beyond their type ... (see the tests).
KINDS: Mapping[str, Kind] = {
    "ablations": COUNT,
    "alpha": Kind("= a number above 0", lambda value: is_number(value) and value > 0),
    "average": Kind("= a share of 0 to 1", lambda value: is_number(value) and 0 <= value <= 1).or_none(),
    "baseline": Kind(
        "='mask', 'zeros', 'pad' or a tensor",
        lambda v: isinstance(v, str) or hasattr(v, "is_floating_point"),
    ).or_none(),
    "batch_size": COUNT,
    "clamp": one_of("layer", "head"),
    "costly": COUNT.or_none(),
    "device": TEXT.or_none(),
    "distance": TEXT,
    "encoding": TEXT.or_none(),
    "errors": one_of("raise", "skip"),
    "exclude": Kind("= 'first', 'template', a role, or a list of them", _some_names),
    "faithfulness": FLAG,
    "generate": Kind("= a mapping of generate's arguments", lambda value: isinstance(value, Mapping)).or_none(),
    "head": WHOLE.or_none(),
    "hops": Kind("= a whole number of 0 or more", lambda value: is_whole(value) and value >= 0),
    "i": Kind("= a row's number or 'max'", lambda value: isinstance(value, str) or is_whole(value)),
    "kind": TEXT.or_none(),
    "layer": WHOLE.or_none(),
    "layers": Kind(
        "= a word or a list of numbers, or None",
        lambda value: value is None or isinstance(value, (str, list, tuple, range)),
    ),
    "level": Kind(" between 0 and 1", lambda value: is_number(value) and 0 < value < 1),
    "limit": COUNT.or_none(),
    "maps": FLAG,
    "max_new_tokens": COUNT,
    "measure": TEXT.or_none(),
    "name": TEXT,
    "measures": Kind("= a measure's name or a list of them", _some_names),
    "memory": Kind("= bytes, '2GB', '512MiB' or None (what is free)", _is_budget),
    "method": Kind("= a method's name, a str", lambda value: isinstance(value, str), UnknownMethod),
    "methods": Kind("= a method's name or a list of them", _some_names, UnknownMethod).or_none(),
    "normalize": FLAG,
    "options": Kind(
        "= a mapping of names to mappings",
        lambda value: isinstance(value, Mapping) and all(isinstance(entry, Mapping) for entry in value.values()),
    ).or_none(),
    "out": PATH.or_none(),
    "path": PATH.or_none(),
    "progress": Kind(
        "= True (a bar), None, or a function of (done, in all)",
        lambda value: value is None or isinstance(value, bool) or callable(value),
    ),
    "queries": NUMBERS.or_none(),
    "readout": Kind("= a row's number, 'mean' or 'max'", lambda v: isinstance(v, str) or is_whole(v)).or_none(),
    "reasoning": _PAIR.or_none(),
    "receptive_field": Kind("= True, False or None", lambda value: value is None or isinstance(value, bool)),
    "reference": Kind("= a method's name, a str", lambda value: isinstance(value, str), UnknownMethod),
    "replace": Kind("= a word or a token id", lambda v: isinstance(v, str) or is_whole(v)).or_none(),
    "resamples": COUNT,
    "residual": Kind(
        "='auto', None or a share in [0, 1)",
        lambda value: value is None or isinstance(value, str) or is_number(value),
    ),
    "row": Kind("= a row's number or 'max'", lambda value: isinstance(value, str) or is_whole(value)).or_none(),
    "rule": TEXT,
    "seed": Kind("= a whole number of 0 or more", lambda value: is_whole(value) and value >= 0),
    "span": Kind(
        "= 'token', 'answer' or (first, last)", lambda v: _PAIR.fits(v) or (isinstance(v, str) and v in _SPANS)
    ),
    "standardize": Kind("=(mean, deviation), two tensors that Lens.output_statistics makes", _is_statistics).or_none(),
    "steps": Kind(" of at most 1,000,000", lambda value: is_whole(value) and value <= 10**6),
    "temperature": Kind("= a number above 0", lambda value: is_number(value) and value > 0),
    "tolerance": Kind("= a share of the difference, 0 or more", lambda v: not is_whole(v) or abs(v) <= _MOST),
    "stride": COUNT.or_none(),
    "truncate": FLAG,
    "units": Kind("= a unit's name, or {'name': (start, end)}", lambda value: isinstance(value, (str, Mapping))),
    "upto": TEXT,
    "window": COUNT.or_none(),
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose arguments are held against `KINDS` before it begins; a default None may be passed."""
    expected = signature(function)
    kinds = {
        name: KINDS[name].or_none() if parameter.default is None and not KINDS[name].fits(None) else KINDS[name]
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


_OF_TARGETS = ("foil", "of", "position", "word")
_WANTED: Mapping[type, tuple[str, tuple[type, ...]]] = {  # by the type of an option's default
    bool: ("True or False", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
}


def refuse_unknown(name: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raises UnknownOption for an option that the method would ignore, flags and numbers that are none."""
    for option, value in options.items():
        if option not in known:
            has = f"its options are {', '.join(sorted(known))}" if known else "it has none"
            hint = f"; a target says it: mixlens.Target(..., {option}=...)" if option in _OF_TARGETS else ""
            raise UnknownOption(f"{name} would ignore the option {option!r}{hint}; {has}")
        if not shallow(value):
            raise UnknownOption(f"expected {option}= a value of a few lists in lists for {name}, got one too deep")
        wanted = _WANTED.get(type(known[option]))
        # None beside a whole number is a method's own to answer (layer=)
        none = value is None and isinstance(known[option], float) and option in KINDS and KINDS[option].fits(None)
        if wanted is not None and type(value) not in wanted[1] and not none:
            raise UnknownOption(f"expected {option}= {wanted[0]} for {name}, got {value!r}")
        kind = KINDS.get(option, TEXT if isinstance(known[option], str) else None)
        if kind is not None:
            kind.check(option, value, f" for {name}")
