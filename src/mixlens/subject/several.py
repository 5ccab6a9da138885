"""Many texts in one call, of which some cannot be explained: which, and why."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from mixlens.capture.stream import Stream
from mixlens.errors import InputError, MixlensError, OverBudget, UnknownMethod
from mixlens.results import Results

R = TypeVar("R")
E = TypeVar("E", bound=MixlensError)
Run = Callable[[Sequence[int]], list[R]]  # the numbers of some texts -> a result each


def numbered(error: E, number: int, kind: str = "text") -> E:
    """The error of text `number` of a list: the same class, and the number in front. `kind`: what it is, if no text."""
    return type(error)(f"{kind} {number}: {error.args[0] if error.args else error}")


def explained(run: Run[R], texts: Sequence[Stream | MixlensError], single: bool, skip: bool) -> Any:
    """The result of one text, or `Results` of several.

    A text that fails: its error, with its number, is raised; or (`skip`) None stands in its place, and a warning says
    how many there are. Raises what is the call's own fault in any case.
    """
    if single:
        return run([0])[0]
    if not skip:
        for text in texts:
            if isinstance(text, MixlensError):
                raise text
        numbers = list(range(len(texts)))
        try:
            return Results(run(numbers))
        except (UnknownMethod, OverBudget):
            raise
        except MixlensError as error:
            raise _named(run, numbers, error) from None
    failed = {i: text for i, text in enumerate(texts) if isinstance(text, MixlensError)}
    out: list[Any] = [None] * len(texts)
    _fill(run, [i for i in range(len(texts)) if i not in failed], out, failed)
    return _skipped(out, failed)


def one_by_one(run: Callable[[int], R], count: int, skip: bool) -> Results[Any]:
    """The results of texts that share no pass, by their numbers; one that fails as in `explained`."""
    out: list[Any] = []
    failed: dict[int, MixlensError] = {}
    for number in range(count):
        try:
            out.append(run(number))
        except UnknownMethod:
            raise
        except MixlensError as error:
            failed[number] = numbered(error, number)
            if not skip:
                raise failed[number] from None
            out.append(None)
    return _skipped(out, failed)


def _skipped(out: Sequence[Any], failed: Mapping[int, MixlensError]) -> Results[Any]:
    """`Results` with None for texts that failed, and a warning; where all did and not by what they are, its error."""
    reasons = {i: failed[i] for i in sorted(failed)}
    if len(failed) == len(out):
        for fault in reasons.values():
            if not isinstance(fault, InputError):
                raise fault  # not one text could be explained, and no text is to blame
    if failed:
        _warn(reasons, len(out))
    return Results(out, {i: _reason(error) for i, error in reasons.items()})


def _named(run: Run[R], numbers: Sequence[int], error: MixlensError) -> MixlensError:
    """The error with the number of the text that it is about; as it is where every text has it, or none alone."""
    suspects, fault = list(numbers), None
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        failure = _fails(run, half)
        suspects, fault = (suspects[len(suspects) // 2 :], None) if failure is None else (half, failure)
    fault = fault or _fails(run, suspects)
    last = numbers[-1]
    if fault is None or (not isinstance(fault, InputError) and suspects[0] == 0 and (last == 0 or _fails(run, [last]))):
        return error
    return numbered(fault, suspects[0])


def _fails(run: Run[R], numbers: Sequence[int]) -> MixlensError | None:
    try:
        run(numbers)
    except MixlensError as error:
        return error
    return None


def _fill(run: Run[R], numbers: Sequence[int], out: list[Any], failed: dict[int, MixlensError]) -> None:
    """Run the texts together; where that fails each half, down to the text whose fault it is."""
    if not numbers:
        return
    try:
        for i, result in zip(numbers, run(numbers), strict=True):
            out[i] = result
        return
    except UnknownMethod:
        raise
    except MixlensError as error:
        if len(numbers) == 1:
            failed[numbers[0]] = numbered(error, numbers[0])
            return
    half = len(numbers) // 2
    _fill(run, numbers[:half], out, failed)
    _fill(run, numbers[half:], out, failed)


def _reason(error: MixlensError) -> str:
    return f"{type(error).__name__}: {error}"


def _warn(failed: dict[int, MixlensError], count: int) -> None:
    numbers = list(failed)
    which = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    warnings.warn(
        f"{len(numbers)} of {count} texts are skipped, None stands in their place ({which}); the first: "
        f"{_reason(failed[numbers[0]])}",
        UserWarning,
        stacklevel=_callers(),
    )


def _callers() -> int:
    """The `stacklevel` of `_warn` at which the caller of the package stands: behind its outermost frame."""
    level, outermost, frame = 0, 1, sys._getframe(1)
    while frame.f_back is not None:
        level += 1
        if frame.f_globals.get("__name__", "").partition(".")[0] == "mixlens":
            outermost = level
        frame = frame.f_back
    return outermost + 1
