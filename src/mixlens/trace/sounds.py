"""A sound that is traced to (Whisper): its frames as the source's positions, its words as named parts of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from mixlens.capture.sound import Sound
from mixlens.capture.text import Tokens
from mixlens.errors import InputError
from mixlens.subject import Subject
from mixlens.subject.sounds import listed
from mixlens.trace.prompt import Prompt


def sounds_of(data: Any) -> tuple[list[Any], bool]:
    """The sounds of a call, and whether it was a single one."""
    return listed(data)


def read_sound(subject: Subject, given: Any) -> tuple[Prompt, Mapping[str, Tensor]]:
    """The frames as tokens, named by their seconds, whose ids mean nothing; and what the encoder is fed. Where words
    are known, each stands as a document does. Raises InputError.
    """
    (sound,) = subject.encoder.read(given).require()
    assert isinstance(sound, Sound)
    tokens = Tokens(ids=(0,) * len(sound), pieces=sound.names, special=sound.special, text=())
    homes = sound.homes()
    words: dict[str, tuple[int, int]] = {}
    for k, (text, _, _) in enumerate(sound.words or ()):
        frames = [i for i, home in enumerate(homes) if home == k]
        again = sum(name.partition(" (")[0] == text for name in words)
        if frames:
            words[f"{text} ({again + 1})" if again else text] = (frames[0], frames[-1] + 1)
    return Prompt(tokens, words), sound.inputs


def refuse_documents(documents: Any) -> None:
    """Raises InputError for documents."""
    if documents is not None:
        raise InputError("documents= are put into a prompt of text, this one is a sound; leave them out")
