"""What a page can be asked: verbs of the command line, each with its fields and what it calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

from mixlens.errors import UnknownOption
from mixlens.inventory import methods
from mixlens.target import Target
from mixlens.trace.prompt import as_chat, require_units

if TYPE_CHECKING:
    from mixlens.app.questions import Question
    from mixlens.app.work import Tick
    from mixlens.lens import Lens

Kind = Literal["text", "line", "number", "choice", "tick"]


@dataclass(frozen=True)
class Field:
    """A field of a form: an argument of the command line.

    `kind`: "text" is many lines, "line" one. `values`: what the ticks of a name stand for; an empty one: the
    flag alone. `count`: fields of this name. `positional`: without a flag.
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

    @property
    def flag(self) -> str:
        """Its flag on the command line."""
        return "--" + self.name.replace("_", "-")


Answers = Callable[["Lens", "Question", "Tick"], Any]


@dataclass(frozen=True)
class Verb:
    """A verb of the command line as a page: what it asks, and what answers; `stage`: of its methods."""

    name: str
    title: str
    question: str
    act: str
    fields: tuple[Field, ...]
    stage: str
    run: Answers

    def field(self, name: str) -> Field | None:
        """The field of a name."""
        return next((field for field in self.fields if field.name == name), None)

    def methods(self) -> tuple[str, ...]:
        """The names of its methods."""
        return _methods(self.stage)


@cache
def _methods(stage: str) -> tuple[str, ...]:
    return tuple(fact["name"] for fact in methods() if fact["stage"] == stage)


def _target(question: Question) -> Target | None:
    name, foil, word = (question.get(field) for field in ("target", "foil", "word"))
    return None if name is foil is word is None else Target(name, foil=foil, word=word)


def _options(question: Question, call: Callable[..., Any]) -> dict[str, Any]:
    """The method's own options, as the command line reads them. Raises UnknownOption."""
    taken, out = set(signature(call).parameters) | {"exclude", "documents"}, dict[str, Any]()
    for item in question.all("option"):
        name, sign, value = item.partition("=")
        if not sign or not name.isidentifier():
            raise UnknownOption(f"expected an option of the method as name=value, got {item[:80]!r}")
        if name in taken:
            raise UnknownOption(f"expected an option of the method, got {name!r}, which is none; see the form's fields")
        if name in out:
            raise UnknownOption(f"expected each option once, got {name!r} twice")
        out[name] = _value(value)
    return out


def _value(text: str) -> Any:
    """What was typed as JSON says it, else as it stands. Raises UnknownOption."""
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise UnknownOption(f"expected a value of a few lists in lists, got {text[:40]}...") from None


def _data(question: Question) -> Any:
    text, pair = question.get("text"), question.get("pair")
    return text if pair is None else (text, pair)


def _explain(lens: Lens, question: Question, tick: Tick) -> Any:
    sizes: dict[str, Any] = {
        name: int(question.need(name)) for name in ("window", "stride") if question.get(name) is not None
    }
    return lens.attribute(
        _data(question),
        question.get("method"),
        _target(question),
        truncate=bool(question.get("truncate")),
        progress=tick,
        **sizes,
        **_options(question, lens.attribute),
    )


def _compare(lens: Lens, question: Question, tick: Tick) -> Any:
    return lens.compare(
        _data(question),
        list(dict.fromkeys(question.all("method"))) or None,
        _target(question),
        faithfulness=not question.get("no_faithfulness"),
        truncate=bool(question.get("truncate")),
        progress=tick,
    )


def _map(lens: Lens, question: Question, tick: Tick) -> Any:
    method = question.get("method")
    options = {**({} if method is None else {"method": method}), **_options(question, lens.mixing)}
    return lens.mixing(_data(question), truncate=bool(question.get("truncate")), progress=tick, **options)


