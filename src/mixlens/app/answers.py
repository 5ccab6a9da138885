"""What answers a question: a call of the lens for each verb."""

from __future__ import annotations

import json
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any

from mixlens.app.uploads import picture, sound
from mixlens.errors import UnknownOption
from mixlens.target import Target
from mixlens.trace.prompt import as_chat, require_units

if TYPE_CHECKING:
    from mixlens.app.questions import Question
    from mixlens.app.work import Tick
    from mixlens.lens import Lens


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


def _explained(lens: Lens, data: Any, question: Question, tick: Tick, **more: Any) -> Any:
    options = _options(question, lens.attribute)
    return lens.attribute(data, question.get("method"), _target(question), progress=tick, **more, **options)


def explain(lens: Lens, question: Question, tick: Tick) -> Any:
    """Which words made the model decide."""
    sizes: dict[str, Any] = {
        name: int(question.need(name)) for name in ("window", "stride") if question.get(name) is not None
    }
    return _explained(lens, _data(question), question, tick, truncate=bool(question.get("truncate")), **sizes)


def see(lens: Lens, question: Question, tick: Tick) -> Any:
    """Which patches of a picture did."""
    return _explained(lens, picture(question.sent()), question, tick)


def hear(lens: Lens, question: Question, tick: Tick) -> Any:
    """Which parts of a sound did."""
    return _explained(lens, sound(question.sent()), question, tick)


def compare(lens: Lens, question: Question, tick: Tick) -> Any:
    """Several methods on one text."""
    return _compared(lens, _data(question), question, tick, truncate=bool(question.get("truncate")))


def compare_picture(lens: Lens, question: Question, tick: Tick) -> Any:
    """Several methods on one picture."""
    return _compared(lens, picture(question.sent()), question, tick)


def _compared(lens: Lens, data: Any, question: Question, tick: Tick, **more: Any) -> Any:
    return lens.compare(
        data,
        list(dict.fromkeys(question.all("method"))) or None,
        _target(question),
        faithfulness=not question.get("no_faithfulness"),
        progress=tick,
        **more,
    )


def layers(lens: Lens, question: Question, tick: Tick) -> Any:
    """How much of each token goes into each other."""
    return _mapped(lens, _data(question), question, tick, truncate=bool(question.get("truncate")))


def picture_layers(lens: Lens, question: Question, tick: Tick) -> Any:
    """How much of each patch does."""
    return _mapped(lens, picture(question.sent()), question, tick)


def sound_layers(lens: Lens, question: Question, tick: Tick) -> Any:
    """How much of each moment of a sound does."""
    return _mapped(lens, sound(question.sent()), question, tick)


def _mapped(lens: Lens, data: Any, question: Question, tick: Tick, **more: Any) -> Any:
    method = question.get("method")
    options = {**({} if method is None else {"method": method}), **_options(question, lens.mixing)}
    return lens.mixing(data, progress=tick, **more, **options)


def trace(lens: Lens, question: Question, tick: Tick) -> Any:
    """Where an answer comes from."""
    documents = question.documents()
    prompt = as_chat(lens.tokenizer, question.need("text"))
    by = question.get("by")
    if by is not None:
        require_units(lens.subject, prompt, documents, by)
    traced = _traced(lens, prompt, question, tick, documents=documents, exclude=question.all("exclude"))
    return traced if by is None else traced.units(by)


def trace_sound(lens: Lens, question: Question, tick: Tick) -> Any:
    """Which moments of a sound does."""
    return _traced(lens, sound(question.sent()), question, tick)


def _traced(lens: Lens, prompt: Any, question: Question, tick: Tick, **more: Any) -> Any:
    answer, new = question.get("answer"), question.get("max_new_tokens")
    if answer is not None and new is not None:
        raise UnknownOption("the answer is given, and nothing generated; leave out max_new_tokens, or the answer")
    return lens.trace(
        prompt,
        answer,
        question.get("method"),
        question.get("foil"),
        max_new_tokens=64 if new is None else int(new),
        progress=tick,
        **more,
        **_options(question, lens.trace),
    )


def similarity(lens: Lens, question: Question, tick: Tick) -> Any:
    """Which words made two texts alike."""
    return _alike(lens, question.need("second"), question, tick)


def described(lens: Lens, question: Question, tick: Tick) -> Any:
    """Which words and which patches made a text and a picture alike."""
    return _alike(lens, picture(question.sent()), question, tick)


def _alike(lens: Lens, second: Any, question: Question, tick: Tick) -> Any:
    truncate = bool(question.get("truncate"))
    return lens.similarity(question.need("text"), second, question.get("method"), truncate=truncate, progress=tick)
