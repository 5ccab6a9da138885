"""What a page can be asked: verbs of the command line, each with its fields and what answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from mixlens.app import answers
from mixlens.app import fields as f
from mixlens.app.fields import Field
from mixlens.inventory import methods

if TYPE_CHECKING:
    from mixlens.app.questions import Question
    from mixlens.app.work import Tick
    from mixlens.lens import Lens

Answers = Callable[["Lens", "Question", "Tick"], Any]


@dataclass(frozen=True)
class Verb:
    """A verb of the command line as a page: what it asks, and what answers.

    `command`: the verb, `stage`: of its methods, `reads`: which kind of models it asks (see `models.reads`).
    """

    name: str
    title: str
    question: str
    act: str
    fields: tuple[Field, ...]
    stage: str
    run: Answers
    command: str
    reads: tuple[str, ...] = ("texts",)

    def field(self, name: str) -> Field | None:
        """The field of a name."""
        return next((field for field in self.fields if field.name == name), None)

    @property
    def file(self) -> Field | None:
        """The field of what is uploaded."""
        return next((field for field in self.fields if field.kind == "file"), None)

    @property
    def about(self) -> str:
        """What is asked about, as pages are grouped."""
        return "Texts" if self.file is None else f"{self.file.label}s"

    @property
    def heading(self) -> str:
        """Its title where no group stands in front of it."""
        return self.title if self.file is None else f"{self.file.label}: {self.title[0].lower()}{self.title[1:]}"

    @property
    def names(self) -> tuple[str, ...]:
        """What an address may name."""
        named = [f"{field.name}_name" for field in self.fields if field.kind == "named"]
        return *(field.name for field in self.fields), *named

    def methods(self) -> tuple[str, ...]:
        """The names of its methods."""
        return _methods(self.stage)


@cache
def _methods(stage: str) -> tuple[str, ...]:
    return tuple(fact["name"] for fact in methods() if fact["stage"] == stage)


_DECIDED = (f.TEXT, f.PAIR, f.MODEL, f.METHOD, f.TARGET, f.FOIL, f.WORD, f.WINDOW, f.STRIDE, f.OPTION, f.CUT)
_TRACED = (f.QUESTION, f.DOCUMENT, f.MODEL, f.METHOD, f.ANSWER, f.OTHER, f.BY, f.NEW, f.OPTION, f.CONTENT)
_LIST = (
    Verb(
        "explain",
        "Explain",
        "Which words made the model decide?",
        "Explain",
        _DECIDED,
        "attribute",
        answers.explain,
        "explain",
    ),
    Verb(
        "compare",
        "Compare",
        "Do two methods agree?",
        "Compare",
        (f.TEXT, f.PAIR, f.MODEL, f.TWO, f.TARGET, f.FOIL, f.WORD, f.SKIP, f.CUT),
        "attribute",
        answers.compare,
        "compare",
    ),
    Verb(
        "map",
        "Layers",
        "How much of each token goes into each other token?",
        "Map",
        (f.TEXT, f.PAIR, f.MODEL, f.METHOD, f.OPTION, f.CUT),
        "mixing",
        answers.layers,
        "map",
    ),
    Verb(
        "trace",
        "Trace an answer",
        "Where does an answer come from?",
        "Trace",
        _TRACED,
        "attribute",
        answers.trace,
        "trace",
    ),
    Verb(
        "similarity",
        "Two texts",
        "Which words made two texts alike?",
        "Compare",
        (f.FIRST, f.SECOND, f.MODEL, f.METHOD, f.CUT),
        "similarity",
        answers.similarity,
        "similarity",
        ("texts", "texts and pictures"),
    ),
    Verb(
        "picture",
        "Explain",
        "Which patches of a picture made the model decide?",
        "Explain",
        (f.PICTURE, f.MODEL, f.METHOD, f.LABEL, f.RATHER, f.OPTION),
        "attribute",
        answers.see,
        "explain",
        ("pictures",),
    ),
    Verb(
        "picture-compare",
        "Compare",
        "Do two methods agree about a picture?",
        "Compare",
        (f.PICTURE, f.MODEL, f.TWO, f.LABEL, f.RATHER, f.SKIP),
        "attribute",
        answers.compare_picture,
        "compare",
        ("pictures",),
    ),
    Verb(
        "picture-map",
        "Layers",
        "How much of each patch goes into each other patch?",
        "Map",
        (f.PICTURE, f.MODEL, f.METHOD, f.OPTION),
        "mixing",
        answers.picture_layers,
        "map",
        ("pictures",),
    ),
    Verb(
        "text-picture",
        "With a text",
        "Which words and which patches made a text and a picture alike?",
        "Compare",
        (f.TEXT, f.BESIDE, f.MODEL, f.METHOD, f.CUT),
        "similarity",
        answers.described,
        "similarity",
        ("texts and pictures",),
    ),
    Verb(
        "sound",
        "Explain",
        "Which moments of a sound made the model decide?",
        "Explain",
        (f.SOUND, f.MODEL, f.METHOD, f.HEARD, f.OPTION),
        "attribute",
        answers.hear,
        "explain",
        ("sounds",),
    ),
    Verb(
        "sound-map",
        "Layers",
        "How much of each moment of a sound goes into each other moment?",
        "Map",
        (f.SOUND, f.MODEL, f.METHOD, f.OPTION),
        "mixing",
        answers.sound_layers,
        "map",
        ("sounds",),
    ),
    Verb(
        "sound-trace",
        "Trace what is written",
        "Which moments of a sound does each word that is written come from?",
        "Trace",
        (f.SOUND, f.MODEL, f.METHOD, f.WRITTEN, f.OTHER, f.NEW, f.OPTION),
        "attribute",
        answers.trace_sound,
        "trace",
        ("sounds",),
    ),
)
VERBS = {verb.name: verb for verb in _LIST}
