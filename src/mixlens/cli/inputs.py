"""What was typed, as the library takes it. Anything wrong is a usage error, before any work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

import mixlens

PICTURES = (".png", ".svg", ".pdf")
NOT_OPTIONS = ("method", "target", "truncate", "progress")


def texts_of(texts: Sequence[str], pair: str | None) -> Any:
    """One text, a pair, or a list of texts."""
    if pair is not None and len(texts) != 1:
        raise typer.BadParameter(f"--pair goes with one TEXT, got {len(texts)}; is the text in quotes?")
    return (texts[0], pair) if pair is not None else texts[0] if len(texts) == 1 else list(texts)


def target_of(what: str | None, foil: str | None) -> mixlens.Target | None:
    """What is explained; None: the prediction."""
    return None if what is None and foil is None else mixlens.Target(what, foil=foil)


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


def settings_of(pairs: Sequence[str] | None) -> dict[str, Any]:
    """`["p=1", "distance=cosine"]` as keyword arguments."""
    settings: dict[str, Any] = {}
    for item in pairs or ():
        key, sign, value = item.partition("=")
        if not sign or not key.isidentifier():
            raise typer.BadParameter(f"--option takes KEY=VALUE, got '{item}'")
        if key in NOT_OPTIONS:
            raise typer.BadParameter(f"'{key}' is no option of a method; use --{key}")
        settings[key] = value_of(value)
    return settings


def value_of(text: str) -> Any:
    """What was typed as JSON says it, else as it stands."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def picture(path: Path | None) -> Path | None:
    """A file name whose ending says the format."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise typer.BadParameter(f"--png takes a file that ends in {', '.join(PICTURES)}, got '{path}'")
    return path


def check_folders(*paths: Path | None) -> None:
    """Before the work, not after it."""
    for path in paths:
        if path is not None and not path.absolute().parent.is_dir():
            raise typer.BadParameter(f"the folder of '{path}' does not exist; make it first")


def check_files(*paths: Path | None) -> None:
    """`check_folders`, and that none is a folder itself."""
    check_folders(*paths)
    for path in paths:
        if path is not None and path.is_dir():
            raise typer.BadParameter(f"'{path}' is a folder; add the name of a file")


def drawn(png: Path | None, **chosen: str | None) -> None:
    """What chooses a picture goes with a picture."""
    for flag, value in chosen.items():
        if value is not None and png is None:
            raise typer.BadParameter(f"--{flag} chooses what --png draws; add --png FILE")


def one_of(flag: str, value: str | None, known: Sequence[str]) -> None:
    """One of a few words, or nothing."""
    if value not in (None, *known):
        raise typer.BadParameter(f"--{flag} is one of {', '.join(known)}, got '{value}'")
