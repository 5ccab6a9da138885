"""Many texts in one call, of which some cannot be explained: which, and why."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mixlens.capture.text import Tokens
from mixlens.errors import InputError, MixlensError, OverBudget, UnknownMethod
from mixlens.results import Results

R = TypeVar("R")
E = TypeVar("E", bound=MixlensError)
Run = Callable[[Sequence[int]], list[R]]  # the numbers of some texts -> a result each


def numbered(error: E, number: int) -> E:
    """The error of text `number` of a list: the same class, and the number in front."""
    return type(error)(f"text {number}: {error.args[0] if error.args else error}")


def explained(run: Run[R], texts: Sequence[Tokens | MixlensError], single: bool, skip: bool) -> Any:
    """The result of one text, or `Results` of several.

    A text that fails: its error, with its number, is raised; or (`skip`) None stands in its place, and a warning says
    how many there are. Raises what is the call's own fault in any case.
    """
    if single:
        return run([0])[0]
    if not skip:
        for one in texts:
            if isinstance(one, MixlensError):
                raise one
        numbers = list(range(len(texts)))
        try:
            return Results(run(numbers))
        except (UnknownMethod, OverBudget):
            raise
        except MixlensError as error:
            raise _named(run, numbers, error) from None
    failed = {i: one for i, one in enumerate(texts) if isinstance(one, MixlensError)}
    out: list[Any] = [None] * len(texts)
    _fill(run, [i for i in range(len(texts)) if i not in failed], out, failed)
    reasons = {i: failed[i] for i in sorted(failed)}
    if len(failed) == len(texts):
        for own in reasons.values():
            if not isinstance(own, InputError):
                raise own  # not one text could be explained, and no text is to blame
    if failed:
        _warn(reasons, len(texts))
    return Results(out, {i: _reason(error) for i, error in reasons.items()})


def _named(run: Run[R], numbers: Sequence[int], error: MixlensError) -> MixlensError:
    """The error with the number of the text that it is about; as it is where every text has it, or none alone."""
    some, own = list(numbers), None
    while len(some) > 1:
        half = some[: len(some) // 2]
        found = _fails(run, half)
        some, own = (some[len(some) // 2 :], None) if found is None else (half, found)
    own = own or _fails(run, some)
    last = numbers[-1]
    if own is None or (not isinstance(own, InputError) and some[0] == 0 and (last == 0 or _fails(run, [last]))):
        return error
    return numbered(own, some[0])


def _fails(run: Run[R], some: Sequence[int]) -> MixlensError | None:
    try:
        run(some)
    except MixlensError as error:
        return error
    return None


def _fill(run: Run[R], some: Sequence[int], out: list[Any], failed: dict[int, MixlensError]) -> None:
    """Run the texts together; where that fails each half, down to the text whose fault it is."""
    if not some:
        return
    try:
        for i, one in zip(some, run(some), strict=True):
            out[i] = one
        return
    except UnknownMethod:
        raise
    except MixlensError as error:
        if len(some) == 1:
            failed[some[0]] = numbered(error, some[0])
            return
    half = len(some) // 2
    _fill(run, some[:half], out, failed)
    _fill(run, some[half:], out, failed)


def _reason(error: MixlensError) -> str:
    return f"{type(error).__name__}: {error}"


def _warn(failed: dict[int, MixlensError], count: int) -> None:
    numbers = list(failed)
    which = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mixlens":
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{len(numbers)} of {count} texts are skipped, None stands in their place ({which}); the first: "
        f"{_reason(failed[numbers[0]])}",
        UserWarning,
        stacklevel=level,
    )
