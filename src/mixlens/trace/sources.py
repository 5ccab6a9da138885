"""Sources that are left out of a trace before its rows are divided: the first token, a template, roles of a chat."""

from __future__ import annotations

from collections.abc import Sequence

from mixlens.capture.text import Tokens
from mixlens.errors import UnknownOption

FIRST, TEMPLATE = "first", "template"


def excluded(prompt: Tokens, answer: Tokens | None, names: str | Sequence[str]) -> tuple[int, ...]:
    """The positions that are left out. Raises UnknownOption.

    "first": the first token, which many heads attend to when they have nothing to say; "template": special tokens and
    those of a chat's template; a role of the chat: all of its turns. `answer`: None while there is none.
    """
    listed = [names] if isinstance(names, str) else list(names)
    special = (*prompt.special, *(answer.special if answer else ()))
    roles = prompt.roles or (None,) * len(prompt)
    known = sorted({role for role in roles if role is not None})
    out: set[int] = set()
    for name in listed:
        if name == FIRST:
            out.add(0)
        elif name == TEMPLATE:
            out |= {i for i, mark in enumerate(special) if mark}
        elif name in known:
            out |= {i for i, role in enumerate(roles) if role == name}
        else:
            roles_named = (
                f" or a role ({', '.join(known)})" if known else " (this prompt is no chat, so it has no roles)"
            )
            raise UnknownOption(f"expected exclude='first', 'template'{roles_named}, got {name!r}")
    if out.issuperset(range(len(prompt))):  # and nothing else is a source of the first answer token
        raise UnknownOption(f"expected exclude= to leave some of the prompt, {listed} leaves nothing of it")
    return tuple(sorted(out))
