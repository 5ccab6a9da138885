"""An explained data set as a page, a terminal's text and a pandas table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mixlens.escape import visible
from mixlens.files import PathLike, put
from mixlens.view import attribution
from mixlens.view.kit import caption, colors, frames, html, spelling, words
from mixlens.view.kit.drawn_explained import Explained, WordScore, WordTable

if TYPE_CHECKING:
    import pandas

_BINS = 20  # of the histogram
_CLASSES = 12  # that have a table: those of most texts
_VALUES = 12  # of a column, likewise
_EXAMPLES = 3  # texts of a class
_LISTED = 100  # failures on a page
_LABELS = 200  # gold labels that are looked at
_TOP = 8  # words of a class in a terminal


@dataclass
class Counts:
    """What a pass over the texts counts. By class: texts, the sum of probabilities, texts whose gold label it is."""

    texts: Counter[str | None] = field(default_factory=Counter)
    probability: dict[str | None, float] = field(default_factory=dict)
    known: Counter[str | None] = field(default_factory=Counter)
    labelled: Counter[str | None] = field(default_factory=Counter)
    right: Counter[str | None] = field(default_factory=Counter)
    labels: set[str] = field(default_factory=set)  # gold ones, up to a few hundred
    bins: list[int] = field(default_factory=lambda: [0] * _BINS)
    first: dict[str | None, int] = field(default_factory=dict)  # a text of the class
    values: Counter[str] = field(default_factory=Counter)  # of the column `by`


def counts_of(explained: Explained, by: str | None) -> Counts:
    """One pass over the texts."""
    counts = Counts()
    names = ("row", "target", "probability", "label", *(() if by is None else ("data",)))
    for text in explained.columns(*names):
        target, label, p = text["target"], text["label"], text["probability"]
        counts.texts[target] += 1
        counts.first.setdefault(target, text["row"])
        if by is not None:
            value = text["data"].get(by)
            counts.values["none" if value is None else str(value)] += 1
        if label is not None:
            counts.labelled[target] += 1
            counts.right[target] += label == target
            if len(counts.labels) < _LABELS:
                counts.labels.add(label)
        if p is not None:
            counts.known[target] += 1
            counts.probability[target] = counts.probability.get(target, 0.0) + p
            counts.bins[min(int(p * _BINS), _BINS - 1)] += 1
    return counts


def page(explained: Explained, path: PathLike | None, *, top: int, by: str | None, seed: int) -> str:
    """The page; written to `path` if given. Raises UnknownOption, ResultFileError."""
    counts = counts_of(explained, by)
    table = explained.words(seed=seed)
    classes = [name for name, _ in counts.texts.most_common(_CLASSES)]
    chosen = {name: _chosen(table.of(name), counts.first[name]) for name in classes}
    attributions = explained.attributions([row for rows in chosen.values() for row, _ in rows])
    first = next(iter(attributions.values()), None)
    signed = first is not None and any(float(a.scores.min()) < 0 for a in attributions.values())
    specific = first is not None and first.meta.get("class_specific") is not False
    failures = explained.failures
    text = html.page(
        "explained.html",
        heading=_heading(explained),
        count=len(explained),
        failed=len(failures),
        failures=[(f.row, f.id, f.error) for f in failures[:_LISTED]],
        unfinished=not explained.finished,
        specific=specific,
        signed=signed,
        legend=html.legend(colors.Scale(1.0, signed)),
        counts=_counts(counts, explained.manifest["classes"]),
        labelled=_labelled(counts, explained.manifest["classes"]),
        histogram=_histogram(counts.bins),
        classes=[
            {
                "name": _name(name),
                "texts": counts.texts[name],
                "words": _words(table.of(name)[:top]),
                "some": any(w.stands_out and w.excess > 0 for w in table.of(name)),
                "examples": [_example(attributions[row], row, why) for row, why in chosen[name] if row in attributions],
            }
            for name in classes
        ],
        more_classes=len(counts.texts) - len(classes),
        level=spelling.number(100 * table.level),
        least=3,
        tested=table.tested,
        left_out=table.left_out,
        by=by,
        split=[] if by is None else _split(explained, by, counts, classes, top, seed),
        more_values=max(0, len(counts.values) - _VALUES),
        facts=_facts(explained, first),
    )
    return put(text, path)


def printout(explained: Explained) -> RenderableType:
    """How many texts of which class, and the words of each that stand out."""
    counts, table = counts_of(explained, None), explained.words()
    out = Table(box=SIMPLE, pad_edge=False)
    out.add_column(Text("class"))
    out.add_column(Text("texts"), justify="right")
    out.add_column(Text("words that stand out (mean score)"))
    for name, texts in counts.texts.most_common(_CLASSES):
        best = [w for w in table.of(name) if w.stands_out and w.excess > 0][:_TOP]
        told = ", ".join(f"{w.word} ({spelling.number(w.mean)})" for w in best) or "none"
        out.add_row(Text(_name(name)), Text(f"{texts:,}"), Text(told))
    return Group(Text(_heading(explained), style="bold"), out)


def data_frame(explained: Explained) -> pandas.DataFrame:
    """A row a text; the data's other columns under their names, behind `data.` where there is such a name already.

    Raises MissingExtra.
    """
    pd = frames.pandas_module()
    columns = ("id", "row", "text", "target", "probability", "prediction", "label", "tokens", "scores", "words")
    rows = []
    for text in explained:
        row = {name: getattr(text, name) for name in columns}
        others = {k: value for k, value in text.data.items() if k != "label"}  # (which stands there already)
        rows.append(row | {(f"data.{k}" if k in columns else k): value for k, value in others.items()})
    frame = pd.DataFrame(rows, columns=None if rows else columns)
    frame.attrs |= {"method": explained.method, "model": explained.manifest["model"]["name"]}
    return frame


def words_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pandas.DataFrame:
    """A row a word. Raises MissingExtra."""
    return frames.pandas_module().DataFrame(rows, columns=list(columns))


def _name(target: str | None) -> str:
    return "no target" if target is None else spelling.spelled(target)


def _heading(explained: Explained) -> str:
    manifest = explained.manifest
    count = f"{len(explained):,} text{'s' * (len(explained) != 1)} of {manifest['data']['name']}"
    return visible(f"{explained.method} · {count} · model {manifest['model']['name']}")


def _counts(counts: Counts, classes: Sequence[str]) -> list[dict[str, Any]]:
    total = sum(counts.texts.values())
    labelled = _labelled(counts, classes)
    return [
        {
            "name": _name(name),
            "texts": texts,
            "share": 100 * texts / total,
            "probability": spelling.probability(counts.probability[name] / counts.known[name])
            if counts.known[name]
            else "-",
            "right": f"{counts.right[name]} of {counts.labelled[name]}" if labelled and counts.labelled[name] else "-",
        }
        for name, texts in counts.texts.most_common(_CLASSES)
    ]


def _labelled(counts: Counts, classes: Sequence[str]) -> bool:
    """Whether there are gold labels, and they are classes of the model."""
    return bool(counts.labels) and counts.labels <= set(classes)


def _histogram(bins: Sequence[int]) -> dict[str, Any] | None:
    """Bars of the probabilities from the first bin that is not empty; None where there are none."""
    if not any(bins):
        return None
    first = next(i for i, count in enumerate(bins) if count)
    first = min(first, _BINS // 2)
    most = max(bins)
    bars = [
        {"from": f"{i / _BINS:.2f}", "to": f"{(i + 1) / _BINS:.2f}", "count": bins[i], "height": 100 * bins[i] / most}
        for i in range(first, _BINS)
    ]
    return {"bars": bars, "low": bars[0]["from"], "high": "1.00", "most": most}


def _chosen(table: Sequence[WordScore], first: int) -> list[tuple[int, str | None]]:
    """Rows of texts to show of a class: where its first words have their highest score, else any."""
    out: dict[int, str | None] = {}
    for word in table:
        if word.excess > 0 and len(out) < _EXAMPLES:
            out.setdefault(word.example, word.word)
    return list((out or {first: None}).items())


def _example(attr: Any, row: int, why: str | None) -> dict[str, Any]:
    shown = words.parts(attr)
    values = html.text(attr, shown)
    return {
        "row": row,
        "why": why,
        "lines": values["lines"],
        "says": caption.says(attr),
        "data": attribution.data(attr),
    }


def _words(table: Sequence[WordScore]) -> dict[str, Any] | None:
    """Rows of words with bars: the mean as length, a line for its interval and a mark for what chance gives."""
    if not table:
        return None
    ends = [value for w in table for value in (w.mean, w.low, w.high, w.null)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    width = (high - low) or 1.0
    number = spelling.column(ends)

    def at(value: float) -> float:
        return round(100 * (value - low) / width, 1)

    rows = [
        {
            "word": w.word,
            "mean": number(w.mean),
            "interval": f"{number(w.low)} to {number(w.high)}",
            "null": number(w.null),
            "texts": w.texts,
            "out": "above" if w.stands_out and w.excess > 0 else "below" if w.stands_out else "",
            "left": min(at(0), at(w.mean)),
            "width": abs(at(w.mean) - at(0)),
            "low": at(w.low),
            "span": round(at(w.high) - at(w.low), 1),
            "chance": at(w.null),
            "hue": f"#{colors.strong(w.mean) if w.stands_out else colors.SPECIAL}",
        }
        for w in table
    ]
    return {"rows": rows}


def _split(
    explained: Explained, by: str, counts: Counts, classes: Sequence[str | None], top: int, seed: int
) -> list[dict[str, Any]]:
    """A value of the column: its classes with their words."""
    table: WordTable = explained.words(by=by, seed=seed)
    out = []
    for value, texts in counts.values.most_common(_VALUES):
        tables = [{"name": _name(name), "words": _words(table.of(name, value)[:top])} for name in classes]
        out.append({"value": value, "texts": texts, "classes": [t for t in tables if t["words"]]})
    return sorted(out, key=lambda entry: place(entry["value"]))


def place(value: str) -> tuple[float, str]:
    """Where a value of a column stands: numbers by size, then the rest by name."""
    try:
        number = float(value)
    except ValueError:
        return math.inf, value
    return math.inf if math.isnan(number) else number, value


def _facts(explained: Explained, first: Any) -> list[tuple[str, str]]:
    m = explained.manifest
    pairs = {
        "method": explained.method,
        "options": spelling.value_text(m["options"]),
        "target": "prediction" if m["target"] is None else spelling.value_text(m["target"]),
        "model": f"{m['model']['name']} ({m['model']['class']}, {m['model']['dtype']}, {m['model']['device']})",
        "weights": m["model"]["weights"][:16],
        "data": f"{m['data']['name']}, {len(explained):,} texts",
        "self check": "-" if first is None else spelling.value_text(first.meta.get("self_check")),
        **m["versions"],
    }
    return [(name, visible(str(value))) for name, value in pairs.items()]
