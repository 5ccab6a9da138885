"""A page: the form, what it says about the answer, and under it the answer's own page, all under one policy."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from torch import Tensor

from mixlens.app.fields import Field
from mixlens.app.models import Models
from mixlens.app.questions import LINE, LONGEST, Question
from mixlens.app.uploads import LARGEST
from mixlens.app.verbs import VERBS, Verb
from mixlens.inventory import methods
from mixlens.view.kit import html, sealed

ROOM = "mixlens.app"
TABLE = 1_500_000  # bytes of a table in a link, which not every browser follows if it is longer
ROW = 10  # bytes of a number's row at least


@dataclass(frozen=True)
class Took:
    """An answer, and the seconds for its model to load and for itself."""

    result: Any
    loading: float
    answering: float

    @property
    def words(self) -> str:
        """What it took."""
        loading = f", and {self.loading:.1f} s until the model was loaded" if self.loading >= 0.05 else ""
        return f"Answered in {self.answering:.{1 if self.answering >= 0.95 else 2}f} s{loading}."

    def cost(self, verb: Verb) -> str | None:
        """What its method costs, where it is of one."""
        name = getattr(self.result, "method", None)
        return next((fact["cost"] for fact in methods() if (fact["stage"], fact["name"]) == (verb.stage, name)), None)

    @property
    def table(self) -> str | None:
        """Its rows as CSV in the address of a link, where it has rows; "" where they are too many for one."""
        write, scores = getattr(self.result, "to_csv", None), getattr(self.result, "scores", None)
        if write is None:
            return None
        if isinstance(scores, Tensor) and scores.numel() * ROW > TABLE:  # not written in vain
            return ""
        rows = write().encode()
        return "" if len(rows) > TABLE else "data:text/csv;base64," + b64encode(rows).decode()


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
    answer: Took | None = None,
) -> str:
    """The page of a verb: its form with what was sent, an error or the command line and the link, the answer's page."""
    sent: dict[str, list[str]] = {}
    for name, value in pairs:
        sent.setdefault(name, []).append(value)
    offered, named = models.of(verb), sent.get("model", [""])[0]
    others = [] if named in offered else [other for other in VERBS.values() if named in models.of(other)]
    head = html.fill(
        "form.html",
        ROOM,
        verb=verb,
        verbs=[(about, list(group)) for about, group in groupby(VERBS.values(), key=attrgetter("about"))],
        near=[_shown(field, sent, verb, offered) for field in verb.fields if not field.aside],
        aside=[_shown(field, sent, verb, offered) for field in verb.fields if field.aside],
        unfolded=sum(any(sent.get(field.name, ())) for field in verb.fields if field.aside),
        error=error,
        link=None if question is None or answer is None else question.link(),
        command=None if question is None or answer is None else question.command(),
        offered=offered,
        others=[(urlencode({"model": named}), other) for other in others],
        took=answer and {"words": answer.words, "cost": answer.cost(verb), "table": answer.table},
    )
    under = html.page("blank.html", ROOM, verb=verb) if answer is None else answer.result.to_html()
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
