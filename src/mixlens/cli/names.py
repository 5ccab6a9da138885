"""Names that were typed, before a model is loaded: what no model has is said at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from mixlens.errors import UnknownOption, did_you_mean


def attributed(method: str | None, options: Mapping[str, Any], call: Callable[..., Any]) -> None:
    """Of a method of scores and its options beside the arguments of `call`. Raises UnknownMethod, UnknownOption,
    Undefined.
    """
    from mixlens.attribute import ATTRIBUTIONS
    from mixlens.attribute.names import COMMON, known

    lines = ATTRIBUTIONS.values()
    _check(method, options, call, known, {**COMMON, **{name: None for line in lines for name in line.options()}})


def mapped(options: Mapping[str, Any]) -> None:
    """Of a mixing method, which stands among its options. Raises UnknownMethod, UnknownOption."""
    from mixlens.mixing.calls import known, mixing

    default = signature(mixing).parameters["method"].default
    _check(options.get("method", default), options, mixing, known, {})


def alike(method: str | None, options: Mapping[str, Any]) -> None:
    """Of a similarity method. Raises UnknownMethod, UnknownOption."""
    from mixlens.similarity.calls import DEFAULT, known, similarity

    _check(method or DEFAULT, options, similarity, known, {})


def compared(methods: Sequence[str] | None) -> None:
    """Of several methods of scores. Raises UnknownMethod, Undefined."""
    from mixlens.attribute.names import method

    for name in methods or ():
        method(name)


def _check(
    method: str | None,
    options: Mapping[str, Any],
    call: Callable[..., Any],
    known: Callable[[str, dict[str, Any]], Any],
    every: Mapping[str, Any],
) -> None:
    """Without a method, which the model decides, an option is to be one of `every`."""
    parameters = signature(call).parameters
    rest = {name: value for name, value in options.items() if name not in parameters}
    if method is not None:
        known(method, rest)
        return
    for name in rest:
        if name not in every:
            raise UnknownOption(
                f"no method has an option {name!r}{did_you_mean(name, every)}; see mixlens methods NAME"
            )
