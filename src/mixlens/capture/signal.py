"""`Signal`: the stream of what is no text (a picture, a sound), fed to a model as numbers of its own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from mixlens.capture.stream import Stream

if TYPE_CHECKING:
    from typing_extensions import Self


class Signal(Stream):
    """What pictures and sounds share. `noun`: what one is called; `fed`: what models call their input; `fillers`: what
    can stand in a place of it, the default first.
    """

    noun: ClassVar[str]
    fed: ClassVar[str]
    fillers: ClassVar[tuple[str, ...]]

    @property
    def special(self) -> tuple[bool, ...]:
        """None is, where a kind says no other."""
        return (False,) * len(self)

    @property
    def numbers(self) -> Tensor:
        """What the model is fed."""
        numbers: Tensor = self.inputs[self.fed]
        return numbers

    @property
    def alike(self) -> tuple[int, ...]:
        """Those of one size go through a model together: there is no padding."""
        return tuple(self.numbers.shape)

    @property
    def seed(self) -> tuple[int, ...]:
        """A digest of what the model is fed."""
        digest = sha256(self.numbers.detach().cpu().double().numpy().tobytes()).digest()
        return tuple(digest[:16])

    def without(self, removed: Sequence[int], filler: str) -> Self:
        """The same with something in the place of some positions. Raises UnknownOption."""
        raise NotImplementedError

    def filled(self, filler: str) -> Self:
        """The same with something in the place of all of it. Raises UnknownOption."""
        return self.without(range(len(self)), filler)
