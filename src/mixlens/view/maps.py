"""`LayerMaps` as a page, a figure, a terminal's table and a pandas table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mixlens.files import put
from mixlens.view import maps_data
from mixlens.view.kit import arrays, caption, colors, frames, html, terminal
from mixlens.view.kit.drawn import LayerMaps

if TYPE_CHECKING:
    import pandas


_SIDE = 340  # pixels a picture otherwise; a browser that made it smaller would skip tokens
_PIXELS = 3_400_000  # of all pictures of a page, at most about two bytes each (light and dark) before compression
_LESS = 6  # of them where a page holds the numbers too: its script draws them
_ROWS = 40  # tokens in a layer table
_NUMBERS = 12  # layers up to which the cells hold numbers
_SHADES = " ░▒▓█"


def page(maps: LayerMaps, path: str | os.PathLike[str] | None = None) -> str:
    """The page of layer maps, a picture a layer (heads averaged); written to `path` if given.

    Pictures are pooled (each dot the largest of k x k tokens) so far that a page stays under 10 MB; the page says so.
    Raises ResultFileError.
    """
    data = maps_data.of_maps(maps)
    drawn = {**_row(maps), **pictures(maps, 1 if data is None else _LESS), "data": data, "wide": data is not None}
    text = html.page("maps.html", **drawn, facts=caption.provenance(maps))
    return put(text, path)


def fragment(maps: LayerMaps) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("maps_fragment.html", **_row(maps))


def _row(maps: LayerMaps) -> dict[str, Any]:
    rows, name = arrays.readout(maps)
    row = html.by_layer(rows, arrays.labels(maps, 14), arrays.layers(maps), maps.keys.units)
    head = {"heading": caption.heading(maps), "says": caption.says(maps), "warnings": caption.warnings(maps)}
    return {"taken": maps.keys, "taking": maps.queries, "row": row, "row_name": name, **head}


def pictures(maps: LayerMaps, share: int = 1) -> dict[str, Any]:
    """A picture a layer with their legend and notes; `share`: how many maps a page has in all, for its size."""
    scores = arrays.values(maps.scores)
    scores = scores.mean(1) if maps.heads else scores
    side = min(_SIDE, int((_PIXELS / share / len(scores)) ** 0.5))
    scores, k = arrays.pooled(scores, side)
    scale = colors.scale(scores.ravel())
    names, queries = arrays.labels(maps, 14), arrays.query_labels(maps, 14)
    named = k == 1 and max(scores.shape[1:]) <= html.NAMED
    notes = ["mean over the heads"] if maps.heads else []
    notes += [f"each dot is the largest of {k} x {k} {arrays.units(maps)}"] if k > 1 else []
    return {
        "pictures": [
            {
                "name": f"layer {number}",
                **html.png(panel, scale),
                "width": panel.shape[1] * html.CELL if named else _SIDE,
                "height": panel.shape[0] * html.CELL if named else round(_SIDE * panel.shape[0] / panel.shape[1]),
                "rows": queries if named and len(queries) == panel.shape[0] else [],
                "columns": names if named and len(names) == panel.shape[1] else [],
            }
            for number, panel in zip(arrays.layers(maps), scores, strict=True)
        ],
        "legend": html.legend(scale),
        "notes": notes,
    }


def printout(maps: LayerMaps) -> RenderableType:
    """A table token x layer of what flows into the read-out row (`meta["readout"]`), else of the mean over queries."""
    rows, name = arrays.readout(maps)
    scale = colors.scale(rows.ravel())
    labels = arrays.labels(maps)
    kept = sorted(sorted(range(rows.shape[1]), key=lambda j: -abs(rows[:, j]).max())[:_ROWS])
    numbers = len(rows) <= _NUMBERS
    table = Table(box=None, padding=(0, 0), pad_edge=False, header_style="bold")
    table.add_column(Text(maps.keys.unit), no_wrap=True)
    layers = arrays.layers(maps)
    for layer in layers:
        head = str(layer) if numbers or layer % 5 == 0 or layer == layers[0] else ""
        table.add_column(Text(f"{head} " if numbers else head), justify="right", no_wrap=True, min_width=2)
    for j in kept:
        special = maps.special[j] if len(labels) == len(maps.special) else False
        cells = [_cell(float(v), scale, numbers) for v in rows[:, j]]
        table.add_row(Text(labels[j] + " ", style="dim" if special else ""), *cells)
    whole = layers == list(range(1, len(layers) + 1))
    notes = [f"layers {f'1 to {len(layers)}' if whole else ', '.join(map(str, layers))} across, {name}"]
    if numbers and not 0.1 <= scale.top < 10:
        notes.append("percent of the largest score")
    if len(kept) < rows.shape[1]:
        notes.append(f"the {len(kept)} of {rows.shape[1]} {maps.keys.units} with the largest scores, in reading order")
    return Group(*terminal.head(maps), terminal.legend(scale, notes), table)


def _cell(value: float, scale: colors.Scale, numbers: bool) -> Text:
    if not numbers:
        shade = _SHADES[round(abs(scale.share(value)) * (len(_SHADES) - 1))]
        return Text(shade * 2, style=f"#{colors.strong(value)}")
    digits = f"{value:.2f}".replace("0.", ".", 1) if 0.1 <= scale.top < 10 else f"{100 * scale.share(value):.0f}%"
    return Text(f" {digits} ", style=f"#{scale.ink(value)} on #{scale.hex(value)}")


def data_frame(maps: LayerMaps) -> pandas.DataFrame:
    """A long table, a row a score: layer, (head,) query, key, score, all counted from 0. Raises MissingExtra."""
    pd = frames.pandas_module()
    return frames.with_origin(pd.DataFrame(columns(maps)), maps)


def named_columns(maps: LayerMaps) -> dict[str, list[Any]]:
    """The same as plain data, with what query and key are called in front of the score."""
    made = {name: column.tolist() for name, column in columns(maps).items()}
    score = made.pop("score")
    for name, stream in (("query", maps.queries), ("key", maps.keys)):
        made[f"{name}_{stream.unit}"] = [stream.names[i] for i in made[name]]
    return {**made, "score": score}


def columns(maps: LayerMaps) -> dict[str, NDArray[Any]]:
    """The columns of `data_frame`."""
    scores = frames.numbers(maps.scores)
    names = ("layer", "query", "key") if scores.ndim == 3 else ("layer", "head", "query", "key")
    places = np.unravel_index(np.arange(scores.size), scores.shape)
    made = {n: p.astype(np.int32) for n, p in zip(names, places, strict=True)}
    for name, numbers in (("layer", maps.layer_numbers), ("query", maps.rows)):
        if numbers is not None:  # a part was computed: its own numbers
            made[name] = np.array(numbers, dtype=np.int32)[made[name]]
    return {**made, "score": scores.ravel()}
