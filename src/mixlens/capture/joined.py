"""A prompt and its answer as one stream, the rows that predict the answer, and a stream's first positions."""

from __future__ import annotations

from dataclasses import replace
from typing import overload

from mixlens.capture.chat import ASSISTANT
from mixlens.capture.stream import Positions, Stream
from mixlens.capture.text import Span, Tokens


@overload
def joined(prompt: Tokens, answer: Tokens) -> Tokens: ...
@overload
def joined(prompt: Stream, answer: Stream) -> Stream: ...
def joined(prompt: Stream, answer: Stream) -> Stream:
    """The positions of a prompt and behind them those of its answer, as the model read them.

    Two texts are one, the answer's characters counted on from the prompt's end; where one side came as token ids there
    are no characters. In a chat the answer is the assistant's.
    """
    if not (isinstance(prompt, Tokens) and isinstance(answer, Tokens)):
        names, marks = (*prompt.names, *answer.names), (*prompt.special, *answer.special)
        return Positions(prompt.unit if prompt.unit == answer.unit else "position", labels=names, marks=marks)
    text: tuple[str, ...] = ()
    spans: tuple[Span | None, ...] | None = None
    if len(prompt.text) == len(answer.text) == 1:
        text = (prompt.text[0] + answer.text[0],)
        if prompt.spans is not None and answer.spans is not None:
            at = len(prompt.text[0])
            spans = (*prompt.spans, *(span and (0, span[1] + at, span[2] + at) for span in answer.spans))
    roles = None
    if prompt.roles is not None:
        spoken = (None if special else ASSISTANT for special in answer.special)
        roles = (*prompt.roles, *(answer.roles or spoken))
    return Tokens(
        ids=(*prompt.ids, *answer.ids),
        pieces=(*prompt.pieces, *answer.pieces),
        special=(*prompt.special, *answer.special),
        text=text,
        spans=spans,
        dropped=prompt.dropped,
        roles=roles,
    )


@overload
def first(stream: Tokens, count: int) -> Tokens: ...
@overload
def first(stream: Stream, count: int) -> Stream: ...
def first(stream: Stream, count: int) -> Stream:
    """The first `count` positions, with so much of the text as they are of."""
    if count == len(stream):
        return stream
    if not isinstance(stream, Tokens):
        return Positions(stream.unit, labels=stream.names[:count], marks=stream.special[:count])
    spans = None if stream.spans is None else stream.spans[:count]
    text = stream.text
    if len(text) == 1 and spans is not None:
        rest = [span[1] for span in (stream.spans or ())[count:] if span is not None]
        end = max((span[2] for span in spans if span is not None), default=0)
        text = (text[0][: max(end, min(rest, default=len(text[0])))],)
    return replace(
        stream,
        ids=stream.ids[:count],
        pieces=stream.pieces[:count],
        special=stream.special[:count],
        text=text,
        spans=spans,
        groups=stream.groups and stream.groups[:count],
        inputs={name: row[:count] for name, row in stream.inputs.items()},
        roles=stream.roles and stream.roles[:count],
    )


def predicting(first: int, count: int) -> list[int]:
    """The rows where a causal model predicts `count` tokens, of which the first stands at position `first`."""
    return list(range(first - 1, first - 1 + count))
