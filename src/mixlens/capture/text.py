"""Text to tokens: what came in, where each token stands in it, and nothing cut without being asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from mixlens.capture.chat import marked
from mixlens.capture.given import MASKED, PER_TOKEN, Words, is_id, is_pair
from mixlens.capture.stream import Stream
from mixlens.errors import EmptyInput, InputError, TooLong, Undefined

Span = tuple[int, int, int]  # which text of a pair, first character, one past the last


@dataclass(frozen=True)
class Tokens(Stream):
    """The stream of one tokenised text, without padding. All tuples are as long as there are tokens."""

    unit = "token"
    axes = ("segment", "start", "end")

    ids: tuple[int, ...]
    pieces: tuple[str, ...]  # as the tokenizer names them: "##ing", "Ġfilm", "▁film"
    special: tuple[bool, ...]  # no content: special tokens, and the template around a chat's turns
    text: tuple[str, ...] = ()  # one or two texts; none where token ids came in
    spans: tuple[Span | None, ...] | None = None  # None for special tokens; None altogether without offsets
    groups: tuple[int | None, ...] | None = None  # the caller's own words, where a `Words` came in
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # token types, positions
    dropped: int = 0  # tokens cut off because the caller asked for truncation
    padded: int = 0  # padding at an end of ids that came without a mask: it is read as text
    roles: tuple[str | None, ...] | None = None  # of a chat: whose turn a token stands in; None: the template

    @property
    def n(self) -> int:
        """How many tokens there are."""
        return len(self.ids)

    @property
    def seed(self) -> tuple[int, ...]:
        """The token ids."""
        return self.ids

    @property
    def names(self) -> tuple[str, ...]:
        """The pieces."""
        return self.pieces

    @property
    def places(self) -> tuple[Span | None, ...] | None:
        """The spans."""
        return self.spans

    @property
    def raw(self) -> str | tuple[str, ...] | None:
        """The text, a pair of texts, or None where token ids came in."""
        return None if not self.text else self.text[0] if len(self.text) == 1 else self.text

    @property
    def display(self) -> tuple[str, ...]:
        """The raw text's characters where there are offsets, else the piece; blanks alone as `␣`, a line end as `↵`."""
        return tuple(self._shown(i) for i in range(len(self)))

    def _shown(self, i: int) -> str:
        piece = self.pieces[i]
        if self.special[i] or not self.text:
            return piece
        span = self.spans[i] if self.spans is not None else None
        if span is None:  # a slow tokenizer: its mark of a blank is all there is to take away
            return piece.lstrip("\u0120\u2581") or "␣"
        segment, start, end = span
        blank = "↵" if self.text[segment][max(start - 1, 0) : start] in ("\n", "\r") else "␣"
        return self.text[segment][start:end] or blank

    @property
    def offsets(self) -> tuple[tuple[int, int] | None, ...] | None:
        """The spans without the number of their text."""
        return None if self.spans is None else tuple(s and s[1:] for s in self.spans)

    @property
    def has_words(self) -> bool:
        """Whether there are offsets."""
        return self.spans is not None

    def excerpt(self, first: int, last: int) -> str | None:
        """The text from token `first` to token `last`; None without offsets, or where they stand in two texts."""
        begin, end = (self.spans[i] if self.spans is not None else None for i in (first, last))
        if begin is None or end is None or begin[0] != end[0]:
            return None
        return self.text[begin[0]][begin[1] : end[2]] or None

    def columns(self) -> dict[str, list[float | None]]:
        """start and end; for a pair also segment, the text that they count in."""
        columns = super().columns()
        return columns if len(self.text) > 1 else {k: v for k, v in columns.items() if k != "segment"}

    def validate(self) -> None:
        """Raises ValueError where lengths or places do not go together."""
        rows = {name: getattr(self, name) for name in ("pieces", "special", "spans", "groups", "roles")}
        for name, row in (*rows.items(), *self.inputs.items()):
            if row is not None and len(row) != len(self):
                raise ValueError(f"{len(row)} {name} for {len(self)} tokens")
        for segment, start, end in filter(None, self.spans or ()):
            if not 0 <= segment < len(self.text) or not 0 <= start <= end <= len(self.text[segment]):
                raise ValueError(f"a token at characters {start} to {end} of text {segment}, which are not there")


