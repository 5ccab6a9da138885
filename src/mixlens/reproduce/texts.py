"""One kind of page for all pictures of single texts: a text's scores by several methods, its maps, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mixlens.reproduce.findings import Findings, Method, Number, Panel, Values
from mixlens.reproduce.study import Study
from mixlens.target import Target


@dataclass(frozen=True)
class Map:
    """What is drawn of a text: a mixing method's maps as they are ("each"), rolled out, or as flow.

    `row`: a grid of whole maps (None), or one token's row of every layer, "cls" or "mask". `last`: the last layer
    alone. `normalized`: rows divided by their sum.
    """

    method: str
    form: str = "rollout"
    row: str | None = None
    last: bool = False
    normalized: bool = False
    kind: str = "heatmap"


@dataclass(frozen=True)
class Text:
    """A text that is explained on the model of a role: a table of `scores`, and pictures."""

    role: str
    text: str | tuple[str, str]
    target: Target | None = None
    scores: tuple[Method, ...] = ()
    maps: Mapping[str, Map] = field(default_factory=dict)
    marked: tuple[Method, ...] = ()  # drawn as coloured text: for texts that are too long for a table


def page(*texts: Text, notes: Sequence[str] = ()) -> Callable[[Study], Findings]:
    """What runs a page of these texts."""
    return lambda study: shown(study, texts, notes)


def shown(study: Study, texts: Sequence[Text], notes: Sequence[str] = ()) -> Findings:
    """The tables and pictures of texts; what the model answers stands in the notes."""
    panels: list[Panel] = []
    pictures: dict[str, Any] = {}
    answers = []
    for number, item in enumerate(texts, 1):
        asks = (*item.scores, *item.marked)
        attributions = [study.attribute(item.role, item.text, m, item.target, **o) for _, m, o in asks]
        if attributions:
            shown_as = " / ".join(item.text) if isinstance(item.text, tuple) else item.text
            answers.append(f"Text {number}: {_short(shown_as)!r}, explained: {_label(attributions[0].target)}.")
        if item.scores:
            panels.append(_panel(number, [label for label, _, _ in item.scores], attributions[: len(item.scores)]))
        for (label, _, _), attr in zip(item.marked, attributions[len(item.scores) :], strict=True):
            pictures[f"{label}, text {number}"] = _coloured(attr)
        pictures |= {f"{label}, text {number}": _drawing(study, item, which) for label, which in item.maps.items()}
    return Findings(tuple(panels), (*answers, *notes), pictures, tuple(str(item.text) for item in texts))


def _panel(number: int, labels: Sequence[str], attributions: Sequence[Any]) -> Panel:
    """Methods by tokens, each method's scores divided by its largest."""
    columns = tuple(f"{i} {token}" for i, token in enumerate(attributions[0].tokens))
    values: dict[tuple[str, str], Values | Number] = {}
    for label, attr in zip(labels, attributions, strict=True):
        scores = attr.scores.double()
        largest = float(scores.abs().max()) or 1.0
        values |= {(label, c): Number(float(v) / largest) for c, v in zip(columns, scores, strict=True)}
    title = f"Scores by a method's largest, text {number}"
    return Panel(title, tuple(labels), columns, values, better=dict.fromkeys(columns, 0), kind="score", shape="text")


def _drawing(study: Study, text: Text, which: Map) -> Callable[[Any], Any]:
    maps = study.mixing(text.role, text.text, which.method)
    maps = maps.normalized() if which.normalized else maps
    mask = study.lens(text.role).tokenizer.mask_token if which.row == "mask" else None
    row = None if which.row is None else 0 if which.row == "cls" else maps.tokens.index(mask)
    if which.form == "rollout":
        maps = maps.rollout()
    elif which.form == "flow":
        maps = maps.flow()
    maps = maps.layer(-1) if which.last else maps
    return lambda path: maps.plot(path, row=row, kind=which.kind)


def _coloured(attr: Any) -> Callable[[Any], Any]:
    return lambda path: attr.plot(path, kind="text")


def _label(target: Target | None) -> str:
    if target is None:
        return "the prediction"
    if isinstance(target.position, tuple):
        return f"the answer at tokens {target.position[0]} to {target.position[1]}"
    return f"{target.label}" + (f" rather than {target.foil}" if target.foil is not None else "")


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
