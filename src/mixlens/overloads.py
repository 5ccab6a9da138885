"""What a type checker is told of verbs over texts: one text gives one result, a list of texts `Results` of them.

A Protocol here is a verb's signature, its `P` what follows the text. Of a tensor, an array or model inputs, which may
hold one text or several, nothing is known: `Any`. `errors="skip"` puts None into a list that is typed without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import numpy
from PIL.Image import Image
from torch import Tensor

from mixlens.capture.given import Words
from mixlens.results import Attribution, Results

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Samples: TypeAlias = Sequence[float] | numpy.ndarray[Any, Any] | Tensor
Text: TypeAlias = str | tuple[str, str] | Words | Sequence[int]
Signal: TypeAlias = (
    PathLike[str] | Image | Sequence[float] | tuple[Samples, int]
)  # a picture or a sound in a text's place
One: TypeAlias = Text | Signal
Rows: TypeAlias = Tensor | numpy.ndarray[Any, Any] | Mapping[str, Any]
Chat: TypeAlias = Sequence[Mapping[str, Any]]


class OneOrSeveral(Protocol[P, R_co]):
    """The verb as it is written: whether it gives one result or several is seen when it runs."""

    def __call__(self, lens: Any, /, text: Any, *args: P.args, **kwargs: P.kwargs) -> R_co | Results[Any]: ...


class Prompted(Protocol[P, R_co]):
    """The same of a prompt."""

    def __call__(self, lens: Any, /, prompt: Any, *args: P.args, **kwargs: P.kwargs) -> R_co | Results[Any]: ...


class Paired(Protocol[P, R_co]):
    """The same of two texts."""

    def __call__(
        self, lens: Any, /, first: Any, second: Any, *args: P.args, **kwargs: P.kwargs
    ) -> R_co | Results[Any]: ...


class OfTexts(Protocol[P, R]):
    """A verb of a text, or of a list of texts."""

    @overload
    def __call__(self, text: One, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, text: Rows, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(self, text: Sequence[Any], *args: P.args, **kwargs: P.kwargs) -> Results[R]: ...


class OfTensors(Protocol[P]):
    """The same of a verb that gives bare tensors."""

    @overload
    def __call__(self, text: One, *args: P.args, **kwargs: P.kwargs) -> Tensor: ...
    @overload
    def __call__(self, text: Rows, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(self, text: Sequence[Any], *args: P.args, **kwargs: P.kwargs) -> list[Tensor]: ...


class OfClasses(Protocol[P]):
    """`attribute`: the same, and a text's result for every class."""

    @overload
    def __call__(
        self, text: Any, method: str | None = None, *, target: Literal["all"], **options: Any
    ) -> Results[Attribution]: ...
    @overload
    def __call__(
        self, text: Any, method: str | None, target: Literal["all"], **options: Any
    ) -> Results[Attribution]: ...
    @overload
    def __call__(self, text: One, *args: P.args, **kwargs: P.kwargs) -> Attribution: ...
    @overload
    def __call__(self, text: Rows, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(self, text: Sequence[Any], *args: P.args, **kwargs: P.kwargs) -> Results[Attribution]: ...


class OfPrompts(Protocol[P, R]):
    """A verb of a prompt, which may be a chat, or of a list of prompts."""

    @overload
    def __call__(self, prompt: One | Chat, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, prompt: Rows, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(self, prompt: Sequence[Any], *args: P.args, **kwargs: P.kwargs) -> Results[R]: ...


class OfPairs(Protocol[P, R]):
    """A verb of a text and a second one, or a list of those."""

    @overload
    def __call__(self, first: Any, second: One, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self, first: Any, second: Rows, *args: P.args, **kwargs: P.kwargs) -> Any: ...
    @overload
    def __call__(self, first: Any, second: Sequence[Any], *args: P.args, **kwargs: P.kwargs) -> Results[R]: ...


def of_texts(verb: OneOrSeveral[P, R]) -> OfTexts[P, R]:
    """The verb, unchanged."""
    return verb  # type: ignore[return-value]


def of_tensors(verb: Callable[Concatenate[Any, Any, P], Tensor | list[Tensor]]) -> OfTensors[P]:
    """The verb, unchanged."""
    return verb  # type: ignore[return-value]


def of_classes(verb: OneOrSeveral[P, Attribution]) -> OfClasses[P]:
    """The verb, unchanged."""
    return verb  # type: ignore[return-value]


def of_prompts(verb: Prompted[P, R]) -> OfPrompts[P, R]:
    """The verb, unchanged."""
    return verb  # type: ignore[return-value]


def of_pairs(verb: Paired[P, R]) -> OfPairs[P, R]:
    """The verb, unchanged."""
    return verb  # type: ignore[return-value]
