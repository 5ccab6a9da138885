"""Pages and notebook output: whole in one file, no script, nothing from the network, everything escaped.

A page follows the reader's light or dark setting and prints in the light one. A fragment (what a notebook shows) has
inline styles on its own white ground and no ids or style sheet, so that any number of them can stand in one document.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from mixlens.escape import visible
from mixlens.files import put
from mixlens.view import colors, reading
from mixlens.view.heatmaps import Array, pooled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.results import Attribution, LayerMaps

_TOP = 6
_OPEN = 80  # tokens up to which the table of all is unfolded
_NAMED = 48  # tokens up to which a picture has its tokens beside it
_CELL = 15  # pixels a token there
_SIDE = 340  # pixels a picture otherwise; a browser that made it smaller would skip tokens
_PIXELS = 5_000_000  # of all pictures of a page, at most about one byte each before compression


def attribution(attr: Attribution, path: str | os.PathLike[str] | None = None) -> str:
    """The page of an attribution; written to `path` if given. Raises ResultFileError."""
    shown = reading.parts(attr)
    layers = None
    if attr.layers is not None:
        layers = _by_layer(reading.values(attr.layers), reading.labels(attr, 14), range(1, len(attr.layers) + 1))
    page = fill(
        "attribution.html",
        **text(attr, shown),
        top=_rows(reading.ranked([p for p in shown if not p.special] or shown, _TOP), shown),
        tokens=_tokens(attr),
        unfolded=len(attr.tokens) <= _OPEN,
        layers=layers,
        facts=reading.provenance(attr),
    )
    return put(page, path)


def maps(maps: LayerMaps, path: str | os.PathLike[str] | None = None) -> str:
    """The page of layer maps, a picture a layer (heads averaged); written to `path` if given.

    Pictures are pooled (each dot the largest of k x k tokens) so far that a page stays under 10 MB; the page says so.
    Raises ResultFileError.
    """
    page = fill("maps.html", **_pictures(maps), facts=reading.provenance(maps))
    return put(page, path)


def fragment(result: Attribution | LayerMaps) -> str:
    """A piece of HTML for a notebook."""
    if hasattr(result, "aggregation"):  # layer maps; to ask for the class would import what imports this
        found = cast("LayerMaps", result)
        return fill("maps_fragment.html", **_row(found), heading=reading.heading(found))
    shown = reading.parts(result)
    return fill("attribution_fragment.html", **text(result, shown), tokens=_tokens(result))


@cache
def _environment() -> Environment:
    # autoescape for every template, whatever its name
    environment = Environment(
        loader=PackageLoader("mixlens.view"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
    )
    environment.globals["number"] = reading.number
    return environment


def fill(template: str, **values: Any) -> str:
    """A template with its values, everything escaped."""
    return _environment().get_template(template).render(**values)


def uri(drawn: Figure) -> str:
    """A figure as a data URI."""
    out = io.BytesIO()
    drawn.savefig(out, format="png", dpi=110, metadata={"Software": "mixlens"})
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def text(attr: Attribution, shown: list[reading.Part]) -> dict[str, Any]:
    """What a template needs to show the coloured text."""
    scale = reading.scale(shown)
    return {
        "words": [_colored(p, scale) for p in shown],
        "legend": _legend(scale),
        "heading": reading.heading(attr),
        "goal": visible(reading.goal(attr) or ""),
        "specific": attr.meta.get("class_specific") is not False,
        "words_known": attr.offsets is not None,
        "dropped": attr.source.dropped,
    }


def _colored(part: reading.Part, scale: colors.Scale) -> dict[str, Any]:
    s = part.score
    return {
        "part": part,
        "light": ("#" + scale.hex(s), "#" + scale.ink(s)),
        "dark": ("#" + scale.hex(s, dark=True), "#" + scale.ink(s, dark=True)),
    }


def _legend(scale: colors.Scale) -> dict[str, Any]:
    steps = scale.steps(13)
    return {
        "signed": scale.signed,
        "low": reading.number(scale.ends()[0]),
        "high": reading.number(scale.ends()[1]),
        "light": ", ".join(f"#{scale.hex(s)}" for s in steps),
        "dark": ", ".join(f"#{scale.hex(s, dark=True)}" for s in steps),
    }


def _rows(some: Sequence[reading.Part], shown: Sequence[reading.Part]) -> list[dict[str, Any]]:
    """Rows of a table with bars; all bars of a page have the same length for the same score."""
    scale = colors.scale([p.score for p in shown])
    return [_row_of(" ".join(p.text.split()), p.score, p.special, scale) for p in some]


def _tokens(attr: Attribution) -> list[dict[str, Any]]:
    scores = reading.values(attr.scores).tolist()
    scale = colors.scale(scores)
    names = [" ".join(visible(t).split()) or "␣" for t in attr.display]
    return [_row_of(n, s, p, scale) for n, s, p in zip(names, scores, attr.special, strict=True)]


def _row_of(name: str, score: float, special: bool, scale: colors.Scale) -> dict[str, Any]:
    width = 100 * abs(scale.share(score)) / (2 if scale.signed else 1)
    left = 50 - width * (score < 0) if scale.signed else 0
    hue = "#" + (colors.SPECIAL if special else colors.strong(score))
    return {"name": name, "score": score, "special": special, "left": left, "width": width, "hue": hue}


def _pictures(maps: LayerMaps) -> dict[str, Any]:
    scores = reading.values(maps.scores)
    scores = scores.mean(1) if maps.heads else scores
    side = min(_SIDE, int((_PIXELS / len(scores)) ** 0.5))
    scores, k = pooled(scores, side)
    scale = colors.scale(scores.ravel())
    names, queries = reading.labels(maps, 14), reading.query_labels(maps, 14)
    named = k == 1 and max(scores.shape[1:]) <= _NAMED
    notes = ["mean over the heads"] if maps.heads else []
    notes += [f"each dot is the largest of {k} x {k} tokens"] if k > 1 else []
    return _row(maps) | {
        "pictures": [
            {
                "name": f"layer {number}",
                "uri": _png(panel, scale),
                "width": panel.shape[1] * _CELL if named else _SIDE,
                "height": panel.shape[0] * _CELL if named else round(_SIDE * panel.shape[0] / panel.shape[1]),
                "rows": queries if named and len(queries) == panel.shape[0] else [],
                "columns": names if named and len(names) == panel.shape[1] else [],
            }
            for number, panel in zip(reading.layers(maps), scores, strict=True)
        ],
        "legend": _legend(scale),
        "notes": notes,
        "heading": reading.heading(maps),
    }


def _row(maps: LayerMaps) -> dict[str, Any]:
    rows, name = reading.readout(maps)
    return {"row": _by_layer(rows, reading.labels(maps, 14), reading.layers(maps)), "row_name": name}


def _by_layer(rows: Array, names: list[str], numbers: Sequence[int]) -> dict[str, Any]:
    """A picture layer x token, the first layer at the bottom."""
    layers, scale = rows.shape[0], colors.scale(rows.ravel())
    named = rows.shape[1] <= _NAMED and len(names) == rows.shape[1]
    return {
        "name": "layers (up) by tokens (across)",
        "uri": _png(rows[::-1], scale),
        "width": rows.shape[1] * _CELL * 1.4 if named else max(720, rows.shape[1]),
        "height": layers * _CELL,
        "rows": [f"layer {number}" for number in reversed(numbers)],
        "columns": names if named else [],
        "legend": _legend(scale),
    }


def _png(panel: Array, scale: colors.Scale) -> str:
    """A picture with a pixel a score, 256 steps of the scale as its palette, as a data URI."""
    low, high = scale.ends()
    levels = np.clip(np.round(255 * (panel - low) / ((high - low) or 1)), 0, 255).astype(np.uint8)
    image = Image.fromarray(levels).convert("P")
    image.putpalette([c for step in scale.steps(256) for c in scale.rgb(step)])
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
