"""What was typed, as the library takes it. Anything wrong is a usage error, before any work."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

import mixlens
from mixlens.architectures import TEXT
from mixlens.cli.running import note
from mixlens.errors import UnknownOption

STDIN = "-"
TABLES = (".csv", ".tsv", ".jsonl", ".json", ".txt", ".parquet")
_MEDIA = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".wav", ".flac", ".mp3")
PICTURES = (".png", ".svg", ".pdf")
NOT_OPTIONS = ("method", "target", "truncate", "progress")


def texts_of(texts: Sequence[str], pair: str | None) -> Any:
    """One text, a pair, or a list of texts; `-` is what standard input holds."""
    if pair is not None and len(texts) != 1:
        raise typer.BadParameter(f"--pair goes with one TEXT, got {len(texts)}; is the text in quotes?")
    if [*texts, pair].count(STDIN) > 1:
        raise typer.BadParameter("'-' is standard input, which can be read once; give one TEXT as '-'")
    texts, pair = [text_of(text) for text in texts], pair if pair is None else text_of(pair)
    return (texts[0], pair) if pair is not None else texts[0] if len(texts) == 1 else list(texts)


def text_of(text: str) -> str:
    """The text; for `-` all of standard input, without the last line's end."""
    if text != STDIN:
        return text
    return _decoded(typer.get_binary_stream("stdin").read(), "standard input")


def read_file(flag: str, path: str) -> str:
    """What is in a file that a flag names, or for `-` in standard input, likewise."""
    if path == STDIN:
        return text_of(path)
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise typer.BadParameter(f"--{flag} takes a file to read, got '{path}': {reason}") from None
    return _decoded(data, f"'{path}'", f"--{flag} takes a text, no picture and no sound" if media(path) else None)


def media(path: str) -> bool:
    """Whether a file is a picture or a sound by its name."""
    return Path(path).suffix.lower() in _MEDIA


