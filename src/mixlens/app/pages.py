"""A page: the form, what it says about the answer, and under it the answer's own page, all under one policy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from typing import Any

from mixlens.app.fields import Field
from mixlens.app.models import Models
from mixlens.app.questions import LINE, LONGEST, Question
from mixlens.app.uploads import LARGEST
from mixlens.app.verbs import VERBS, Verb
from mixlens.view.kit import html, sealed

ROOM = "mixlens.app"


@cache
def _text(name: str) -> str:
    return (files(ROOM) / "templates" / name).read_text("utf-8")


def page(
    verb: Verb,
    models: Models,
    pairs: Sequence[tuple[str, str]] = (),
    *,
    error: str | None = None,
    question: Question | None = None,
    answer: str | None = None,
) -> str:
    """The page of a verb: its form with what was sent, an error or the command line and the link, the answer's page."""
    sent: dict[str, list[str]] = {}
    for name, value in pairs:
        sent.setdefault(name, []).append(value)
    offered = models.of(verb)
    head = html.fill(
        "form.html",
        ROOM,
        verb=verb,
        verbs=list(VERBS.values()),
        near=[_shown(field, sent, verb, offered) for field in verb.fields if not field.aside],
        aside=[_shown(field, sent, verb, offered) for field in verb.fields if field.aside],
        unfolded=any(sent.get(field.name, [""])[0] for field in verb.fields if field.aside),
        error=error,
        link=None if question is None or answer is None else question.link(),
        command=None if question is None or answer is None else question.command(),
        offered=bool(offered),
    )
    under = html.page("blank.html", ROOM, verb=verb) if answer is None else answer
    return sealed.framed(under, head, _text("app.css"), _text("app.js"))


def _shown(field: Field, sent: dict[str, list[str]], verb: Verb, models: dict[str, str]) -> dict[str, Any]:
    """What a template needs of a field: an input each, with what was sent, to the last character."""
    values = sent.get(field.name, []) if sent else list(field.begin)
    choices: list[tuple[str, str]] = []
    if field.name == "model":
        choices = [(name, f"{name}: {words}") for name, words in models.items()]
    elif field.kind == "choice":
        choices = [("", field.hint), *((name, name) for name in field.values or verb.methods())]
    if field.kind == "named":
        return {"field": field, "rows": _rows(field, sent), "most": LONGEST, "line": LINE}
    inputs = [values[i] if i < len(values) else "" for i in range(field.count)]
    return {
        "field": field,
        "inputs": [
            (f"{field.name}-{i}", value, [(choice, words, choice == value) for choice, words in choices])
            for i, value in enumerate(inputs, start=1)
        ],
        "ticks": [(value or "on", (value or "on") in values) for value in field.values],
        "most": LARGEST if field.kind == "file" else LONGEST if field.kind == "text" else LINE,
    }


def _rows(field: Field, sent: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    """A number, a name and a text each; those that were sent stand in front."""
    names, texts = sent.get(f"{field.name}_name", []), sent.get(field.name, [])
    names = names or [""] * len(texts)
    filled = [row for row in zip_longest(names, texts, fillvalue="") if any(row)][: field.count]
    filled += [("", "")] * (field.count - len(filled))
    return [(f"{field.name}-{number}", *row) for number, row in enumerate(filled, start=1)]
