"""Several results below each other: a page, a notebook's display."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mixlens.files import put
from mixlens.view import html, reading

if TYPE_CHECKING:
    from mixlens.results import Results

_SHOWN = 20  # results that a notebook shows; a page holds all
_SHARED = ("method", "model", "architecture", "dtype", "mixlens", "torch", "transformers")


def page(found: Results[Any], path: str | os.PathLike[str] | None = None) -> str:
    """The page; written to `path` if given. Raises ResultFileError."""
    count = len(found)
    first = next((one for one in found if one is not None), None)
    facts = [] if first is None else [(k, v) for k, v in reading.provenance(first) if k in _SHARED]
    values = {"rows": _rows(found, count), "count": count, "failed": len(found.skipped), "facts": facts}
    return put(html.fill("several.html", heading=f"{count} texts", **values), path)


def fragment(found: Results[Any]) -> str:
    """A piece of HTML for a notebook: the first results, and how many there are."""
    rows = _rows(found, _SHOWN)
    return html.fill("several_fragment.html", rows=rows, count=len(found), failed=len(found.skipped))


def _rows(found: Results[Any], most: int) -> list[dict[str, Any]]:
    return [
        {"number": i, "shown": None if one is None else html.fragment(one), "why": found.skipped.get(i)}
        for i, one in enumerate(found[:most])
    ]
