"""What an address or a form asks: read strictly, written back as a link and as the command line that says the same."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, urlencode

from mixlens.app.fields import NAMED, Field
from mixlens.app.uploads import Upload
from mixlens.app.verbs import VERBS, Verb
from mixlens.errors import InputError, TooLong, UnknownOption, did_you_mean
from mixlens.escape import STEERS

LONGEST = 10_000  # characters of a text
LINE = 2_000  # of anything else
_SPECIAL = re.compile(f"{STEERS.pattern}|['\\\\]")


@dataclass(frozen=True)
class Question:
    """A verb and what its fields hold, in the order of the fields; those that are empty are left out.

    A document's name stands in front of it. Of a file, which is beside them, the fields hold the name.
    """

    verb: Verb
    values: tuple[tuple[str, str], ...]
    upload: Upload | None = field(default=None, repr=False)

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

    def sent(self) -> Upload:
        """The file of a verb that asks for one."""
        assert self.upload is not None
        return self.upload

    def documents(self) -> dict[str, str] | None:
        """The documents by name, or None."""
        return dict(zip(self.all(NAMED), self.all("document"), strict=True)) or None

    def link(self) -> str:
        """The address, without the server's, that asks this again; with a file, of the form that does."""
        file = self.verb.file
        return f"/{self.verb.name}?{urlencode([pair for pair in self.values if file is None or pair[0] != file.name])}"

    def command(self, page: str = "answer.html") -> str:
        """The line for a POSIX shell that writes the same page."""
        before, words = _documents(self.documents() or {})
        words, last = ["mixlens", self.verb.command, *words], []
        for key, value in self.values:
            field = self.verb.field(key)
            if field is None or field.kind == "named":
                continue
            if field.positional:
                last.append(quoted(value))
            elif field.values == ("",):
                words.append(field.flag)
            else:
                words += [field.flag, quoted(value)]
        return before + " ".join([*words, "--html", page, "--", *last])


def _documents(texts: dict[str, str]) -> tuple[str, list[str]]:
    """What stands in front of a command line so that it reads documents, and its words for them."""
    typed = {name: f"printf '%s\\n' {quoted(text)}" for name, text in texts.items()}
    if len(typed) < 2:
        words = [word for name in typed for word in ("--document", f"{quoted(f'{name}=-')}")]
        return "".join(f"{line} | " for line in typed.values()), words
    lines, words = ["d=$(mktemp -d)"], list[str]()
    for number, (name, line) in enumerate(typed.items(), start=1):
        lines.append(f'{line} > "$d/{number}"')
        words += ["--document", f'{quoted(f"{name}=")}"$d/{number}"']
    return "".join(f"{line} && " for line in lines), words


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


def known(verb: Verb, key: str) -> None:
    """Raises UnknownOption for a field that a verb does not have."""
    if key not in verb.names:
        raise UnknownOption(f"{verb.name} has no field {key!r}{did_you_mean(key, verb.names)}")


def question_of(
    name: str, pairs: list[tuple[str, str]], models: dict[str, str], files: dict[str, Upload] | None = None
) -> Question:
    """What is asked of one of the `models`. Raises InputError, UnknownOption, TooLong."""
    verb, sent, files = VERBS[name], dict[str, list[str]](), files or {}
    for key, value in pairs:
        known(verb, key)
        field = verb.field(key)
        if field is not None and field.kind == "file":
            if value:  # a browser without a file chosen sends nothing
                raise InputError(f"expected {key} as a file, got text; send the form as multipart/form-data")
        elif value or (field is not None and field.values == ("",)):
            sent.setdefault(key, []).append(value)
    for key, upload in files.items():
        if verb.file is None or verb.file.name != key:
            known(verb, key)
            raise InputError(f"expected {key} as text, got a file")
        sent[key] = [upload.name]
    if "model" not in sent and not models:
        raise InputError(f"no model here answers {name}; name one when the app is started: mixlens app MODEL")
    sent.setdefault("model", list(models)[:1])
    values: list[tuple[str, str]] = []
    for field in verb.fields:
        if field.kind == "named":
            values += _named(pairs, field, verb, models)
            continue
        for value in sent.get(field.name, []):
            values.append((field.name, _valued(field, value, verb, models)))
        _counted(field, len(sent.get(field.name, [])))
    return Question(verb, tuple(values), next(iter(files.values()), None))


def _named(pairs: list[tuple[str, str]], field: Field, verb: Verb, models: dict[str, str]) -> list[tuple[str, str]]:
    """Texts, each behind its name, as they were sent one after the other; rows that are empty are left out."""
    line = f"{field.name}_name"
    names, texts = ([value for key, value in pairs if key == name] for name in (line, field.name))
    if names and len(names) != len(texts):
        raise InputError(f"expected a {line} for each {field.name}, got {len(names)} and {len(texts)}")
    out: dict[str, str] = {}
    for name, text in zip([name.strip() for name in names] or [""] * len(texts), texts, strict=True):
        if not text and not name:
            continue
        if not text:
            raise InputError(f"expected a text of the {field.name} {name!r:.80}, got none")
        name = name or (field.name if not out else f"{field.name} {len(out) + 1}")
        if "=" in name or "\n" in name:
            raise InputError(f"expected the name of a {field.name} on one line without '=', got {name!r:.80}")
        if name in out:
            raise InputError(f"expected each {field.name} by a name of its own, got {name!r:.80} twice")
        out[_valued(replace(field, name=line, kind="line"), name, verb, models)] = _valued(field, text, verb, models)
    _counted(field, len(out))
    return [pair for name, text in out.items() for pair in ((line, name), (field.name, text))]


def _counted(field: Field, count: int) -> None:
    most = len(field.values) if field.kind == "tick" else field.count
    if count > most:
        raise InputError(f"expected {field.name} at most {most} times, got {count}")
    if field.needed and not count:
        noun = f"file with a {field.label.lower()}" if field.kind == "file" else field.label.lower()
        raise InputError(f"expected a {noun}, got none")


def _valued(field: Field, value: str, verb: Verb, models: dict[str, str]) -> str:
    """The value of a field. Raises InputError, UnknownOption, TooLong."""
    most = LONGEST if field.kind in ("text", "named") else LINE
    if len(value) > most:
        raise TooLong(f"expected at most {most:,} characters in {field.name}, got {len(value):,}")
    if "\0" in value:
        raise InputError(f"expected {field.name} without the character 0, got one")
    if field.name == "model" and value not in models:
        raise UnknownOption(
            f"expected one of the models that are offered here ({', '.join(models)}), got {value!r}: a folder "
            "is offered if it is named when the app is started, mixlens app FOLDER, and reads what is asked about"
            f"{did_you_mean(value, models)}"
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
    return value.removeprefix("\ufeff") if field.kind in ("text", "named") else value
