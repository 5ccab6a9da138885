"""Which characters of a chat are its template's, and who says the rest: read off the tokenizer's own template.

No template is known by name. Three short chats are written by `apply_chat_template`; what stands around their contents
is how a turn begins and ends there, and a text that is made of such pieces is taken apart by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
_CONTENTS = {SYSTEM: "mixlens0probe", USER: "mixlens1probe", ASSISTANT: "mixlens2probe"}


@dataclass(frozen=True)
class Template:
    """How a chat is written. `heads`: what stands before the first content -> whose it is.

    `turns`: role -> what stands between its content and the next -> whose that is; None: the end of the chat.
    """

    heads: Mapping[str, str]
    turns: Mapping[str, Mapping[str, str | None]]


def roles(text: str, tokenizer: Any) -> list[str | None] | None:
    """Whose each character of a chat is, None being the template's; None altogether where the text is no such chat."""
    form = getattr(tokenizer, "chat_template", None)
    if not form:
        return None
    template = _template(tokenizer, str(form))
    head = max((head for head in template.heads if text.startswith(head)), key=len, default=None)
    if head is None:
        return None
    out: list[str | None] = [None] * len(head)
    role = template.heads[head]
    while True:
        at, mark, after = _next(text, len(out), template.turns.get(role, {}))
        out += [role] * (at - len(out))
        if mark is None:
            return out
        out += [None] * len(mark)
        if after is None:
            return out
        role = after


def marked(
    ids: Sequence[int],
    special: Sequence[bool],
    text: Sequence[str],
    spans: Sequence[tuple[int, int, int] | None] | None,
    tokenizer: Any,
) -> tuple[tuple[bool, ...], tuple[str | None, ...] | None]:
    """Which tokens are no content, and whose each of a chat is (None: the template's; None altogether: no chat).

    No content: what the tokenizer put there, its special tokens wherever they stand, and a chat's template around its
    turns. The mask and unknown tokens are content.
    """
    known = special_ids(tokenizer)
    special = tuple(bool(s) or i in known for s, i in zip(special, ids, strict=True))
    if not text:
        text, spans = _decoded(ids, tokenizer)
    if spans is None or len(text) != 1:
        return special, None
    owners = roles(text[0], tokenizer)
    if owners is None:
        return special, None
    whose = tuple(
        None if span is None or s else _role(owners, *span[1:]) for s, span in zip(special, spans, strict=True)
    )
    return tuple(role is None for role in whose), whose


def special_ids(tokenizer: Any) -> frozenset[int]:
    """The ids of a tokenizer's special tokens, added ones too, but for the mask and the unknown token."""
    known = set(getattr(tokenizer, "all_special_ids", ()) or ())
    known |= {i for i, token in (getattr(tokenizer, "added_tokens_decoder", None) or {}).items() if token.special}
    return frozenset(known - {getattr(tokenizer, "mask_token_id", None), getattr(tokenizer, "unk_token_id", None)})


def _role(owners: Sequence[str | None], start: int, end: int) -> str | None:
    """Whose the characters are; a token of blanks alone is cut to nothing in front of what follows it."""
    places = range(start, end) if start < end else (max(start - 1, 0),)
    return next((owners[i] for i in places if owners[i] is not None), None)


def _decoded(ids: Sequence[int], tokenizer: Any) -> tuple[Sequence[str], Sequence[tuple[int, int, int]] | None]:
    """The text that a chat's ids were made of, if they are what it gives; no text else."""
    if not (getattr(tokenizer, "chat_template", None) and getattr(tokenizer, "is_fast", False)):
        return (), None
    text = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    again = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    if again["input_ids"] != list(ids):
        return (), None
    return (text,), [(0, start, end) for start, end in again["offset_mapping"]]


def _next(text: str, start: int, turns: Mapping[str, str | None]) -> tuple[int, str | None, str | None]:
    """Where the content that begins at `start` ends, the mark there (none: the text ends), and whose the next is."""
    best: tuple[int, str | None, str | None] = (len(text), None, None)
    for mark, after in turns.items():
        at = text.find(mark, start) if after is not None else len(text) - len(mark)
        if at < start or not text.startswith(mark, at):
            continue
        if at < best[0] or (at == best[0] and len(mark) > len(best[1] or "")):
            best = at, mark, after
    return best


def _template(tokenizer: Any, form: str) -> Template:
    return _read(_Writer(tokenizer), form)


@dataclass(frozen=True)
class _Writer:
    """A tokenizer as a key: its template says what is read off it."""

    tokenizer: Any

    def __hash__(self) -> int:
        return id(self.tokenizer)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Writer) and other.tokenizer is self.tokenizer

    def write(self, order: Sequence[str], prompt: bool) -> str | None:
        """The chat of these roles; None where the template takes no such chat."""
        chat = [{"role": role, "content": _CONTENTS[role]} for role in order]
        try:
            written = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompt)
        except Exception:  # a template is a program of its owner's: it raises what it likes
            return None
        return written if isinstance(written, str) else None


@lru_cache(maxsize=32)
def _read(writer: _Writer, form: str) -> Template:
    heads: dict[str, str] = {}
    turns: dict[str, dict[str, str | None]] = {}
    chats = [(SYSTEM, USER), (USER, ASSISTANT), (USER, ASSISTANT, USER), (SYSTEM, USER, ASSISTANT)]
    for order in chats:
        for prompt in (False, True):
            between = _around(writer.write(order, prompt), order)
            if between is None:
                continue
            heads.setdefault(between[0], order[0])
            for role, mark, after in zip(order, between[1:], [*order[1:], None], strict=True):
                if mark and (after is not None or mark not in turns.get(role, {})):  # a prompt for a turn begins it
                    turns.setdefault(role, {})[mark] = after
    heads.pop("", None)  # a template without a mark before the first content cannot be distinguished from a plain text
    return Template(heads, turns)


def _around(written: str | None, order: Sequence[str]) -> list[str] | None:
    """What stands before, between and behind the contents of a written chat."""
    if written is None:
        return None
    out, at = [], 0
    for role in order:
        start = written.find(_CONTENTS[role], at)
        if start < 0:
            return None
        out.append(written[at:start])
        at = start + len(_CONTENTS[role])
    return [*out, written[at:]]