def text_of(stream: Stream) -> Tokens:
    """The stream, which is a text's. Raises Undefined for any other."""
    if isinstance(stream, Tokens):
        return stream
    raise Undefined(
        f"expected a text, whose tokens have ids, got a row of {stream.units}; use a method or a measure that asks for "
        "positions alone"
    )


def encode(
    data: Any,
    tokenizer: Any,
    limit: int | None = None,
    truncate: bool = False,
    pad: int | None = None,
    template: bool = False,
    windows: bool = False,
) -> Tokens:
    """One text (see `given.as_list`) to `Tokens`.

    `limit` is the number of positions of the model; a longer text is a `TooLong` error unless `truncate`. `pad`: the
    model's padding token, where the tokenizer has none. `template`: the text has the special tokens that it needs (a
    rendered chat), or follows another (an answer), so the tokenizer adds none. `windows`: the
    caller may ask for parts of a text.
    Raises EmptyInput, TooLong or InputError.
    """
    if isinstance(data, InputError):
        raise data
    if isinstance(data, (Mapping, list)):
        tokens = _from_ids(data, tokenizer, pad)
        if truncate and limit is not None and len(tokens) > limit:
            raise InputError(f"token ids are never cut: got {len(tokens)}, the model takes {limit}; cut them yourself")
    else:
        if tokenizer is None:
            raise InputError("a text needs a tokenizer: mixlens.load(model, tokenizer), or pass a list of token ids")
        tokens = _from_text(data, tokenizer, None, template)
        if truncate and limit is not None and len(tokens) > limit:
            cut = _from_text(data, tokenizer, limit, template)
            tokens = Tokens(**{**vars(cut), "dropped": len(tokens) - len(cut)})
    if limit is not None and len(tokens) > limit:
        in_parts = windows and not isinstance(data, (Mapping, list))
        parts = f"pass window={limit} to explain it in overlapping parts, " if in_parts else ""
        raise TooLong(
            f"expected at most {limit} tokens (the model's positions), got {len(tokens)}; shorten the text, "
            f"{parts}or pass truncate=True and read the number of dropped tokens in the result's meta"
        )
    return tokens


def _from_text(data: Any, tokenizer: Any, limit: int | None, template: bool) -> Tokens:
    text: tuple[str, ...]
    args: tuple[Any, ...]
    if isinstance(data, str):
        text, args = (data,), (data,)
    elif isinstance(data, Words):
        if not all(isinstance(w, str) and w.strip() for w in data):
            raise EmptyInput("every word of mixlens.Words must be a non-empty str")
        text, args = (" ".join(data),), (list(data),)
    elif is_pair(data):
        text, args = tuple(data), tuple(data)
    else:
        raise InputError(f"expected a str, a pair of str or mixlens.Words, got {type(data).__name__}: {data!r:.80}")
    for i, t in enumerate(text):
        if not t.strip():
            which = f" as {_place(i)}" if len(text) > 1 else ""
            raise EmptyInput(
                f"expected a text with at least one token, got an empty one{which}; nothing can be explained"
            )
    if any("\ud800" <= c <= "\udfff" for t in text for c in t):
        raise InputError("expected a text of whole characters, got half of a surrogate pair; decode the text again")
    fast = bool(getattr(tokenizer, "is_fast", False))
    split = isinstance(data, Words)
    if split and not fast:
        raise InputError("mixlens.Words needs a fast tokenizer; pass the text as a str")
    try:
        coded = tokenizer(
            *args,
            add_special_tokens=not template,
            padding=False,
            truncation=limit is not None,
            max_length=limit,
            is_split_into_words=split,
            return_special_tokens_mask=True,
            return_offsets_mapping=fast,
            verbose=False,
        )
    except AssertionError as error:  # byte-level BPE without a prefix space cannot take split words
        raise InputError(f"the tokenizer refuses split words ({error}); load it with add_prefix_space=True") from None
    ids = tuple(coded["input_ids"])
    pieces = tuple(tokenizer.convert_ids_to_tokens(list(ids)))
    special = tuple(bool(s) for s in coded["special_tokens_mask"])
    spans = groups = None
    if fast:
        where = coded.sequence_ids(0)
        word = coded.word_ids(0)
        offset = _starts(data) if split else []
        starts = [offset[w] if split and w is not None else 0 for w in word]
        spans = tuple(
            None if seq is None else _trim(piece, text[seq], seq, a + at, b + at)
            for piece, seq, at, (a, b) in zip(pieces, where, starts, coded["offset_mapping"], strict=True)
        )
        groups = tuple(word) if split else None
    special, roles = marked(ids, special, text, spans, tokenizer)
    _refuse_empty(ids, special, [s[0] for s in spans if s] if spans else None, len(text), tokenizer)
    return Tokens(
        ids=ids,
        pieces=pieces,
        special=special,
        text=text,
        spans=spans,
        groups=groups,
        inputs={k: tuple(coded[k]) for k in PER_TOKEN if k in coded},
        roles=roles,
    )


