"""A transformers model to what is explained of it: of one stream, of two stacks, or of two towers."""

from __future__ import annotations

from typing import Any

from mixlens.architectures import Spec, position_limit
from mixlens.capture.fed import SOUNDS
from mixlens.errors import UnknownOption
from mixlens.infer import known
from mixlens.subject.compared import of_both, tower_of
from mixlens.subject.head import Pooled, head_of
from mixlens.subject.stacks import EncoderDecoder, encoder_in
from mixlens.subject.subject import Subject, examination, form
from mixlens.subject.towers import NAME_ONE, towers_of


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
        text, picture = (tower_of(tower, reader, name) for tower, reader in zip(towers, readers, strict=True))
        return of_both(model, (text, picture), name)
    spec, origin = known(model, spec)
    limit = position_limit(model, spec)
    check = examination(model, spec, name)
    facts: dict[str, Any] = {"model": model, "spec": spec, "name": name, "limit": limit, "check": check}
    facts |= {"checked_as": form(model), "origin": origin}
    head = head_of(model, spec, tokenizer, check.causal, pooled, behind)
    if spec.memory is None:
        return Subject(**facts, tokenizer=tokenizer, head=head)
    memory = encoder_in(model, tokenizer, name, spec.memory, check, origin)
    if memory.head.fed in SOUNDS:  # Whisper: its decoder needs the tokenizer alone
        tokenizer = getattr(tokenizer, "tokenizer", None)
    return EncoderDecoder(**facts, tokenizer=tokenizer, head=head, memory=memory)
