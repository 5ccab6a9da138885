"""Subject: a model that has passed its self-check, what is known of it, and the two things that every method does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from mixlens.architectures import Spec, encoder_of, layer_count, position_limit
from mixlens.capture.batch import BatchSize
from mixlens.capture.fed import SIGNALS, SOUNDS
from mixlens.capture.offload import device_of
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, Undefined
from mixlens.infer import Origin, known
from mixlens.process import settled
from mixlens.progress import Progress
from mixlens.subject.check import Check, self_check
from mixlens.subject.head import Head, Pooled, head_of
from mixlens.subject.passes import Batch, Made, OnBlock, TextPass, Wanted, batches, passes
from mixlens.subject.probe import pad_id, probe_inputs
from mixlens.subject.read import Texts, read
from mixlens.subject.signals import read_signals
from mixlens.subject.unembedding import Unembedding, unembedding_of


@dataclass(frozen=True, eq=False)
class Subject:
    """What is explained. `spec`: how its layers are built; `head`: what it answers; `check`: how far the numbers of a
    decomposition were off the model's own.

    `origin`: who says how the layers are built. `limit`: the most tokens it has positions for (None: nothing says so).
    `checked_as`: the dtype and the device that the model had then (see `current`). `memory`: of an encoder-decoder the
    encoder, a subject of its own; `spec`, `layers` and `head` are then the decoder's; `encodes`: it is such an encoder.
    The model is the user's, and is never changed.
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
    memory: Subject | None = None
    encodes: bool = False

    def current(self) -> Subject:
        """Itself, checked again if the model was brought to another dtype or device: what held need not hold there.

        A new one for each call: tensors that it has seen may have been replaced since. Raises SelfCheckFailed,
        NotFinite.
        """
        memory = None if self.memory is None else replace(self.memory, model=encoder_of(self.model))
        if _form(self.model) == self.checked_as:
            return replace(self, memory=memory)
        check = examination(self.model, self.spec, self.name)
        if memory is not None:
            memory = replace(memory, check=_of_encoder(check), checked_as=_form(memory.model))
        return replace(self, check=check, checked_as=_form(self.model), memory=memory)

    @property
    def encoder(self) -> Subject:
        """Whose layers a text alone goes through: an encoder-decoder's encoder, of all others itself."""
        return self if self.memory is None else self.memory

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

    def read(self, data: Any, truncate: bool = False) -> Texts:
        """What a caller passes as text, picture or sound, or a list of some, to what the model is fed. Raises
        InputError, and Undefined for an encoder-decoder, which is not fed one text.
        """
        if self.memory is not None:
            raise Undefined(
                f"expected a model that reads one text, got an encoder-decoder ({type(self.model).__name__}): where "
                "its answer comes from is lens.trace(source, target), what its encoder mixes is lens.mixing(source)"
            )
        if self.head.fed in SIGNALS:
            return read_signals(data, self.model, self.spec, self.tokenizer, self.head, truncate)
        texts = read(data, self.model, self.tokenizer, self.head, self.limit, truncate)
        if self.encodes and any(isinstance(text, Tokens) and len(text.text) > 1 for text in texts.each):
            raise InputError(
                "expected one text for an encoder, got a pair; where a target comes from is lens.trace(source, target)"
            )
        return texts

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


def examined(
    model: Any,
    tokenizer: Any = None,
    name: str | None = None,
    pooled: Pooled | None = None,
    spec: Spec | None = None,
    behind: tuple[str, ...] = (),
) -> Subject:
    """A Subject of a transformers model, checked. `pooled`: the rows that its user makes a vector of, without a head;
    `spec`: how its layers are built, where its user says so. `behind`: see `Head`.

    Raises UnknownArchitecture, UnsupportedConfig, SelfCheckFailed, NotFinite, ModelError.
    """
    spec, origin = known(model, spec)
    name = name or getattr(model.config, "_name_or_path", "") or type(model).__name__
    limit = position_limit(model, spec)
    check = examination(model, spec, name)
    memory = None if spec.memory is None else _encoder(model, tokenizer, name, spec.memory, check, origin)
    speaks = memory is not None and memory.head.fed in SOUNDS  # Whisper: its decoder needs the tokenizer alone
    return Subject(
        model=model,
        tokenizer=getattr(tokenizer, "tokenizer", None) if speaks else tokenizer,
        spec=spec,
        head=head_of(model, spec, tokenizer, check.causal, pooled, behind),
        name=name,
        limit=limit,
        check=check,
        checked_as=_form(model),
        origin=origin,
        memory=memory,
    )


def _encoder(model: Any, tokenizer: Any, name: str, spec: Spec, check: Check, origin: Origin) -> Subject:
    """The encoder of a checked encoder-decoder."""
    encoder = encoder_of(model)
    return Subject(
        model=encoder,
        tokenizer=tokenizer,
        spec=spec,
        head=head_of(encoder, spec, tokenizer, causal=False),
        name=name,
        limit=position_limit(encoder, spec),
        check=_of_encoder(check),
        checked_as=_form(encoder),
        origin=origin,
        encodes=True,
    )


def _of_encoder(check: Check) -> Check:
    """The part of an encoder-decoder's check that is the encoder's."""
    return replace(check, layers=tuple(layer for layer in check.layers if layer.part == "encoder"))


@settled
def examination(model: Any, spec: Spec, name: str) -> Check:
    """The self-check, passed. Raises SelfCheckFailed, NotFinite."""
    return self_check(model, spec, name).require()


def _form(model: Any) -> tuple[torch.dtype, torch.device]:
    return model.dtype, device_of(model)
