"""Scores from outside as a method of an evaluation: a function of one's own, or another package behind one."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mixlens.attribute.method import Method
from mixlens.capture.stream import Stream
from mixlens.cost import Cost
from mixlens.errors import InputError, NotFinite
from mixlens.lens import Lens
from mixlens.target import Target
from mixlens.tasks import Example

Scorer = Callable[..., Any]  # (Question, **options) -> (token,) numbers


@dataclass(frozen=True, eq=False)
class Question:
    """What a function that is evaluated as a method has to explain: one example, as the model reads it.

    `tokens`: of the text, or of the prompt that an answer stands behind. `names`: what each is called. `ids`: their
    numbers in the vocabulary, none for pictures and sound. `text`: what was read, a pair of texts, or None where ids
    came in. `target`: what is explained of a text: a class, a token, a position. `answer`, `foil`: token ids of a
    language model's answer behind the prompt, and of what it is held against, as long; None where there is none.
    `lens`: on the model, `example`: the row of the data.

    Examples:
        >>> def length(question):
        ...     return [float(len(name)) for name in question.names]
        >>> mixlens.evaluate(lens, ["a good film."], [("length", length, {})], ["spearman"]).methods
        ('length',)
    """

    lens: Lens
    example: Example
    tokens: Stream
    target: Target | None = None
    answer: tuple[int, ...] | None = None
    foil: tuple[int, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What each token is called."""
        return self.tokens.names

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens' numbers in the vocabulary; none for pictures and sound."""
        return tuple(getattr(self.tokens, "ids", ()))

    @property
    def text(self) -> Any:
        """The text that was read, a pair of texts, or None where token ids came in."""
        return getattr(self.tokens, "raw", None)

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Given(Method):
    """A function of one's own. Nothing is known of its scores: they may be signed, and differ by what is explained."""

    signed: bool = True
    class_specific: bool = True
    function: Scorer = field(kw_only=True)

    @property
    def two_streams(self) -> bool:
        """Whatever model it is for, the function knows."""
        return True

    def cost(self, options: Mapping[str, Any]) -> Cost:
        """Nobody knows; its results are put down often."""
        return Cost("given", "what the function takes", slow=True)

    @property
    def record(self) -> dict[str, str]:
        """What tells it from another function: its name, and its `version` or, without one, its source's digest."""
        made: Any = self.function
        names = made if hasattr(made, "__qualname__") else type(made)
        out = {"function": f"{names.__module__}.{names.__qualname__}"}
        version = getattr(made, "version", None)
        if version is not None:
            return {**out, "version": str(version)}
        try:
            source = inspect.getsource(names)
        except (OSError, TypeError):  # written at a prompt, or compiled
            return out
        return {**out, "source": hashlib.sha256(source.encode()).hexdigest()}

    def scores(self, question: Question, options: Mapping[str, Any]) -> NDArray[np.float64]:
        """(token,): what the function says of an example. Raises InputError, NotFinite."""
        values = self.function(question, **options)
        if isinstance(values, torch.Tensor):
            values = values.detach().cpu()
            values = (values.double() if values.dtype.is_floating_point else values).numpy()
        try:
            array = np.asarray(values)
        except ValueError:  # rows of several lengths
            array = np.asarray(None)
        unit = question.tokens.unit
        wanted = f"{len(question)} scores from {self.name!r}, a number a {unit} of example {question.example.id!r}"
        if array.dtype.kind not in "iuf" or array.shape != (len(question),):
            came = f"an array of {array.dtype}, shape {array.shape}" if array.shape else type(values).__name__
            raise InputError(f"expected {wanted}, got {came}; question.names are the tokens")
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            place = question.names[int(bad[0])]
            raise NotFinite(
                f"expected finite {wanted}, got {array[bad[0]]} at {place!r}; give 0 where there is nothing to say, or "
                "raise an error for an example that has no scores"
            )
        return array.astype(np.float64)
