"""Every error that mixlens raises on purpose. One tree, so that one `except MixlensError` is enough.

    MixlensError
    |-- InputError             the text, the token ids or the mapping of model inputs
    |   |-- EmptyInput         nothing to explain
    |   |-- TooLong            more tokens than the model has positions
    |   |-- DataError          a data set, or a row of it, that a task cannot read
    |   `-- TargetError        a label, index, token, position or read-out row that does not exist here
    |-- MethodError            a method, an aggregation or an option
    |   |-- UnknownMethod      no such name in the stage's table
    |   |-- UnknownOption      an option that the method would ignore
    |   |-- Undefined          a combination that means nothing, with the reason
    |   `-- NotConverged       an approximation that is not good enough, with what to change
    |-- ModelError             the model itself
    |   |-- UnknownArchitecture    no spec for this model type
    |   |-- UnsupportedConfig      a configuration key that changes the mathematics and has no rule
    |   |-- SelfCheckFailed        the decomposition does not add up to the model's own numbers
    |   `-- NotFinite              NaN or infinity among weights, activations or scores
    |-- OverBudget             more memory is needed than there is, or than `memory=` allows
    |-- RunChanged             a folder holds an evaluation of another model, other data or other options
    |-- ResultFileError        a result file that cannot be read or written
    |-- WorkerLost             a process that works for a run ended before its work was done
    `-- MissingExtra           an optional dependency is not installed

Every message says what was expected, what came, and the likely fix.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from mixlens.escape import visible


class MixlensError(Exception):
    """Base of all errors raised on purpose. Their text, which may hold labels, names and data, steers no terminal."""

    def __str__(self) -> str:
        return visible(super().__str__())


class InputError(MixlensError, ValueError):
    """The text, the token ids or the mapping of model inputs cannot be used."""


class EmptyInput(InputError):
    """There is no token to explain."""


class TooLong(InputError):
    """There are more tokens than the model has positions."""


class DataError(InputError):
    """A data set, or a row of it, cannot be read as the task says."""


class TargetError(InputError):
    """A label, index, token, position or read-out row does not exist here."""


class MethodError(MixlensError, ValueError):
    """A method, an aggregation or an option cannot be used."""


class UnknownMethod(MethodError):
    """No such name in the table."""


class UnknownOption(MethodError):
    """The method has no such option, or an option has a value that it does not know."""


class Undefined(MethodError):
    """The combination is not defined; the message gives the reason."""


class NotConverged(MethodError):
    """An approximation is further from the truth than it may be; the message says what to change."""


class ModelError(MixlensError):
    """The model cannot be explained."""


class UnknownArchitecture(ModelError):
    """There is no spec for this model type."""


class UnsupportedConfig(ModelError):
    """A configuration key changes the mathematics and has no rule here."""


class SelfCheckFailed(ModelError):
    """The decomposition does not add up to the model's own numbers."""


class NotFinite(ModelError):
    """NaN or infinity among weights, activations or scores."""


class OverBudget(MixlensError, MemoryError):
    """More memory is needed than there is, or than `memory=` allows; said before any work starts."""


class RunChanged(MixlensError, ValueError):
    """A folder holds an evaluation of another model, other data or other options; the message names what differs."""


class ResultFileError(MixlensError, OSError):
    """A result file cannot be read or written."""


class WorkerLost(MixlensError, RuntimeError):
    """A process that works for a run ended before its work was done."""


class MissingExtra(MixlensError, ImportError):
    """An optional dependency is not installed; the message holds the install line."""


def missing(feature: str, package: str, extra: str) -> MissingExtra:
    """`feature` needs a package that is not installed, with what installs it (no index has mixlens yet)."""
    return MissingExtra(
        f'{feature} needs the package {package}, which is not installed: pip install ".[{extra}]" in the clone of '
        f"mixlens (or pip install {package})"
    )


LISTED = 100  # names that a message may list


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'alti'?"` for a near miss in whatever case, else the list of what there is, if short."""
    known = sorted(known)
    lower = {word.lower(): word for word in known}
    near = get_close_matches(str(name), known, n=1, cutoff=0.6)
    near += [lower[word] for word in get_close_matches(str(name).lower(), lower, n=1, cutoff=0.6)]
    if near or len(known) > LISTED:
        return f"; did you mean '{near[0]}'?" if near else f"; {len(known)} others are known, none is near"
    return f"; known are: {', '.join(known)}"
