"""A `Comparison` as a page, a figure, LaTeX, a terminal's and a pandas table. Each method has its own colour scale."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mixlens.capture.picture import Picture
from mixlens.escape import visible
from mixlens.files import put
from mixlens.measure.ranks import rank_correlation
from mixlens.view import attribution, maps, picture
from mixlens.view.kit import arrays, caption, colors, frames, html, latex, packed, pieces, spelling, terminal, words
from mixlens.view.kit.drawn import Comparison

if TYPE_CHECKING:
    import pandas


_FAITHFUL = (
    "faithful: how much faster the answer goes as the method's highest {units} are taken out; 0: as by chance, 1: as "
    "by the best order found, by these methods or a search"
)
_NOTE = "each method has its own colours: they compare within a row, not between rows"


def printout(comparison: Comparison) -> RenderableType:
    """A row a method: its name, the text on its colours, the largest word."""
    rated = bool(comparison.faithfulness)
    out = Table("method", *(["faithful"] if rated else []), "text", "largest", box=SIMPLE, pad_edge=False)
    out.columns[0].no_wrap = True
    for name, attr in comparison.attributions.items():
        shown = words.parts(attr)
        (top,) = words.ranked(shown, 1)
        largest = Text(f"{' '.join(top.text.split())} {spelling.number(top.score)}")
        ratings = [Text(rating_text(comparison, name))] if rated else []
        out.add_row(Text(name), *ratings, picture.cells(attr) or terminal.running(shown, words.scale(shown)), largest)
    notes = [Text(f"{name}: {reason}", style="dim") for name, reason in comparison.skipped.items()]
    about = [Text(_FAITHFUL, style="dim")] if rated else []
    says = caption.says(comparison.first)
    head: list[RenderableType] = [Text(heading(comparison), style="bold"), *([Text(says)] if says else [])]
    head += terminal.warnings(*comparison.attributions.values())
    return Group(*head, out, Text(_note(comparison), style="dim"), *about, *notes)


def page(comparison: Comparison, path: str | os.PathLike[str] | None = None) -> str:
    """The page; written to `path` if given. Raises ResultFileError."""
    behind = {name: maps.pictures(layers, len(comparison.maps)) for name, layers in comparison.maps.items()}
    out = html.page(
        "comparison.html",
        **_values(comparison),
        maps=behind,
        agreed=agreed(comparison),
        data=_data(comparison),
        wide=True,
        unit=comparison.first.source.unit,
        kind=caption.kind(comparison.first),
        facts=_facts(comparison),
    )
    return put(out, path)


def agreement(comparison: Comparison) -> list[list[float]]:
    """Spearman's rho of each two methods over the words (special tokens left out); NaN where one is constant."""
    rows = [np.array([p.score for p in words.content(words.parts(a))]) for a in comparison.attributions.values()]
    return [[rank_correlation(a, b) for b in rows] for a in rows]


def agreed(comparison: Comparison) -> list[dict[str, Any]]:
    """The rows of the table of agreements: of each cell its text and its colours."""
    scale = colors.Scale(1.0, True)
    return [
        {"name": name, "cells": [{"text": spelling.signed(v), **html.hues(scale, v)} for v in row]}
        for name, row in zip(comparison.attributions, agreement(comparison), strict=True)
    ]


def _data(comparison: Comparison) -> str | None:
    """What the page's script is given; None of pictures, which stay as they are drawn."""
    source = comparison.first.source
    if isinstance(source, Picture):
        return None
    rated = comparison.faithfulness
    head = {
        "kind": "comparison",
        "text": pieces.facts(source, word=pieces.words(source), token=pieces.tokens(source)),
        "methods": [
            {"name": visible(name), "rating": _rating(comparison, name), "shown": rating_text(comparison, name)}
            for name in comparison.attributions
        ],
        "agreement": [[v if math.isfinite(v) else None for v in row] for row in agreement(comparison)],
        "rated": bool(rated),
        "note": _faithful(comparison) if rated else "",
        "colors": colors.arms(),
    }
    return packed.pack(head, {"scores": np.stack([arrays.values(a.scores) for a in comparison.attributions.values()])})


