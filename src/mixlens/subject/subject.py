"""Subject: a model that has passed its self-check, what is known of it, and the two things that every method does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from mixlens.architectures import Spec, layer_count
from mixlens.capture.batch import BatchSize
from mixlens.capture.fed import SIGNALS
from mixlens.capture.offload import device_of
from mixlens.capture.stream import Stream
from mixlens.infer import Origin
from mixlens.process import settled
from mixlens.progress import Progress
from mixlens.subject.check import Check, self_check
from mixlens.subject.head import Head
from mixlens.subject.passes import Batch, Made, OnBlock, TextPass, Wanted, batches, passes
from mixlens.subject.probe import pad_id, probe_inputs
from mixlens.subject.read import Texts, read
from mixlens.subject.signals import read_signals
from mixlens.subject.unembedding import Unembedding, unembedding_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Subject:
    """What is explained: a model of one stream. `spec`: how its layers are built; `head`: what it answers; `check`: how
    far the numbers of a decomposition were off the model's own.

    `origin`: who says how the layers are built. `limit`: the most tokens it has positions for (None: nothing says so).
    `checked_as`: the dtype and the device that the model had then (see `current`). The model is the user's, and is
    never changed. Models of two parts are kinds of their own: `EncoderDecoder`, `TwoTowers`.
    """

    model: Any
    tokenizer: Any
    spec: Spec
    head: Head
    name: str
    limit: int | None
    check: Check
    checked_as: tuple[torch.dtype, torch.device]
    origin: Origin = "hand-written"

    def current(self) -> Subject:
        """Itself, checked again if the model was brought to another dtype or device: what held need not hold there.

        A new one for each call: tensors that it has seen may have been replaced since. Raises SelfCheckFailed,
        NotFinite.
        """
        if form(self.model) == self.checked_as:
            return replace(self)
        return replace(self, check=examination(self.model, self.spec, self.name), checked_as=form(self.model))

    def checked_again(self) -> Check:
        """The self-check of the model as it is now, whether it passes or not. Raises NotFinite."""
        return self_check(self.model, self.spec, self.name)

    @property
    def whole(self) -> Any:
        """The user's model."""
        return self.model

    @property
    def encoder(self) -> Subject:
        """Whose layers a text alone goes through."""
        return self

    def require_one_tower(self) -> None:
        """Raises Undefined for a model of two towers."""

    def require_one_read(self) -> None:
        """Raises Undefined for two towers, and for a classifier whose encoder and decoder both read a text."""

    @property
    def residual(self) -> float:
        """The largest residual of the self-check."""
        return self.check.worst

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return device_of(self.model)

    @property
    def pad(self) -> int | None:
        """The token id that fills batches up."""
        return pad_id(self.model, self.tokenizer)

    @cached_property
    def layers(self) -> int:
        """How many layers run in a pass."""
        return layer_count(self.model, self.spec)

    @cached_property
    def unembedding(self) -> Unembedding:
        """How the logits come of the last layer's vectors. Raises Undefined for what is no language model."""
        return unembedding_of(self.model, self.spec, probe_inputs(self.model, self.spec))

    def read(self, data: Any, truncate: bool = False, windows: bool | None = None) -> Texts:
        """What a caller passes as text, picture or sound, or a list of some, to what the model is fed. `windows`:
        whether texts are cut into windows, so that they may be of any length; None where that cannot be asked for.

        Raises InputError, and Undefined for a model that is not fed one text.
        """
        if self.head.fed in SIGNALS:
            return read_signals(data, self.model, self.spec, self.tokenizer, self.head, truncate)
        return read(data, self.model, self.tokenizer, self.head, self.limit, truncate, windows)

    def passes(
        self,
        texts: Sequence[Stream],
        make: Sequence[Made],
        *,
        square: bool = True,
        batch_size: BatchSize = 32,
        progress: Progress | None = None,
        answers: Sequence[int] | None = None,
    ) -> Iterator[tuple[list[int], list[list[TextPass]]]]:
        """The texts through the model, batch by batch, several functions of a layer at once (see `passes.passes`)."""
        return passes(
            self.model,
            self.spec,
            texts,
            make,
            pad=self.pad,
            keys=self.head.keys,
            square=square,
            batch_size=batch_size,
            progress=progress,
            answers=answers,
        )

    @settled
    def through(
        self,
        texts: Sequence[Stream],
        on_block: OnBlock | None = None,
        *,
        wanted: Wanted | None = None,
        square: bool = True,
        batch_size: BatchSize = 32,
        progress: Progress | None = None,
        answers: Sequence[int] | None = None,
    ) -> list[TextPass]:
        """The texts through the model, in order: what one function makes of each layer (None: the answers alone)."""
        kept: dict[int, TextPass] = {}
        for members, (batch,) in self.passes(
            texts, [(on_block, wanted)], square=square, batch_size=batch_size, progress=progress, answers=answers
        ):
            kept |= zip(members, batch, strict=True)
        return [kept[i] for i in range(len(texts))]

    def batches(self, texts: Sequence[Stream], batch_size: BatchSize) -> Iterator[Batch]:
        """The texts as the whole model's inputs, batch by batch, for who runs passes of a kind of their own."""
        return batches(self.model, texts, batch_size, self.pad, head=True)


@settled
def examination(model: Any, spec: Spec, name: str) -> Check:
    """The self-check, passed. Raises SelfCheckFailed, NotFinite."""
    return self_check(model, spec, name).require()


def form(model: Any) -> tuple[torch.dtype, torch.device]:
    """The dtype and the device that a model has."""
    return model.dtype, device_of(model)