def _starts(words: Words) -> list[int]:
    at, out = 0, []
    for w in words:
        out.append(at)
        at += len(w) + 1
    return out


def _trim(piece: str, text: str, seq: int, start: int, end: int) -> Span:
    """Byte-level and SentencePiece tokens carry the blank before the word: the span does not."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if not piece.strip("\u0120\u2581") and not set(piece) & set(text[start:end]):
        end = start  # a blank that the tokenizer put in front of the text; it says the first character's place
    return seq, start, end


def _refuse_empty(
    ids: tuple[int, ...], special: tuple[bool, ...], seen: list[int] | None, texts: int, tokenizer: Any
) -> None:
    real = [i for i, s in zip(ids, special, strict=True) if not s]
    bare = [] if seen is None else [i for i in range(texts) if i not in seen]
    if not real or bare:
        which = f" in {_place(bare[0])}" if bare and texts > 1 else ""
        raise EmptyInput(
            f"expected at least one token of every text, got none{which} (only special tokens or blanks); "
            "nothing can be explained"
        )
    unk = getattr(tokenizer, "unk_token_id", None)
    if unk is not None and all(i == unk for i in real):
        raise InputError(
            f"the tokenizer knows no part of this text: all {len(real)} tokens are {tokenizer.unk_token}; "
            "is it the tokenizer of this model and language?"
        )


def _place(i: int) -> str:
    return f"the {('first', 'second')[i]} of the pair"


def _from_ids(data: Any, tokenizer: Any, model_pad: int | None) -> Tokens:
    inputs = data if isinstance(data, Mapping) else {"input_ids": data}
    if not all(is_id(i) for i in inputs["input_ids"]):
        raise InputError(f"expected token ids (whole numbers), got {list(inputs['input_ids'])!r:.80}")
    ids = tuple(int(i) for i in inputs["input_ids"])
    if not ids:
        raise EmptyInput("expected at least one token id, got none")
    if min(ids) < 0:
        raise InputError(f"expected token ids of 0 or more, got {min(ids)}")
    if max(ids) >= 1 << 31:
        raise InputError(f"expected token ids below 2^31, got {max(ids)}")
    pad = getattr(tokenizer, "pad_token_id", None)
    pad = model_pad if pad is None else pad
    if pad is not None and all(i == pad for i in ids):
        raise EmptyInput(f"expected at least one real token, got only padding ({pad})")
    pieces = tokenizer.convert_ids_to_tokens(list(ids)) if tokenizer is not None else [str(i) for i in ids]
    special, roles = marked(ids, [False] * len(ids), (), None, tokenizer)
    return Tokens(
        ids=ids,
        pieces=tuple(p if p is not None else str(i) for p, i in zip(pieces, ids, strict=True)),
        special=special,
        inputs={k: _per_token(k, inputs[k]) for k in PER_TOKEN if k in inputs},
        padded=0 if MASKED in inputs else _padding(ids, pad, tokenizer),
        roles=roles,
    )


def _per_token(key: str, values: Sequence[Any]) -> tuple[int, ...]:
    if not all(is_id(v) and 0 <= v < 1 << 31 for v in values):
        raise InputError(f"expected '{key}' as whole numbers of 0 or more, got {list(values)!r:.80}")
    return tuple(int(v) for v in values)


def _padding(ids: tuple[int, ...], pad: int | None, tokenizer: Any) -> int:
    """How many tokens at the ends are padding. One alone is none where the padding token also ends texts (GPT-2's)."""
    if pad is None:
        return 0
    count = sum(len(list(takewhile(lambda i: i == pad, end))) for end in (ids, reversed(ids)))
    ends = [getattr(tokenizer, f"{role}_token_id", None) for role in ("bos", "cls", "eos", "sep")]
    return 0 if count == 1 and (tokenizer is None or pad in ends) else count
