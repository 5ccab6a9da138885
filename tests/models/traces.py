"""Traces made by hand: tokens of a text by words and signs, template marks as `<|user|>`."""

from __future__ import annotations

from typing import Any

import regex
import torch

from mixlens.capture.text import Tokens
from mixlens.results import Trace
from mixlens.target import Target

PROMPT = (
    "<|user|>\nThe red key opens the north gate. It was cut in 1911 by Dr. Hale.\n\nThe blue key opens the cellar. "
    "Nobody knows who cut it.\n\nWhich key opens the north gate?<|end|><|assistant|>\n"
)
ANSWER = "The red key opens it. Dr. Hale cut it.<|end|>"
DOCUMENTS = {"keys.txt": (1, 19), "cellar.txt": (19, 32)}


def tokens(text: str, chat: bool = False) -> Tokens:
    places = [match.span() for match in regex.finditer(r"<\|\w*\|>|\w+|[^\w\s]", text)]
    pieces = tuple(text[a:b] for a, b in places)
    special = tuple(piece.startswith("<|") for piece in pieces)
    roles: list[str | None] = []
    role = None
    for piece, mark in zip(pieces, special, strict=True):
        role = {"<|user|>": "user", "<|system|>": "system", "<|assistant|>": "assistant"}.get(piece) if mark else role
        roles.append(None if mark else role)
    return Tokens(
        ids=tuple(range(len(pieces))),
        pieces=pieces,
        special=special,
        text=(text,),
        spans=tuple((0, a, b) for a, b in places),
        roles=tuple(roles) if chat else None,
    )


def ids(count: int, start: int = 0) -> Tokens:
    """Token ids alone: no text."""
    numbers = tuple(range(start, start + count))
    return Tokens(numbers, tuple(f"Ġw{i}" for i in numbers), (False,) * count)


def trace(prompt: Any = None, answer: Any = None, scores: Any = None, foil: str | None = None, **more: Any) -> Trace:
    prompt = tokens(PROMPT, chat=True) if prompt is None else prompt
    answer = tokens(ANSWER) if answer is None else answer
    p, m = len(prompt), len(answer)
    if scores is None:
        scores = torch.rand(m, p + m, generator=torch.Generator().manual_seed(0)).tril(p - 1)
        scores = scores / scores.sum(1, keepdim=True)
    values = {
        "method": "head_logit",
        "options": {"signed": False},
        "meta": {"model": "org/tiny", "documents": DOCUMENTS} if len(prompt) >= 32 else {"model": "org/tiny"},
        "targets": tuple(Target(what=w, foil=foil, index=i, label=w) for i, w in enumerate(answer.names)),
        "said": tuple(
            {"prediction": w, "probability": 0.5, "target_probability": 0.5}
            | ({"foil_probability": 0.125} if foil else {})
            for w in answer.names
        ),
        **more,
    }
    return Trace(prompt, answer, scores, **values)