def _decoded(data: bytes, source: str, advice: str | None = None) -> str:
    try:
        return data.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{source} is no UTF-8 (byte {error.object[error.start]:#04x}): {advice or 'iconv -t utf-8'}"
        ) from None


def say_if_files(lens: Any, data: Any) -> None:
    """A line for each text that is the name of a file, where a model reads texts."""
    if lens.head.fed == TEXT:
        for text in (data,) if isinstance(data, str) else data:
            say_if_file(text)


def say_if_file(text: str) -> None:
    """A line where a text is the name of a file."""
    try:
        there = Path(text).is_file()
    except (OSError, ValueError):  # too long for a name
        return
    if not there and " " not in text and media(text):
        note(f"warning: {text!r} is explained as a text; there is no such file")
    if there:
        name = shlex.quote(text)
        suffix = Path(text.lower().removesuffix(".gz")).suffix
        inside = f"for what is in it: - < {name}"
        if suffix in _MEDIA:
            inside = "a picture or a sound needs a model that reads it, as --model mixlens:digits or mixlens:tones"
        rows = f"; for its rows: mixlens explain --data {name} --out DIR" if suffix in TABLES else ""
        note(f"warning: {text!r} is explained as a text, and is the name of a file; {inside}{rows}")


def target_of(
    name: str | None, foil: str | None, word: str | None = None, position: str | None = None
) -> mixlens.Target | None:
    """What is explained; None: the prediction."""
    if name is foil is word is position is None:
        return None
    if word is not None and not word.strip():
        raise typer.BadParameter("--word takes a word of the text, got an empty one")
    return mixlens.Target(name, foil=foil, word=word, position=None if position is None else _position(position))


def _position(text: str) -> int | tuple[int, int]:
    """`7`, `-1`, or `3:5` as first and last."""
    try:
        first, colon, last = text.partition(":")
        return (int(first), int(last)) if colon else int(first)
    except ValueError:
        raise typer.BadParameter(f"--position takes a token's number, or FIRST:LAST, got '{text}'") from None


def aggregation_of(word: str | None) -> tuple[str, dict[str, Any]] | None:
    """The name of an aggregation and its options: `layer:-1` is layer with k=-1."""
    from mixlens.aggregate import AGGREGATIONS

    if word is None:
        return None
    name, colon, number = word.partition(":")
    if name not in AGGREGATIONS:
        raise typer.BadParameter(f"--aggregate takes one of {', '.join(AGGREGATIONS)}, got '{word}'")
    try:
        options = {"k": int(number)} if name == "layer" else {}
    except ValueError:
        raise typer.BadParameter(f"--aggregate takes the number of a layer as layer:K, got '{word}'") from None
    if colon and name != "layer":
        raise typer.BadParameter(f"--aggregate {name} takes no number, got '{word}'")
    return name, options


def row_of(word: str | None) -> int | str | None:
    """The query row of the picture: its number, or "max"."""
    if word is None or word == "max":
        return word
    try:
        return int(word)
    except ValueError:
        raise typer.BadParameter(f"--row takes the number of a token or 'max', got '{word}'") from None


def settings_of(
    pairs: Sequence[str] | None, flag: str = "option", others: Sequence[str] = NOT_OPTIONS
) -> dict[str, Any]:
    """`["p=1", "distance=cosine"]` as keyword arguments; `others`: what has a flag of its own."""
    settings: dict[str, Any] = {}
    for item in pairs or ():
        key, sign, value = item.partition("=")
        if not sign or not key.isidentifier():
            raise typer.BadParameter(f"--{flag} takes KEY=VALUE, got '{item}'")
        if key in others:
            raise typer.BadParameter(f"'{key}' is no option of a method; use --{key.replace('_', '-')}")
        settings[key] = value_of(value)
    return settings


def value_of(text: str) -> Any:
    """What was typed as JSON says it, else as it stands."""
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise typer.BadParameter(f"--option takes a value of a few lists in lists, got '{text[:40]}...'") from None


def folder(text: str) -> Path:
    """The path of a folder; an empty one would mean the one that one stands in."""
    if not text:
        raise typer.BadParameter("expected the path of a folder, got an empty one; name it, '.' being this one")
    return Path(text)


def picture(path: Path | None) -> Path | None:
    """A file name whose ending says the format."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise typer.BadParameter(f"--png takes a file that ends in {', '.join(PICTURES)}, got '{path}'")
    return path


def floating(latex: Path | None, caption: str | None, label: str | None) -> dict[str, str]:
    """What --latex is written with, beside the file."""
    given = {name: value for name, value in (("caption", caption), ("label", label)) if value is not None}
    if given and latex is None:
        raise typer.BadParameter(f"--{next(iter(given))} goes with --latex FILE; add it, or leave this out")
    if given:
        from mixlens.view.kit.latex import require_float

        try:
            require_float(caption, label)
        except UnknownOption as error:
            raise typer.BadParameter(re.sub(r"\b(caption|label)=", r"--\1", str(error))) from None
    return given


def check_folders(*paths: Path | None) -> None:
    """Before the work, not after it."""
    for path in paths:
        if path is None:
            continue
        try:
            path.stat()
        except (FileNotFoundError, PermissionError):
            pass
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"no file can have the name '{path}': {error}") from None
        if not path.absolute().parent.is_dir():
            raise typer.BadParameter(f"the folder of '{path}' does not exist; make it first")


def check_files(*paths: Path | None) -> None:
    """`check_folders`, and that none is a folder itself."""
    check_folders(*paths)
    for path in paths:
        if path is not None and path.is_dir():
            raise typer.BadParameter(f"'{path}' is a folder; add the name of a file")


def nothing_written(*files: Path | None) -> None:
    """Beside --plan no file would come out."""
    written = [str(path) for path in files if path is not None]
    if written:
        raise typer.BadParameter(f"--plan does no more than say what it would take; leave '{written[0]}' out")


def drawn(png: Path | None, **chosen: str | None) -> None:
    """What chooses a picture goes with a picture."""
    for flag, value in chosen.items():
        if value is not None and png is None:
            raise typer.BadParameter(f"--{flag} chooses what --png draws; add --png FILE")


def one_of(flag: str, value: str | None, known: Sequence[str]) -> None:
    """One of a few words, or nothing."""
    if value not in (None, *known):
        raise typer.BadParameter(f"--{flag} is one of {', '.join(known)}, got '{value}'")