def tex(comparison: Comparison) -> str:
    """A tabular, a row a method: its name, its faithfulness, the text on its colours. Everything is escaped."""
    rated = bool(comparison.faithfulness)
    rows = []
    for name, attr in comparison.attributions.items():
        shown = words.parts(attr)
        ratings = [rating_text(comparison, name)] if rated else []
        text = latex.running(shown, words.scale(shown))
        rows.append([latex.escape(name), *ratings, rf"{{\raggedright {text}\par}}"])
    says = caption.says(comparison.first)
    notes = [
        *([says] if says else []),
        _note(comparison),
        *([_FAITHFUL] if rated else []),
        *(f"not shown: {k}: {v}" for k, v in comparison.skipped.items()),
    ]
    lines = [
        r"% needs \usepackage[T1]{fontenc}, \usepackage{booktabs} and \usepackage{xcolor}; XeLaTeX or LuaLaTeX for text"
        " beyond Latin scripts",
        *(f"% {latex.comment(note)}" for note in (f"mixlens: {heading(comparison)}", *notes)),
        r"{\setlength{\fboxsep}{1.5pt}",
        *latex.tabular(
            ["method", *(["faithful"] if rated else []), "text"],
            rows,
            "l" + "r" * rated + r"p{0.7\linewidth}",
        ),
    ]
    return "\n".join([*lines, "}", ""])


def fragment(comparison: Comparison) -> str:
    """A piece of HTML for a notebook."""
    return html.fill("comparison_fragment.html", **_values(comparison))


def data_frame(comparison: Comparison) -> pandas.DataFrame:
    """A row a token, a column a method, beside token, start, end and special. Raises MissingExtra."""
    base = attribution.data_frame(comparison.first).drop(columns="score")
    for name, attr in comparison.attributions.items():
        base[name] = frames.numbers(attr.scores)
    base.attrs.pop("method", None)
    return base


def _values(comparison: Comparison) -> dict[str, Any]:
    rows = [
        {
            "name": name,
            "rating": rating_text(comparison, name),
            "heat": picture.heat(attr),
            **html.text(attr, words.parts(attr)),
        }
        for name, attr in comparison.attributions.items()
    ]
    rated = bool(comparison.faithfulness)
    note = f"{_note(comparison)}; {_faithful(comparison)}" if rated else _note(comparison)
    shared: dict[str, Any] = {
        "heading": heading(comparison),
        "says": caption.says(comparison.first),
        "skipped": dict(comparison.skipped),
    }
    shared["warnings"] = caption.warnings(*comparison.attributions.values())
    return {"rows": rows, "rated": rated, "note": note, **shared}


def _faithful(comparison: Comparison) -> str:
    """What faithfulness is, of what is taken out here."""
    return _FAITHFUL.format(units=comparison.first.source.units)


def _note(comparison: Comparison) -> str:
    """How to read the colours that are there."""
    signed = any(words.scale(words.parts(attr)).signed for attr in comparison.attributions.values())
    return _NOTE + ("; blue speaks against" if signed else "")


def _rating(comparison: Comparison, name: str) -> float | None:
    rating = comparison.faithfulness.get(name)
    return None if rating is None or math.isnan(rating.value) else rating.value


def rating_text(comparison: Comparison, name: str) -> str:
    """A method's faithfulness; a dash where there is none."""
    rating = _rating(comparison, name)
    return "-" if rating is None else f"{rating:.2f}"


def heading(comparison: Comparison) -> str:
    """How many methods, the target and the model."""
    count = len(comparison.attributions)
    return " · ".join([f"{count} method{'' if count == 1 else 's'}", *caption.about(comparison.first)])


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    shared = [(k, v) for k, v in caption.provenance(comparison.first) if k in _SHARED]
    return shared + [(f"not shown: {name}", visible(reason)) for name, reason in comparison.skipped.items()]


_SHARED = (
    "target", "model", "prediction", "probability", "target probability", "foil probability", "architecture",
    "dtype", "mixlens", "torch", "transformers",
)  # fmt: skip
