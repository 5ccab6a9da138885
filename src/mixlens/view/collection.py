"""`Results`, one below the other, as a page, a notebook's piece of HTML and a pandas table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mixlens.files import put
from mixlens.view import attribution
from mixlens.view.kit import caption, frames, html
from mixlens.view.kit.drawn import Results

if TYPE_CHECKING:
    import pandas


_SHOWN = 20  # results that a notebook shows; a page holds all
_SHARED = ("method", "model", "architecture", "dtype", "mixlens", "torch", "transformers")


def page(results: Results, path: str | os.PathLike[str] | None = None) -> str:
    """The page; written to `path` if given. Raises ResultFileError."""
    count = len(results)
    first = next((result for result in results if result is not None), None)
    facts = [] if first is None else [(k, v) for k, v in caption.provenance(first) if k in _SHARED]
    rows = [row | {"data": _data(result)} for row, result in zip(_rows(results, count), results, strict=True)]
    kind = "class" if results.names else "text" if first is None else caption.kind(first)
    values = {
        "rows": rows,
        "count": count,
        "failed": len(results.skipped),
        "facts": facts,
        "named": bool(results.names),
        "unspecific": any(
            getattr(result, "target", None) is not None and result.meta.get("class_specific") is False
            for result in results
        ),
    }
    heading = f"{count} {kind}{'' if count == 1 else 'es' if results.names else 's'}"
    return put(html.page("several.html", heading=heading, **values), path)


def _data(result: Any) -> str | None:
    """What the page's script is given of an attribution; other kinds stay as they are here."""
    return attribution.data(result) if hasattr(result, "target") and hasattr(result, "units") else None


def fragment(results: Results) -> str:
    """A piece of HTML for a notebook: the first results, and how many there are."""
    rows = _rows(results, _SHOWN)
    return html.fill("several_fragment.html", rows=rows, count=len(results), failed=len(results.skipped))


def data_frame(results: Results) -> pandas.DataFrame:
    """The results' tables below each other, the number of the text in the first column. Raises MissingExtra."""
    pd = frames.pandas_module()
    parts = []
    for number, result in enumerate(results):
        if result is not None:
            part = result.to_frame()
            part.attrs = {}
            part.insert(0, *(("target", results.names[number]) if results.names else ("text", number)))
            parts.append(part)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"text": []})


def _rows(results: Results, most: int) -> list[dict[str, Any]]:
    titles = results.names or [
        f"{'text' if result is None else caption.kind(result)} {i}" for i, result in enumerate(results)
    ]
    return [
        {"title": titles[i], "shown": None if result is None else result._repr_html_(), "why": results.skipped.get(i)}
        for i, result in enumerate(results[:most])
    ]
