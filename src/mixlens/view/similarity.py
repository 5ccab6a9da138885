"""A `Similarity` as a page, a terminal's text and a pandas table: two texts in colours, their pairs as a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mixlens.capture.picture import Picture
from mixlens.capture.stream import Stream
from mixlens.escape import visible
from mixlens.files import put
from mixlens.view import maps, maps_data, picture
from mixlens.view.kit import arrays, caption, frames, html, spelling, terminal, words
from mixlens.view.kit import picture as kit
from mixlens.view.kit.drawn import Attribution, Similarity

if TYPE_CHECKING:
    import pandas


_TOP = 8
_SIDES = ("first", "second")
_TITLES = {
    ("text",): "Which words make these texts alike?",
    ("picture",): "Which patches make these pictures alike?",
    ("picture", "text"): "Which words and which patches make them alike?",
}


def page(alike: Similarity, path: str | os.PathLike[str] | None = None) -> str:
    """The page; written to `path` if given. Raises ResultFileError."""
    values = {
        **_values(alike),
        **maps.pictures(alike.map),
        "data": maps_data.of_maps(alike.map, pairs=True),
        "wide": True,
    }
    text = html.page("similarity.html", **values, facts=caption.provenance(alike.map))
    return put(text, path)


def fragment(alike: Similarity) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("similarity_fragment.html", **_values(alike))


def printout(alike: Similarity) -> RenderableType:
    """Both texts on their colours, and the pairs with the largest shares."""
    rows: list[RenderableType] = [Text(heading(alike), style="bold"), *terminal.warnings(alike.first)]
    for side in (alike.first, alike.second):
        cells = picture.cells(side)
        if cells is not None:
            rows.append(Padding(cells, (0, 1)))
            continue
        shown = words.parts(side)
        rows.append(Padding(terminal.running(shown, words.scale(shown)), (0, 1), style=terminal.PAPER))
    rows.append(Text(note(alike), style="dim"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in _SIDES:
        table.add_column(Text(name), no_wrap=True, max_width=32, overflow="ellipsis")
    table.add_column(Text("share"), justify="right", no_wrap=True)
    for first, second, score in _pairs(alike):
        table.add_row(Text(first), Text(second), Text(spelling.number(score)))
    return Group(*rows, table)


def data_frame(alike: Similarity) -> pandas.DataFrame:
    """A row a pair of tokens. Raises MissingExtra."""
    pd = frames.pandas_module()
    return frames.with_origin(pd.DataFrame(alike.to_dicts()), alike.map)


def heading(alike: Similarity) -> str:
    """The method, the cosine and the model."""
    model = visible(str(alike.meta.get("model", "")))
    return " · ".join(filter(None, (alike.method, f"cosine {alike.value:.3f}", model)))


def over_pairs(alike: Similarity) -> str:
    """The heading of a figure of the pairs: the above, and what the axes are."""
    pairs = alike.map
    return f"{heading(alike)}\nrow: a {pairs.queries.unit} of the first, column: a {pairs.keys.unit} of the second"


def note(alike: Similarity) -> str:
    """What the shares sum to."""
    total = spelling.number(alike.explained)
    if alike.meta.get("complete"):
        return f"the pairs sum to the cosine, {total}"
    return f"the pairs sum to {total}, not to the cosine: this method does not share all of it out"


def _pairs(alike: Similarity) -> list[tuple[str, str, float]]:
    """The pairs of words, else of tokens, with the largest shares."""
    if all(stream.has_words or isinstance(stream, Picture) for stream in alike.streams):
        return [(p.first.text, p.second.text, p.score) for p in alike.top(_TOP)]
    first, second = alike.streams
    names, others = first.display, second.display  # each made anew when it is read
    cells = [
        (names[i], others[j], float(alike.scores[i, j]))
        for i in range(len(first))
        for j in range(len(second))
        if not (first.special[i] or second.special[j])
    ]
    return sorted(cells, key=lambda cell: -cell[2])[:_TOP]


def _values(alike: Similarity) -> dict[str, Any]:
    texts = [{**html.text(side, words.parts(side)), **_drawn(side)} for side in (alike.first, alike.second)]
    pairs = [{"first": visible(a), "second": visible(b), "score": score} for a, b, score in _pairs(alike)]
    return {
        "heading": heading(alike),
        "says": note(alike),
        "warnings": caption.warnings(alike.first),
        "texts": texts,
        "pairs": pairs,
        "cosine": f"{alike.value:.3f}",
        "mixed": len({_kind(stream) for stream in alike.streams}) > 1,
        "title": _TITLES[tuple(sorted({_kind(stream) for stream in alike.streams}))],
    }


def _kind(stream: Stream) -> str:
    return "picture" if isinstance(stream, Picture) else "text"


def _drawn(side: Attribution) -> dict[str, Any]:
    """What a template needs of a picture, with the legend of its patches alone; None in its place of a text."""
    stream = side.source
    if not isinstance(stream, Picture):
        return {"heat": None, "kind": "text", "unit_name": "word"}
    hues = kit.scale(stream, arrays.values(side.scores))
    return {
        "heat": picture.heat(side), "kind": "picture", "unit_name": "patch", "legend": html.legend(hues),
        "held": words.held(words.parts(side), stream.units),
    }  # fmt: skip
