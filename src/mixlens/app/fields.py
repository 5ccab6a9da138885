"""The fields that forms are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["text", "line", "number", "choice", "tick", "named", "file"]

UNITS = ("word", "sentence", "line", "paragraph", "turn", "document")
DOCUMENTS = 8  # of a trace at most
NAMED = "document_name"


@dataclass(frozen=True)
class Field:
    """A field of a form: an argument of the command line.

    `kind`: "text" is many lines, "line" one, "named" a line and a text each (the lines are sent as the name +
    "_name"), "file" what is uploaded. `values`: what the ticks of a name stand for; an empty one: the flag alone.
    `count`: fields of this name. `positional`: without a flag.
    """

    name: str
    label: str
    kind: Kind = "line"
    hint: str = ""
    values: tuple[str, ...] = ()
    count: int = 1
    needed: bool = False
    positional: bool = False
    aside: bool = False  # among what a form shows when it is unfolded
    begin: tuple[str, ...] = ()  # what stands in an empty form
    most: int = 512  # of a number
    accept: tuple[str, ...] = ()  # kinds of files, as browsers name them

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return "--" + self.name.replace("_", "-")


TEXT = Field("text", "Text", "text", needed=True, positional=True)
PAIR = Field("pair", "Second text, of models that read two", "text", aside=True)
MODEL = Field("model", "Model", "choice")
METHOD = Field("method", "Method", "choice", "what suits the model")
TWO = Field("method", "Method", "choice", "all that are defined (slow)", count=2, begin=("alti", "attcat"))
TARGET = Field("target", "Target: a label, a number or a token", hint="the prediction")
FOIL = Field("foil", "Rather than", hint="another label or token", aside=True)
WORD = Field("word", "Word of the text, of models that label words", hint="none", aside=True)
WINDOW = Field("window", "Tokens in a window, of longer texts", "number", "no windows", aside=True, most=100_000)
STRIDE = Field("stride", "Tokens to the next window", "number", "half of a window", aside=True, most=100_000)
OPTION = Field("option", "Option of the method", hint="name=value", count=2, aside=True)
CUT = Field("truncate", "cut a text that is too long for the model", "tick", values=("",), aside=True)
SKIP = Field("no_faithfulness", "leave faithfulness out (about n² passes)", "tick", values=("",), aside=True)

QUESTION = Field("text", "Question", "text", needed=True, positional=True)
DOCUMENT = Field("document", "Document", "named", "its name", count=DOCUMENTS)
ANSWER = Field("answer", "Answer", hint="what the model generates")
OTHER = Field("foil", "Rather than", hint="an answer with as many tokens", aside=True)
BY = Field("by", "Sources and answer by", "choice", "token", values=UNITS, aside=True)
NEW = Field("max_new_tokens", "Tokens at most", "number", "64", aside=True)
CONTENT = Field("exclude", "Leave out", "tick", values=("first", "template"), aside=True)

FIRST = Field("text", "First text", "text", needed=True, positional=True)
SECOND = Field("second", "Second text", "text", needed=True, positional=True)

_PICTURES = ("image/png", "image/jpeg", "image/webp")
_SOUNDS = ("audio/wav", "audio/x-wav", ".wav")
PICTURE = Field("picture", "Picture", "file", "PNG, JPEG or WebP", needed=True, positional=True, accept=_PICTURES)
BESIDE = Field("picture", "Picture", "file", "PNG, JPEG or WebP", needed=True, accept=_PICTURES)
SOUND = Field("sound", "Sound", "file", "WAV", needed=True, positional=True, accept=_SOUNDS)
LABEL = Field("target", "Target: a label or its number", hint="the prediction")
RATHER = Field("foil", "Rather than", hint="another label", aside=True)
WRITTEN = Field("answer", "What is written", hint="what the model writes")
HEARD = Field("target", "Target: a label, or what is said", hint="the prediction")
