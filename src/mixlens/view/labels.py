"""Labels of targets as text: what a token of a vocabulary stands for, without its tokenizer's marks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache


def spelled(label: object) -> str:
    """A label as text. Of a vocabulary token what it stands for, a blank at its start as `␣`: `ĠParis` is `␣Paris`.

    WordPiece's `##` stays: nothing else says that such a piece goes on a word.
    """
    text = str(label)
    text = text.replace("\u2581", " ") if text.startswith("\u2581") else _from_bytes(text)
    rest = text.lstrip(" ")
    return "␣" * (len(text) - len(rest)) + ("↵" * len(rest) if rest and not rest.strip("\r\n") else rest)


def _from_bytes(piece: str) -> str:
    """What a byte-level piece stands for: `CafÃ©` is `Café`. Anything else, half a character too, stays as it is."""
    try:
        return bytes(_bytes()[c] for c in piece).decode()
    except (KeyError, UnicodeDecodeError):
        return piece


@cache
def _bytes() -> Mapping[str, int]:
    """The letters of byte-level BPE: a byte's own Latin-1 character where that can be seen, else one from U+0100 on."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in seen]
    return {chr(b): b for b in seen} | {chr(256 + i): b for i, b in enumerate(hidden)}
