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
from mixlens.view.labels import spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mixlens.results import Attribution, LayerMaps

_TOP = 6
_OPEN = 80  # tokens up to which the table of all is unfolded
_NAMED = 48  # tokens up to which a picture has its tokens beside it
_CELL = 15  # pixels a token there
_SIDE = 340  # pixels a picture otherwise; a browser that made it smaller would skip tokens
_PIXELS = 3_400_000  # of all pictures of a page, at most about two bytes each (light and dark) before compression


def attribution(attr: Attribution, path: str | os.PathLike[str] | None = None) -> str:
    """The page of an attribution; written to `path` if given. Raises ResultFileError."""
    shown = reading.parts(attr)
    page = fill(
        "attribution.html",
        **text(attr, shown),
        top=_bars([(" ".join(p.text.split()), p.score, p.special) for p in reading.ranked(shown, _TOP)]),
        tokens=_tokens(attr),
        unfolded=len(attr.tokens) <= _OPEN,
        layers=_layers(attr),
        facts=reading.provenance(attr),
    )
    return put(page, path)


def maps(maps: LayerMaps, path: str | os.PathLike[str] | None = None) -> str:
    """The page of layer maps, a picture a layer (heads averaged); written to `path` if given.

    Pictures are pooled (each dot the largest of k x k tokens) so far that a page stays under 10 MB; the page says so.
    Raises ResultFileError.
    """
    page = fill("maps.html", **_row(maps), **pictures(maps), facts=reading.provenance(maps))
    return put(page, path)


def fragment(result: Attribution | LayerMaps) -> str:
    """A piece of HTML for a notebook."""
    if hasattr(result, "aggregation"):  # layer maps; to ask for the class would import what imports this
        found = cast("LayerMaps", result)
        return fill("maps_fragment.html", **_row(found))
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
    environment.globals.update(number=reading.number, colours=reading.colours)
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
        "lines": [{"dir": way, "words": [_colored(p, scale) for p in line]} for way, line in reading.lines(shown)],
        "legend": _legend(scale),
        "heading": reading.heading(attr),
        "says": reading.says(attr),
        "warnings": reading.warnings(attr),
        "held": reading.held(shown),
        "special": len(reading.content(shown)) < len(shown),
        "goal": reading.asked(attr),
        "foil": None if attr.target is None or attr.target.foil is None else spelled(attr.target.foil),
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


def _tokens(attr: Attribution) -> dict[str, Any]:
    scores = reading.values(attr.scores).tolist()
    names = [" ".join(visible(t).split()) or "␣" for t in attr.display]
    return _bars(list(zip(names, scores, attr.special, strict=True)))


def _bars(rows: Sequence[tuple[str, float, bool]]) -> dict[str, Any]:
    """Rows (name, score, special) of a table with bars as long as the scores. Special tokens have none.

    They would leave no length for the others; their scores stand there as numbers.
    """
    alone = all(special for _, _, special in rows)
    scale = colors.scale([score for _, score, special in rows if alone or not special])
    return {"signed": scale.signed, "rows": [_bar(n, s, special, scale, alone) for n, s, special in rows]}


def _bar(name: str, score: float, special: bool, scale: colors.Scale, alone: bool) -> dict[str, Any]:
    width = 100 * abs(scale.share(score)) / (2 if scale.signed else 1) if alone or not special else 0
    left = 50 - width * (score < 0) if scale.signed else 0
    hue = "#" + (colors.SPECIAL if special else colors.strong(score))
    return {"name": name, "score": score, "special": special, "left": left, "width": width, "hue": hue}


def pictures(maps: LayerMaps, share: int = 1) -> dict[str, Any]:
    """A picture a layer with their legend and notes; `share`: how many maps a page has in all, for its size."""
    scores = reading.values(maps.scores)
    scores = scores.mean(1) if maps.heads else scores
    side = min(_SIDE, int((_PIXELS / share / len(scores)) ** 0.5))
    scores, k = pooled(scores, side)
    scale = colors.scale(scores.ravel())
    names, queries = reading.labels(maps, 14), reading.query_labels(maps, 14)
    named = k == 1 and max(scores.shape[1:]) <= _NAMED
    notes = ["mean over the heads"] if maps.heads else []
    notes += [f"each dot is the largest of {k} x {k} tokens"] if k > 1 else []
    return {
        "pictures": [
            {
                "name": f"layer {number}",
                **_png(panel, scale),
                "width": panel.shape[1] * _CELL if named else _SIDE,
                "height": panel.shape[0] * _CELL if named else round(_SIDE * panel.shape[0] / panel.shape[1]),
                "rows": queries if named and len(queries) == panel.shape[0] else [],
                "columns": names if named and len(names) == panel.shape[1] else [],
            }
            for number, panel in zip(reading.layers(maps), scores, strict=True)
        ],
        "legend": _legend(scale),
        "notes": notes,
    }


def _layers(attr: Attribution) -> dict[str, Any] | None:
    """The picture of an attribution's layers, of the words' tokens alone: others would leave them no colour."""
    if attr.layers is None:
        return None
    kept = [j for j, special in enumerate(attr.special) if not special] or list(range(len(attr.special)))
    names = reading.labels(attr, 14)
    rows = reading.values(attr.layers)[:, kept]
    return _by_layer(rows, [names[j] for j in kept], range(1, len(rows) + 1)) | {"all": len(kept) == len(names)}


def _row(maps: LayerMaps) -> dict[str, Any]:
    rows, name = reading.readout(maps)
    row = _by_layer(rows, reading.labels(maps, 14), reading.layers(maps))
    head = {"heading": reading.heading(maps), "says": reading.says(maps), "warnings": reading.warnings(maps)}
    return {"row": row, "row_name": name, **head}


def _by_layer(rows: Array, names: list[str], numbers: Sequence[int]) -> dict[str, Any]:
    """A picture layer x token, the first layer at the bottom."""
    layers, scale = rows.shape[0], colors.scale(rows.ravel())
    named = rows.shape[1] <= _NAMED and len(names) == rows.shape[1]
    return {
        "name": "layers (up) by tokens (across)",
        **_png(rows[::-1], scale),
        "width": rows.shape[1] * _CELL * 1.4 if named else max(720, rows.shape[1]),
        "height": layers * _CELL,
        "rows": [f"layer {number}" for number in reversed(numbers)],
        "columns": names if named else [],
        "legend": _legend(scale),
    }


def _png(panel: Array, scale: colors.Scale) -> dict[str, str]:
    """A picture with a pixel a score as data URIs for light and dark pages; its palette is the scale in 255 steps.

    An odd number, so that 0 is one of them.
    """
    low, high = scale.ends()
    levels = np.clip(np.round(254 * (panel - low) / ((high - low) or 1)), 0, 254).astype(np.uint8)
    image = Image.fromarray(levels).convert("P")
    uris = {}
    for name in ("light", "dark"):
        image.putpalette([c for step in scale.steps(255) for c in scale.rgb(step, dark=name == "dark")])
        out = io.BytesIO()
        image.save(out, "PNG", optimize=True)
        uris[name] = "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()
    return uris
