"""The folder of a run over a data set: what its files are called, and whether it has come to its end."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

MANIFEST, RESULTS = "manifest.json", "results.jsonl"
END = -1  # the window of the mark that closes the run


def manifest_of(folder: Path) -> dict[str, Any] | None:
    """What a run was made with; None where that cannot be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) else None


def finished(folder: Path) -> dict[str, Any] | None:
    """The manifest of a run that has come to its end; None where there is none such."""
    mark = last_mark(folder)
    return manifest_of(folder) if mark is not None and mark.get("window") == END else None


def last_mark(folder: Path) -> dict[str, Any] | None:
    """What the last line of a run's results says where that closes a chunk; None where it does not."""
    try:
        with open(folder / RESULTS, "rb") as file:
            file.seek(max(0, os.path.getsize(folder / RESULTS) - 4096))
            mark = json.loads(file.read().splitlines()[-1])["end"]
    except (OSError, ValueError, IndexError, KeyError, TypeError, RecursionError):
        return None  # the log says what is wrong
    return mark if isinstance(mark, dict) else None
