"""Encoder-decoders: two stacks of layers, of which the second reads what the first has made of a text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mixlens.architectures import Spec, encoder_of, position_limit
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, Undefined
from mixlens.infer import Origin
from mixlens.subject.check import Check
from mixlens.subject.head import head_of
from mixlens.subject.read import Texts
from mixlens.subject.subject import Subject, examination, form


@dataclass(frozen=True, eq=False, kw_only=True)
class Encoder(Subject):
    """The encoder of an encoder-decoder: it reads one text at a time."""

    def read(self, data: Any, truncate: bool = False, windows: bool | None = None) -> Texts:
        """As every subject, and no pairs: the second text is the decoder's. Raises InputError."""
        texts = super().read(data, truncate, windows)
        if any(isinstance(text, Tokens) and len(text.text) > 1 for text in texts.each):
            raise InputError(
                "expected one text for an encoder, got a pair; where a target comes from is lens.trace(source, target)"
            )
        return texts


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderDecoder(Subject):
    """`memory`: its encoder, a subject of its own; `spec`, `layers` and `head` are the decoder's, `check` is both's."""

    memory: Encoder

    def current(self) -> EncoderDecoder:
        """As every subject's; the encoder's part of the check is the encoder's. Raises SelfCheckFailed, NotFinite."""
        memory = replace(self.memory, model=encoder_of(self.model))
        if form(self.model) == self.checked_as:
            return replace(self, memory=memory)
        check = examination(self.model, self.spec, self.name)
        memory = replace(memory, check=_of_encoder(check), checked_as=form(memory.model))
        return replace(self, check=check, checked_as=form(self.model), memory=memory)

    @property
    def encoder(self) -> Subject:
        """Whose layers a text alone goes through."""
        return self.memory

    @property
    def classifies(self) -> bool:
        """Whether it answers a whole text (BART's classifiers)."""
        return self.head.task == "sequence"

    def read(self, data: Any, truncate: bool = False, windows: bool | None = None) -> Texts:
        """Raises Undefined: it is not fed one text."""
        self.require_one_read()
        raise Undefined(
            f"expected a model that reads one text, got an encoder-decoder ({type(self.model).__name__}): where its "
            "answer comes from is lens.trace(source, target), what its encoder mixes is lens.mixing(source)"
        )

    def require_one_read(self) -> None:
        """Raises Undefined for a classifier, whose encoder and decoder both read a text."""
        if self.classifies:
            raise Undefined(
                f"expected a model of one stream, got a classifier of an encoder and a decoder "
                f"({type(self.model).__name__}): lens.attribute(text) and lens.mixing(text) explain it, nothing else "
                "is built for it"
            )


def encoder_in(model: Any, tokenizer: Any, name: str, spec: Spec, check: Check, origin: Origin) -> Encoder:
    """The encoder of a checked encoder-decoder."""
    encoder = encoder_of(model)
    return Encoder(
        model=encoder,
        tokenizer=tokenizer,
        spec=spec,
        head=head_of(encoder, spec, tokenizer, causal=False),
        name=name,
        limit=position_limit(encoder, spec),
        check=_of_encoder(check),
        checked_as=form(encoder),
        origin=origin,
    )


def _of_encoder(check: Check) -> Check:
    """The part of an encoder-decoder's check that is the encoder's."""
    return replace(check, layers=tuple(layer for layer in check.layers if layer.part == "encoder"))
