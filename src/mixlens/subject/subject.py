"""Subject: a model that has passed its self-check, what is known of it, and the two things that every method does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from mixlens.architectures import TEXT, Spec, encoder_of, layer_count, position_limit
from mixlens.capture.batch import BatchSize
from mixlens.capture.fed import SOUNDS, kind
from mixlens.capture.offload import device_of
from mixlens.capture.picture import PIXELS
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, Undefined, UnknownArchitecture, UnknownOption
from mixlens.infer import Origin, known
from mixlens.process import settled
from mixlens.progress import Progress
from mixlens.subject.check import Check, of_towers, self_check
from mixlens.subject.head import Head, Pooled, head_of
from mixlens.subject.passes import Batch, Made, OnBlock, TextPass, Wanted, batches, passes
from mixlens.subject.pictures import read_pictures
from mixlens.subject.probe import pad_id, probe_inputs
from mixlens.subject.read import Texts, read
from mixlens.subject.sounds import read_sounds
from mixlens.subject.towers import NAME_ONE, Tower, require_cosines, towers_of
from mixlens.subject.unembedding import Unembedding, unembedding_of


@dataclass(frozen=True, eq=False)
class Subject:
    """What is explained. `spec`: how its layers are built; `head`: what it answers; `check`: how far the numbers of a
    decomposition were off the model's own.

    `origin`: who says how the layers are built. `limit`: the most tokens it has positions for (None: nothing says so).
    `checked_as`: the dtype and the device that the model had then (see `current`). `memory`: of an encoder-decoder the
    encoder, a subject of its own; `spec`, `layers` and `head` are then the decoder's; `encodes`: it is such an encoder.
    `towers`: of a model of two (CLIP) that of texts and that of pictures, subjects of their own; all else is then the
    tower's of texts, but the check, which is both's. The model is the user's, and is never changed.
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
    towers: tuple[Subject, Subject] | None = None

    def current(self) -> Subject:
        """Itself, checked again if the model was brought to another dtype or device: what held need not hold there.

        A new one for each call: tensors that it has seen may have been replaced since. Raises SelfCheckFailed,
        NotFinite.
        """
        if self.towers is not None:
            both = self.towers[0].current(), self.towers[1].current()
            if all(new.checked_as == old.checked_as for new, old in zip(both, self.towers, strict=True)):
                return replace(self, towers=both)
            return _joined(self.whole, both, self.name)
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

    def read(self, data: Any, truncate: bool = False, windows: bool | None = None) -> Texts:
        """What a caller passes as text, picture or sound, or a list of some, to what the model is fed. `windows`:
        whether texts are cut into windows, so that they may be of any length; None where that cannot be asked for.

        Raises InputError, and Undefined for an encoder-decoder or two towers, which are not fed one text.
        """
        self.require_one_stream()
        if self.head.fed == PIXELS:
            return read_pictures(data, self.model, self.spec, self.tokenizer, truncate)
        if self.head.fed in SOUNDS:
            return read_sounds(data, self.model, self.spec, self.tokenizer, self.head, truncate)
        texts = read(data, self.model, self.tokenizer, self.head, self.limit, truncate, windows)
        if self.encodes and any(isinstance(text, Tokens) and len(text.text) > 1 for text in texts.each):
            raise InputError(
                "expected one text for an encoder, got a pair; where a target comes from is lens.trace(source, target)"
            )
        return texts

    @property
    def classifies(self) -> bool:
        """Whether it is an encoder-decoder that answers a whole text (BART's classifiers)."""
        return self.memory is not None and self.head.task == "sequence"

    def require_one_tower(self) -> None:
        """Raises Undefined for a model of two towers."""
        if self.towers is not None:
            raise Undefined(
                f"expected a model that reads one text or one picture, got two towers "
                f"({type(self.whole).__name__}): which words and which patches make them alike is "
                f"lens.similarity(text, picture); for all else name one: {NAME_ONE}"
            )

    def require_one_stream(self) -> None:
        """Raises Undefined for an encoder-decoder or two towers, which are not fed one text."""
        self.require_one_tower()
        if self.classifies:
            raise Undefined(
                f"expected a model of one stream, got a classifier of an encoder and a decoder "
                f"({type(self.model).__name__}): lens.attribute(text) and lens.mixing(text) explain it, nothing else "
                "is built for it"
            )
        if self.memory is not None:
            raise Undefined(
                f"expected a model that reads one text, got an encoder-decoder ({type(self.model).__name__}): where "
                "its answer comes from is lens.trace(source, target), what its encoder mixes is lens.mixing(source)"
            )

    @property
    def whole(self) -> Any:
        """The user's model: of two towers the one that holds both."""
        return self.model if self.towers is None else self.model.whole

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
    name = name or getattr(model.config, "_name_or_path", "") or type(model).__name__
    towers = towers_of(model)
    if towers is not None:
        if spec is not None:
            raise UnknownOption(f"expected no spec= for a model of two towers, which have one each; {NAME_ONE}")
        readers = (getattr(tokenizer, part, None) for part in ("tokenizer", "image_processor"))
        text, picture = (_tower(tower, reader, name) for tower, reader in zip(towers, readers, strict=True))
        return _joined(model, (text, picture), name)
    spec, origin = known(model, spec)
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


def _tower(tower: Tower, reader: Any, name: str) -> Subject:
    """One of two towers, checked; `reader`: its tokenizer or image processor."""
    try:
        spec, origin = known(tower)
    except UnknownArchitecture as error:
        raise UnknownArchitecture(f"of two towers that of {kind(tower.food)}s: {error}") from error
    check = examination(tower, spec, name)
    return Subject(
        model=tower,
        tokenizer=reader,
        spec=spec,
        head=Head(
            "none",
            {},
            causal=check.causal,
            pad=getattr(tower.config, "pad_token_id", None),
            mask=getattr(reader, "mask_token_id", None),
            tokenizer=reader if tower.food == TEXT else None,
            fed=tower.food,
        ),
        name=name,
        limit=position_limit(tower, spec) if tower.food == TEXT else None,
        check=check,
        checked_as=_form(tower),
        origin=origin,
    )


def _joined(model: Any, towers: tuple[Subject, Subject], name: str) -> Subject:
    """The model of two checked towers. Raises SelfCheckFailed where it does not compare them by cosines."""
    text, picture = towers
    require_cosines(model, (text.model, picture.model), name)
    check = of_towers(text.check, picture.check, model)
    return replace(text, towers=towers, check=check)


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
