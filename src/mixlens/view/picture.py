"""An `Attribution` of a picture: as a page, a figure, a notebook's piece and a terminal's grid."""

from __future__ import annotations

import os
from typing import Any

from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.text import Text

from mixlens.capture.picture import Picture
from mixlens.files import put
from mixlens.view.kit import arrays, caption, figures, html, terminal, words
from mixlens.view.kit import picture as kit
from mixlens.view.kit.drawn import Attribution
from mixlens.view.kit.style import points, refuse_cmap, usual_map

_TOP = 8
_OPEN = 80
_WIDTH = 7.0  # inches
_LAYERS = 140  # pixels of a layer's picture


def page(attr: Attribution, path: str | os.PathLike[str] | None = None) -> str:
    """The page of a picture's attribution; written to `path` if given. Raises ResultFileError."""
    shown = words.parts(attr)
    top = html.bars([(p.text, p.score, p.special) for p in words.ranked(shown, _TOP)])
    tokens = html.bars(list(zip(attr.display, arrays.values(attr.scores).tolist(), attr.special, strict=True)))
    text = html.page(
        "picture.html",
        **_drawn(attr, shown),
        top=top,
        tokens=tokens,
        unfolded=len(attr.tokens) <= _OPEN,
        layers=_layers(attr),
        facts=caption.provenance(attr),
    )
    return put(text, path)


def fragment(attr: Attribution) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("picture_fragment.html", **_drawn(attr, words.parts(attr)))


def picture_of(attr: Attribution) -> Picture:
    """The picture that is explained."""
    assert isinstance(attr.source, Picture)
    return attr.source


def heat(attr: Attribution) -> str | None:
    """The picture with its heat as a data URI; None of what is no picture."""
    if not isinstance(attr.source, Picture):
        return None
    scores = arrays.values(attr.scores)
    return kit.uri(kit.heat(attr.source, scores, kit.scale(attr.source, scores)))


def cells(attr: Attribution) -> Text | None:
    """Its patches as rows of a terminal; None of what is no picture."""
    if not isinstance(attr.source, Picture):
        return None
    scores = arrays.values(attr.scores)
    return kit.grid(attr.source, scores, kit.scale(attr.source, scores))


def _drawn(attr: Attribution, shown: list[words.Part]) -> dict[str, Any]:
    """What a template needs to show the picture, as it came and with its heat."""
    picture, scores = picture_of(attr), arrays.values(attr.scores)
    hues = kit.scale(picture, scores)
    drawn = kit.heat(picture, scores, hues)
    return {
        "heading": caption.heading(attr),
        "says": caption.says(attr),
        "warnings": caption.warnings(attr),
        "goal": caption.goal(attr),
        "specific": attr.meta.get("class_specific") is not False,
        "plain": kit.uri(kit.enlarged(picture.image)),
        "heat": kit.uri(drawn),
        "width": drawn.size[0],
        "height": drawn.size[1],
        "legend": html.legend(hues),
        "held": words.held(shown, picture.units),
        "where": _where(picture),
    }


def _where(picture: Picture) -> str:
    rows, columns = picture.grid
    size = f"{picture.size[0]} x {picture.size[1]} pixels, {rows} x {columns} patches"
    return size if picture.places is not None else f"{size}; where a patch is in the picture is not known"


def _layers(attr: Attribution) -> list[dict[str, Any]]:
    """A picture a layer; none where a method has no scores of each."""
    if attr.layers is None:
        return []
    picture, rows = picture_of(attr), arrays.values(attr.layers)
    out = []
    for number, row in enumerate(rows, 1):
        drawn = kit.heat(picture, row, kit.scale(picture, row))
        drawn.thumbnail((2 * _LAYERS, 2 * _LAYERS))
        out.append({"name": f"layer {number}", "heat": kit.uri(drawn), "width": _LAYERS})
    return out


def printout(attr: Attribution) -> RenderableType:
    """A grid of the patches, in percent of the largest score, on their colours."""
    picture, scores = picture_of(attr), arrays.values(attr.scores)
    hues = kit.scale(picture, scores)
    notes = ["percent of the largest size"] if picture.grid[1] <= 20 else []
    held = words.held(words.parts(attr), picture.units)
    if hues.signed and attr.target is not None:
        notes.append(words.colours(True, attr.meta.get("class_specific") is not False))
    if held:
        notes.append(f"{held} and are not shown")
    return Group(*terminal.head(attr), kit.grid(picture, scores, hues), terminal.legend(hues, notes))


def figure(attr: Attribution) -> Figure:
    """The picture, and beside it the same with its heat."""
    picture, scores = picture_of(attr), arrays.values(attr.scores)
    hues = kit.scale(picture, scores)
    drawn = kit.heat(picture, scores, hues)
    says = caption.says(attr)
    width, height = drawn.size
    title = caption.heading(attr) + (f"\n{says}" if says else "")
    figures.refuse_ax("two")
    refuse_cmap("a picture")
    drawing, whole = figures.canvas(_WIDTH, min(0.45 * _WIDTH * height / width, 12.0) + 0.9, title)
    whole.remove()
    both = drawing.subplots(1, 2)
    for axes, image in zip(both, (kit.enlarged(picture.image), drawn), strict=True):
        axes.imshow(image, interpolation="nearest")
        axes.set_axis_off()
    low, high = hues.ends()
    ramp = ScalarMappable(Normalize(low, high or 1.0), usual_map(hues.signed))
    bar = drawing.colorbar(ramp, ax=both, orientation="horizontal", aspect=40)
    bar.set_label("score of a patch", fontsize=points(8))
    bar.ax.tick_params(labelsize=points(8))
    return drawing
