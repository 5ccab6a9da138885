"""A result as its reader sees it: words in reading order with what stands between them, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mixlens.escape import visible
from mixlens.view import colors

if TYPE_CHECKING:
    from mixlens.results import Attribution, LayerMaps

_FIRST = ("model", "readout", "class_specific", "signed")


@dataclass(frozen=True)
class Part:
    """A word (or a token, where no text is known) as it is shown."""

    text: str
    score: float
    special: bool
    before: str  # blanks and whatever no token covers, between the part before and this one
    pieces: tuple[tuple[str, float], ...]  # its tokens
    opens: bool = False  # first of the second text of a pair

    @property
    def detail(self) -> str:
        """One line: the score, and the pieces' scores where there are several."""
        pieces = " + ".join(f"{t} {number(s)}" for t, s in self.pieces) if len(self.pieces) > 1 else ""
        return f"{self.text}: {number(self.score)}" + (f" ({pieces})" if pieces else "")


def parts(attr: Attribution) -> list[Part]:
    """The words of an attribution in reading order where there are offsets, else its tokens."""
    display = [visible(t) for t in attr.display]
    scores = values(attr.scores).tolist()
    if attr.offsets is None:
        return [
            Part(text or "␣", score, special, " " if i else "", ((text, score),))
            for i, (text, score, special) in enumerate(zip(display, scores, attr.special, strict=True))
        ]
    out: list[Part] = []
    segment, at = None, 0
    for word in attr.words():
        pieces = tuple((display[i], scores[i]) for i in word.indices)
        before, opens = "", False
        if word.segment is not None and word.start is not None and word.end is not None:
            opens = segment is not None and word.segment != segment
            before = attr.source.text[word.segment][at if word.segment == segment else 0 : word.start]
            segment, at = word.segment, word.end
        if out and (word.special or out[-1].special):  # no part of the text, so always set off
            before = before or " "
        out.append(Part(visible(word.text) or "␣", word.score, word.special, visible(before), pieces, opens))
    return out


def scale(shown: list[Part]) -> colors.Scale:
    """The colours of the words. Special tokens are left out: they often take most of the score and say little."""
    return colors.scale([p.score for p in shown if not p.special] or [p.score for p in shown])


def ranked(shown: list[Part], count: int) -> list[Part]:
    """The `count` parts with the largest sizes, first ones first where they are equal."""
    return sorted(shown, key=lambda p: -abs(p.score))[:count]


def labels(result: Attribution | LayerMaps, limit: int = 18) -> list[str]:
    """The tokens as labels of an axis: visible, on one line, at most `limit` characters."""
    lines = [" ".join(visible(t).split()) or "␣" for t in result.display]
    return [t if len(t) <= limit else t[: limit - 1] + "…" for t in lines]


def heading(result: Attribution | LayerMaps) -> str:
    """One line: method (and aggregation), target, model."""
    method = ".".join(filter(None, (result.method, getattr(result, "aggregation", None))))
    facts = [method, *(f"{k} {v}" for k, v in (("target", target(result)), ("model", _model(result))) if v)]
    return visible(" · ".join(" ".join(str(f).split()) for f in facts))


def _model(result: Attribution | LayerMaps) -> str | None:
    """The model's name; of a local folder's path the end alone (`provenance` has it whole)."""
    name = result.meta.get("model")
    if name is None:
        return None
    parts = [p for p in str(name).replace("\\", "/").split("/") if p]
    return "…/" + "/".join(parts[-2:]) if len(parts) > 2 else str(name)


def goal(result: Attribution | LayerMaps) -> str | None:
    """What is explained: `positive`, `positive rather than negative`."""
    t = getattr(result, "target", None)
    if t is None:
        return None
    name = next((x for x in (t.label, t.what, t.index) if x is not None), "prediction")
    return f"{name} rather than {t.foil}" if t.foil is not None else str(name)


def target(result: Attribution | LayerMaps) -> str | None:
    """The target in words, with its quantity: `positive rather than negative (log odds)`."""
    name, t = goal(result), getattr(result, "target", None)
    if t is None:
        return None
    facts = [t.of and t.of.replace("_", " "), t.position is not None and f"position {_spell(t.position)}"]
    known = ", ".join(f for f in facts if f)
    return f"{name} ({known})" if known else name


def provenance(result: Attribution | LayerMaps) -> list[tuple[str, str]]:
    """Everything that says where the numbers come from, as name and value."""
    rows: list[tuple[str, Any]] = [("method", result.method), ("aggregation", getattr(result, "aggregation", None))]
    rows += [("target", target(result)), ("options", result.options or None)]
    rest = {k: v for k, v in result.meta.items() if k != "dropped"}
    rows += [(name, rest.pop(name, None)) for name in _FIRST] + sorted(rest.items(), key=lambda kv: str(kv[0]))
    if result.source.dropped:
        rows.append(("truncated", f"{result.source.dropped} tokens were cut off, as asked"))
    return [(visible(str(k).replace("_", " ")), visible(_spell(v))) for k, v in rows if v is not None]


def values(tensor: Tensor) -> NDArray[np.float64]:
    """A tensor of any type and device as a float64 array."""
    return tensor.detach().cpu().double().numpy()


def layers(maps: LayerMaps) -> list[int]:
    """The numbers of the layers that are here, from 1."""
    return [i + 1 for i in (range(len(maps)) if maps.layer_numbers is None else maps.layer_numbers)]


def query_labels(maps: LayerMaps, limit: int = 18) -> list[str]:
    """The tokens of the query rows that are here, as `labels`."""
    names = labels(maps, limit)
    return names if maps.queries is None else [names[i] for i in maps.queries]


def readout(maps: LayerMaps) -> tuple[NDArray[np.float64], str]:
    """What goes into the read-out row at each layer, (layer, token), heads averaged, and its name.

    The mean over query rows where no read-out row is known, or it is not here.
    """
    scores = values(maps.scores)
    scores = scores.mean(1) if scores.ndim == 4 else scores
    row = maps.meta.get("readout")
    chosen = [i for i in (row if isinstance(row, tuple) else (row,)) if isinstance(i, int)]
    here = list(range(scores.shape[1]) if maps.queries is None else maps.queries)
    if not any(i in here for i in chosen) and len(here) == 1:
        chosen = here
    mean = ", head mean" if maps.heads else ""
    if chosen and all(i in here for i in chosen):
        names = " and ".join(row_name(maps, i) for i in chosen)
        return scores[:, [here.index(i) for i in chosen]].mean(1), f"what flows into {names}{mean}"
    return scores.mean(1), f"mean over {'all' if maps.queries is None else 'the computed'} query rows{mean}"


def row_name(maps: LayerMaps, row: int) -> str:
    """A query row by its token: `[CLS] (token 0)`."""
    count = maps.scores.shape[-2] if maps.queries is None else len(maps.source)
    place = f"token {row % count}"
    return f"{labels(maps)[row]} ({place})" if count == len(maps.display) else place


def number(value: float) -> str:
    """Three significant digits: `0.312`, `-1.20e-05`."""
    if value == 0:
        return "0"
    return f"{value:.2e}" if not 1e-3 <= abs(value) < 1e5 else f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def _spell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k}={_spell(v)}" for k, v in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_spell, value)) or "none"
    if isinstance(value, Tensor):
        return f"tensor {tuple(value.shape)}" if value.ndim else _spell(value.item())
    if isinstance(value, float):
        return f"{value:.4g}"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
