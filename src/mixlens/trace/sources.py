"""Sources that are left out of a trace before its rows are divided: the first token, a template, roles of a chat."""

from __future__ import annotations

from collections.abc import Sequence

from mixlens.capture.text import Tokens
from mixlens.errors import DataError, UnknownOption

FIRST, TEMPLATE = "first", "template"


def excluded(prompt: Tokens, answer: Tokens | None, names: str | Sequence[str]) -> tuple[int, ...]:
    """The positions that are left out. Raises UnknownOption.

    "first": the first token, which many heads attend to when they have nothing to say; "template": special tokens and
    those of a chat's template; a role of the chat: all of its turns. `answer`: None while there is none.
    """
    listed = [names] if isinstance(names, str) else list(names)
    known = roles(prompt)
    for name in listed:
        if name not in (FIRST, TEMPLATE, *known):
            roles_named = (
                f" or a role ({', '.join(known)})" if known else " (this prompt is no chat, so it has no roles)"
            )
            raise UnknownOption(f"expected exclude='first', 'template'{roles_named}, got {name!r}")
    out = _places(prompt, answer, listed)
    if out.issuperset(range(len(prompt))):  # and nothing else is a source of the first answer token
        raise UnknownOption(f"expected exclude= to leave some of the prompt, {listed} leaves nothing of it")
    return tuple(sorted(out))


def roles(prompt: Tokens) -> list[str]:
    """The roles of a chat; of what is none, none."""
    return sorted({role for role in prompt.roles or () if role is not None})


def in_this(tokens: Tokens, names: Sequence[str]) -> tuple[str, ...]:
    """Which of the names mean something for one of many texts: a chat need not have every role.

    Raises DataError where they leave nothing.
    """
    kept = tuple(name for name in names if name in (FIRST, TEMPLATE, *roles(tokens)))
    if kept and _places(tokens, None, kept).issuperset(range(len(tokens))):
        raise DataError(f"exclude={list(kept)} leaves no source of this example; expected some of it to be left")
    return kept


def _places(prompt: Tokens, answer: Tokens | None, names: Sequence[str]) -> set[int]:
    special = (*prompt.special, *(answer.special if answer else ()))
    parts = {
        FIRST: {0},
        TEMPLATE: {i for i, mark in enumerate(special) if mark},
        **{role: {i for i, other in enumerate(prompt.roles or ()) if other == role} for role in roles(prompt)},
    }
    return set().union(*(parts[name] for name in names))
