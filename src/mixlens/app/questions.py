"""What an address asks: read strictly, written back as a link and as the command line that says the same."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from mixlens.app.verbs import VERBS, Field, Verb
from mixlens.errors import InputError, TooLong, UnknownOption, did_you_mean
from mixlens.escape import STEERS

LONGEST = 10_000  # characters of a text
LINE = 2_000  # of anything else
_SPECIAL = re.compile(f"{STEERS.pattern}|['\\\\]")


@dataclass(frozen=True)
class Question:
    """A verb and what its fields hold, in the order of the fields; those that are empty are left out."""

    verb: Verb
    values: tuple[tuple[str, str], ...]

    def all(self, name: str) -> list[str]:
        """What the fields of a name hold."""
        return [value for key, value in self.values if key == name]

    def get(self, name: str) -> str | None:
        """What the field of a name holds, or None."""
        return next(iter(self.all(name)), None)

    def need(self, name: str) -> str:
        """What a field that is never empty holds."""
        (value,) = self.all(name)
        return value

    def link(self) -> str:
        """The address, without the server's, that asks this again."""
        return f"/{self.verb.name}?{urlencode(self.values)}"

    def command(self, page: str = "answer.html") -> str:
        """The line for a POSIX shell that writes the same page."""
        words, last, before = ["mixlens", self.verb.name], [], ""
        for key, value in self.values:
            field = self.verb.field(key)
            assert field is not None
            if field.positional:
                last.append(quoted(value))
            elif key == "document":
                words += [field.flag, "document=-"]
                before = f"printf '%s\\n' {quoted(value)} | "
            elif field.values == ("",):
                words.append(field.flag)
            else:
                words += [field.flag, quoted(value)]
        return before + " ".join([*words, "--html", page, "--", *last])


def quoted(word: str) -> str:
    """A word for a POSIX shell; what steers a terminal is spelled in octal, which bash, zsh and ksh read."""
    if STEERS.search(word) is None:
        return shlex.quote(word)
    return "$'" + _SPECIAL.sub(lambda match: "".join(f"\\{byte:03o}" for byte in match[0].encode()), word) + "'"


def pairs_of(query: bytes) -> list[tuple[str, str]]:
    """The fields of an address as they were sent. Raises InputError."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(query),
            encoding="utf-8",
            errors="strict",
            max_num_fields=40,
        )
    except ValueError as error:
        raise InputError(f"expected an address with ?NAME=VALUE&..., percent-encoded UTF-8, got: {error}") from None
    return [(name, value.replace("\r\n", "\n").replace("\r", "\n")) for name, value in pairs]


def known(verb: Verb, name: str, key: str) -> Field:
    """The field of a key. Raises UnknownOption."""
    field = verb.field(key)
    if field is None:
        raise UnknownOption(f"{name} has no field {key!r}{did_you_mean(key, [f.name for f in verb.fields])}")
    return field


def question_of(name: str, pairs: list[tuple[str, str]], models: dict[str, str]) -> Question:
    """What is asked of one of the `models`. Raises InputError, UnknownOption, TooLong."""
    verb, sent = VERBS[name], dict[str, list[str]]()
    for key, value in pairs:
        field = known(verb, name, key)
        if value or field.values == ("",):
            sent.setdefault(key, []).append(value)
    if "model" not in sent and not models:
        raise InputError(f"no model here answers {name}; name one when the app is started: mixlens app MODEL")
    sent.setdefault("model", list(models)[:1])
    values: list[tuple[str, str]] = []
    for field in verb.fields:
        for value in sent.get(field.name, []):
            values.append((field.name, _valued(field, value, verb, models)))
        _counted(field, len(sent.get(field.name, [])))
    return Question(verb, tuple(values))


def _counted(field: Field, count: int) -> None:
    most = len(field.values) if field.kind == "tick" else field.count
    if count > most:
        raise InputError(f"expected {field.name} at most {most} times, got {count}")
    if field.needed and not count:
        raise InputError(f"expected a {field.label.lower()}, got none")


def _valued(field: Field, value: str, verb: Verb, models: dict[str, str]) -> str:
    """The value of a field. Raises InputError, UnknownOption, TooLong."""
    most = LONGEST if field.kind == "text" else LINE
    if len(value) > most:
        raise TooLong(f"expected at most {most:,} characters in {field.name}, got {len(value):,}")
    if "\0" in value:
        raise InputError(f"expected {field.name} without the character 0, got one")
    if field.name == "model" and value not in models:
        raise UnknownOption(
            f"expected one of the models that are offered here, got {value!r}: a folder is offered if it is named when "
            f"the app is started, mixlens app FOLDER{did_you_mean(value, models)}"
        )
    if field.name == "model":
        return value
    if field.kind == "number" and not (value.isascii() and value.isdigit() and 1 <= int(value) <= field.most):
        raise InputError(f"expected {field.name} from 1 to {field.most:,}, got {value[:40]!r}")
    if field.positional and value == "-":
        raise InputError("expected a text, got '-', which on the command line is standard input")
    if field.values == ("",):
        return "on"
    if field.values and value not in field.values:
        raise InputError(f"expected {field.name} to be one of {', '.join(field.values)}, got {value[:40]!r}")
    return value.removeprefix("\ufeff") if field.kind == "text" else value