def _trace(lens: Lens, question: Question, tick: Tick) -> Any:
    document, new = question.get("document"), question.get("max_new_tokens")
    if question.get("answer") is not None and new is not None:
        raise UnknownOption("the answer is given, and nothing generated; leave out max_new_tokens, or the answer")
    prompt = as_chat(lens.tokenizer, question.need("text"))
    documents = None if document is None else {"document": document}
    by = question.get("by")
    if by is not None:
        require_units(lens.subject, prompt, documents, by)
    trace: Any = lens.trace(
        prompt,
        question.get("answer"),
        question.get("method"),
        question.get("foil"),
        documents=documents,
        max_new_tokens=64 if new is None else int(new),
        exclude=question.all("exclude"),
        progress=tick,
        **_options(question, lens.trace),
    )
    return trace if by is None else trace.units(by)


def _similarity(lens: Lens, question: Question, tick: Tick) -> Any:
    truncate = bool(question.get("truncate"))
    return lens.similarity(
        question.need("text"), question.need("second"), question.get("method"), truncate=truncate, progress=tick
    )


MODEL = Field("model", "Model", "choice")
METHOD = Field("method", "Method", "choice", "what suits the model")
TARGET = Field("target", "Target: a label, a number or a token", hint="the prediction")
FOIL = Field("foil", "Rather than", hint="another label or token", aside=True)
PAIR = Field("pair", "Second text, of models that read two", "text", aside=True)
CUT = Field("truncate", "cut a text that is too long for the model", "tick", values=("",), aside=True)
WINDOW = Field("window", "Tokens in a window, of longer texts", "number", "no windows", aside=True, most=100_000)
STRIDE = Field("stride", "Tokens to the next window", "number", "half of a window", aside=True, most=100_000)
WORD = Field("word", "Word of the text, of models that label words", hint="none", aside=True)
OPTION = Field("option", "Option of the method", hint="name=value", count=2, aside=True)
UNITS = ("word", "sentence", "line", "paragraph", "turn", "document")
BY = Field("by", "Sources and answer by", "choice", "token", values=UNITS, aside=True)
TEXT = Field("text", "Text", "text", needed=True, positional=True)
TWO = Field("method", "Method", "choice", "all that are defined (slow)", count=2, begin=("alti", "attcat"))
SKIP = Field("no_faithfulness", "leave faithfulness out (about n² passes)", "tick", values=("",), aside=True)
CONTENT = Field("exclude", "Leave out", "tick", values=("first", "template"), aside=True)
NEW = Field("max_new_tokens", "Tokens at most", "number", "64", aside=True)

_TRACED = (
    Field("text", "Question", "text", needed=True, positional=True),
    Field("document", "Document to answer from", "text", aside=True),
    MODEL,
    METHOD,
    Field("answer", "Answer", hint="what the model generates"),
    Field("foil", "Rather than", hint="an answer with as many tokens", aside=True),
    BY,
    NEW,
    OPTION,
    CONTENT,
)
_SIMILAR = (
    Field("text", "First text", "text", needed=True, positional=True),
    Field("second", "Second text", "text", needed=True, positional=True),
    MODEL,
    METHOD,
    CUT,
)
_LIST = (
    Verb(
        "explain",
        "Explain",
        "Which words made the model decide?",
        "Explain",
        (TEXT, PAIR, MODEL, METHOD, TARGET, FOIL, WORD, WINDOW, STRIDE, OPTION, CUT),
        "attribute",
        _explain,
    ),
    Verb(
        "compare",
        "Compare",
        "Do two methods agree?",
        "Compare",
        (TEXT, PAIR, MODEL, TWO, TARGET, FOIL, WORD, SKIP, CUT),
        "attribute",
        _compare,
    ),
    Verb(
        "map",
        "Layers",
        "How much of each token goes into each other token?",
        "Map",
        (TEXT, PAIR, MODEL, METHOD, OPTION, CUT),
        "mixing",
        _map,
    ),
    Verb(
        "trace",
        "Trace an answer",
        "Where does an answer come from?",
        "Trace",
        _TRACED,
        "attribute",
        _trace,
    ),
    Verb(
        "similarity",
        "Two texts",
        "Which words made two texts alike?",
        "Compare",
        _SIMILAR,
        "similarity",
        _similarity,
    ),
)
VERBS = {verb.name: verb for verb in _LIST}
