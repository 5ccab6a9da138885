"""Data sets that the library `datasets` reads: by their hub name, or from a folder that it wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mixlens.errors import DataError, missing

_SAVED = ("dataset_info.json", "dataset_dict.json")  # what Dataset.save_to_disk and DatasetDict.save_to_disk write


def loaded(name: str) -> Any:
    """The data set of `"org/name"`, `"org/name/config"`, `"name:split"`. Raises DataError, MissingExtra."""
    library = _library(f"{name!r} is no file here, and a hub name")
    place, _, split = name.partition(":")
    parts = place.split("/")
    config = parts[2] if len(parts) == 3 else None
    data = _loaded(
        lambda: library.load_dataset("/".join(parts[:2]), config, split=split or None), "data set of the hub"
    )
    if isinstance(data, Mapping):
        raise DataError(f"expected one split, got {', '.join(map(str, data))}; name one: '{place}:{next(iter(data))}'")
    return data


def is_saved(folder: Path) -> bool:
    """Whether the folder is one that `save_to_disk` wrote."""
    return any((folder / name).is_file() for name in _SAVED)


def saved(folder: Path) -> Any:
    """The data set in such a folder. Raises DataError, MissingExtra."""
    library = _library(f"the folder {folder}, which save_to_disk wrote,")
    data = _loaded(lambda: library.load_from_disk(str(folder)), "folder of save_to_disk")
    if isinstance(data, Mapping):
        first = folder / str(next(iter(data), "SPLIT"))
        raise DataError(f"expected one split, got {', '.join(map(str, data))}; name the folder of one: {first}")
    return data


def _library(source: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise missing(source, "datasets", "hub") from None
    return datasets


def _loaded(load: Callable[[], Any], kind: str) -> Any:
    try:
        return load()
    except Exception as error:  # whatever a hub, or a file, may say
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"expected a {kind}, got: {reason}; name a file?") from None
