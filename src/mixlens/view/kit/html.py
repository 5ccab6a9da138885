"""Pages and notebook output: whole in one file, nothing from the network, everything escaped.

A page follows the reader's light or dark setting and prints in the light one. Its script (`explorer/`) takes the place
of what stands in `class="static"`, which is what a browser without it shows, and what is printed. A fragment (what a
notebook shows) has no script, inline styles on its own white ground and no ids or style sheet, so that any number of
them can stand in one document.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from mixlens.escape import visible
from mixlens.view.kit import caption, colors, sealed, spelling, words
from mixlens.view.kit.arrays import Array
from mixlens.view.kit.drawn import Attribution
from mixlens.view.kit.spelling import spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NAMED = 48  # tokens up to which a picture has its tokens beside it
CELL = 15  # pixels a token there


@cache
def _environment(room: str) -> Environment:
    # autoescape for every template, whatever its name
    environment = Environment(
        loader=PackageLoader(room),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
    )
    environment.globals.update(number=spelling.number, colours=words.colours)
    return environment


def fill(template: str, room: str = "mixlens.view", /, **values: Any) -> str:
    """A template of a room with its values, everything escaped."""
    return _environment(room).get_template(template).render(**values)


def page(template: str, room: str = "mixlens.view", /, **values: Any) -> str:
    """A page of its own: its style sheet, its script (where it has `data`), the policy that allows these alone."""
    parts = {"policy": sealed.POLICY, "style": sealed.style(), "script": sealed.script()}
    return sealed.sealed(fill(template, room, **parts, **{"wide": False, **values}))


def uri(drawn: Figure) -> str:
    """A figure as a data URI."""
    out = io.BytesIO()
    drawn.savefig(out, format="png", dpi=110, metadata={"Software": "mixlens"})
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def text(attr: Attribution, shown: list[words.Part]) -> dict[str, Any]:
    """What a template needs to show the coloured text."""
    scale = words.scale(shown)
    return {
        "lines": [
            {"dir": direction, "words": [_colored(p, scale) for p in line]} for direction, line in words.lines(shown)
        ],
        "legend": legend(scale),
        "heading": caption.heading(attr),
        "says": caption.says(attr),
        "warnings": caption.warnings(attr),
        "held": words.held(shown, attr.source.units),
        "special": len(words.content(shown)) < len(shown),
        "goal": caption.named(attr),
        "foil": None if attr.target is None or attr.target.foil is None else spelled(attr.target.foil),
        "specific": attr.meta.get("class_specific") is not False,
        "words_known": attr.source.has_words,
        "unit": attr.source.unit,
        "units": attr.source.units,
        "of_text": attr.source.unit == "token",
        "dropped": attr.source.dropped,
    }


def _colored(part: words.Part, scale: colors.Scale) -> dict[str, Any]:
    return {"part": part, "class": "word" + mark(scale.share(part.score)), **hues(scale, part.score)}


def hues(scale: colors.Scale, score: float) -> dict[str, tuple[str, str]]:
    """Ground and ink of a score on light and on dark pages."""
    return {
        name: ("#" + scale.hex(score, dark=name == "dark"), "#" + scale.ink(score, dark=name == "dark"))
        for name in ("light", "dark")
    }


def mark(share: float) -> str:
    """The classes of a word's underline, which says by its weight and its dashes what the colour says."""
    weight = min(4, math.ceil(4 * abs(share) - 0.4))  # none for next to nothing
    return f" u{weight}" + " minus" * (share < 0) if weight > 0 else ""


def legend(scale: colors.Scale) -> dict[str, Any]:
    """What a template needs to show a colour scale."""
    steps = scale.steps(13)
    return {
        "signed": scale.signed,
        "low": spelling.number(scale.ends()[0]),
        "high": spelling.number(scale.ends()[1]),
        "light": ", ".join(f"#{scale.hex(s)}" for s in steps),
        "dark": ", ".join(f"#{scale.hex(s, dark=True)}" for s in steps),
    }


def bars(rows: Sequence[tuple[str, float, bool]]) -> dict[str, Any]:
    """Rows (name, score, special) of a table with bars as long as the scores. Special tokens have none.

    They would leave no length for the others; their scores stand there as numbers, which have the places of the others.
    """
    alone = all(special for _, _, special in rows)
    drawn = [score for _, score, special in rows if alone or not special]
    scale, spell = colors.scale(drawn), spelling.column(drawn)
    shown = [{"shown": spell(s), **_bar(n, s, special, scale, alone)} for n, s, special in rows]
    return {"signed": scale.signed, "rows": shown}


def _bar(name: str, score: float, special: bool, scale: colors.Scale, alone: bool) -> dict[str, Any]:
    width = 100 * abs(scale.share(score)) / (2 if scale.signed else 1) if alone or not special else 0
    left = 50 - width * (score < 0) if scale.signed else 0
    hue = "#" + (colors.SPECIAL if special else colors.strong(score))
    return {"name": name, "score": score, "special": special, "left": left, "width": width, "hue": hue}


def by_layer(rows: Array, names: list[str], numbers: Sequence[int], units: str = "tokens") -> dict[str, Any]:
    """A picture layer x token, the first layer at the bottom."""
    layers, scale = rows.shape[0], colors.scale(rows.ravel())
    named = rows.shape[1] <= NAMED and len(names) == rows.shape[1]
    return {
        "name": f"layers (up) by {units} (across)",
        **png(rows[::-1], scale),
        "width": rows.shape[1] * CELL * 1.4 if named else max(720, rows.shape[1]),
        "height": layers * CELL,
        "rows": [f"layer {number}" for number in reversed(numbers)],
        "columns": names if named else [],
        "legend": legend(scale),
    }


def png(panel: Array, scale: colors.Scale) -> dict[str, str]:
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
