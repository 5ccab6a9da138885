"""A result as its reader sees it: words in reading order with what stands between them, and where it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mixlens.escape import one_line, visible
from mixlens.view import colors
from mixlens.view.direction import Direction, strong
from mixlens.view.labels import spelled

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
    if not attr.source.has_words:
        return [
            Part(text or "␣", score, special, " " if i else "", ((text, score),))
            for i, (text, score, special) in enumerate(zip(display, scores, attr.special, strict=True))
        ]
    out: list[Part] = []
    segment = None
    for unit in attr.units():
        pieces = tuple((display[i], scores[i]) for i in unit.indices)
        opens = None not in (segment, unit.segment) and unit.segment != segment
        segment = segment if unit.segment is None else unit.segment
        before = unit.before
        if out and (unit.special or out[-1].special):  # no part of the text, so always set off
            before = before or " "
        score = sum(scores[i] for i in unit.indices)
        out.append(Part(visible(unit.text) or "␣", score, unit.special, visible(before), pieces, opens))
    return out


def content(shown: Sequence[Part]) -> list[Part]:
    """The words: what is coloured and ranked. All there is, where a text is of special tokens alone."""
    return [p for p in shown if not p.special] or list(shown)


def scale(shown: Sequence[Part]) -> colors.Scale:
    """The colours and bars of the words. Special tokens are left out: they often take most of the score."""
    return colors.scale([p.score for p in content(shown)])


def ranked(shown: Sequence[Part], count: int) -> list[Part]:
    """The `count` words with the largest sizes, first ones first where they are equal."""
    return sorted(content(shown), key=lambda p: -abs(p.score))[:count]


def colours(signed: bool, specific: bool) -> str:
    """What the colours mean. What is not specific to a class speaks neither for nor against it."""
    if not signed:
        return "the stronger the colour, the larger the score"
    return "orange speaks for it, blue against it" if specific else "orange is above zero, blue below it"


def held(shown: Sequence[Part]) -> str | None:
    """In words what the special tokens hold, since no colour and no bar says it; None where nothing is left out."""
    special = [p for p in shown if p.special]
    total = sum(abs(p.score) for p in shown)
    if not special or len(special) == len(shown) or not total or not math.isfinite(total):
        return None
    share = 100 * sum(abs(p.score) for p in special) / total
    top = max(special, key=lambda p: abs(p.score))
    amount = "under 1" if share < 1 else "over 99" if share > 99 else f"{share:.0f}"
    sizes = "the scores' sizes" if any(p.score < 0 for p in shown) else "the scores"
    largest = f" (largest: {' '.join(top.text.split())} {number(top.score)})" if top.score else ""
    return f"special tokens hold {amount} % of {sizes}{largest}"


def lines(shown: Sequence[Part]) -> list[tuple[Direction, list[Part]]]:
    """The parts text by text (two of a pair), each with the way it runs: by its own words, no special token's."""
    out: list[list[Part]] = [[]]
    for part in shown:
        if part.opens:
            out.append([])
        out[-1].append(part)
    return [(strong("".join(p.before + p.text for p in line if not p.special)) or "ltr", line) for line in out]


def labels(result: Attribution | LayerMaps, limit: int = 18) -> list[str]:
    """The positions as labels of an axis: visible, on one line, at most `limit` characters."""
    return _shortened(result.display, limit)


def _shortened(names: Sequence[str], limit: int) -> list[str]:
    lines = [" ".join(visible(t).split()) or "␣" for t in names]
    return [t if len(t) <= limit else t[: limit - 1] + "…" for t in lines]


def heading(result: Attribution | LayerMaps) -> str:
    """One line: method (and aggregation), target, model."""
    method = ".".join(filter(None, (result.method, getattr(result, "aggregation", None))))
    return " · ".join([one_line(method), *about(result)])


def about(result: Attribution | LayerMaps) -> list[str]:
    """What methods on one text share: target and model."""
    return [one_line(f"{k} {v}") for k, v in (("target", target(result)), ("model", _model(result))) if v]


def _model(result: Attribution | LayerMaps) -> str | None:
    """The model's name; of a local folder's path the end alone (`provenance` has it whole)."""
    name = result.meta.get("model")
    if name is None:
        return None
    parts = [p for p in str(name).replace("\\", "/").split("/") if p]
    return "…/" + "/".join(parts[-2:]) if len(parts) > 2 else str(name)


def goal(result: Attribution | LayerMaps) -> str | None:
    """What is explained: `positive`, `positive rather than negative`."""
    name, t = asked(result), getattr(result, "target", None)
    return name if t is None or t.foil is None else f"{name} rather than {spelled(t.foil)}"


def asked(result: Attribution | LayerMaps) -> str | None:
    """The target's name: a label, a token's text, the words of an extracted answer."""
    t = getattr(result, "target", None)
    if t is None:
        return None
    return spelled(_extracted(result) or next((x for x in (t.label, t.what, t.index) if x is not None), "prediction"))


def _extracted(result: Attribution | LayerMaps) -> str | None:
    """The text of the span that question answering chose."""
    t = getattr(result, "target", None)
    if t is None or not isinstance(t.position, tuple) or t.label != f"tokens {t.position[0]} to {t.position[-1]}":
        return None
    return result.source.excerpt(t.position[0], t.position[-1])


def says(result: Attribution | LayerMaps) -> str | None:
    """What the model answers and how likely, and how likely are target and foil; None where that isn't known."""
    meta, t = result.meta, getattr(result, "target", None)
    if isinstance(meta.get("output"), float):
        return f"model's output: {number(meta['output'])}"
    best = meta.get("probability")
    if not isinstance(best, float):
        return None
    answer = meta.get("prediction", asked(result))
    pairs = [] if t is None else [(t.label, meta.get("target_probability")), (t.foil, meta.get("foil_probability"))]
    others = [(name, p) for name, p in pairs if name is not None and isinstance(p, float) and p != best]
    rest = ", ".join(f"{spelled(name)} {_probability(p)}" for name, p in others)
    line = f"model's answer: {spelled(answer)}, probability {_probability(best)}" + (f"; {rest}" if rest else "")
    return one_line(line)


def warnings(*results: Attribution | LayerMaps) -> list[str]:
    """What the reader should know before believing the numbers, each thing once."""
    return list(dict.fromkeys(one_line(w) for result in results for w in result.meta.get("warnings", ())))


def _probability(p: float) -> str:
    return "over 0.999" if 0.999 < p < 1 else number(p)


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
    if "prediction" in rest:
        rest["prediction"] = spelled(rest["prediction"])
    rows += [(name, rest.pop(name, None)) for name in _FIRST] + sorted(rest.items(), key=lambda kv: str(kv[0]))
    if result.source.dropped:
        rows.append(("truncated", f"{result.source.dropped} {result.source.units} were cut off, as asked"))
    return [(visible(str(k).replace("_", " ")), visible(_spell(v))) for k, v in rows if v is not None]


def values(tensor: Tensor) -> NDArray[np.float64]:
    """A tensor of any type and device as a float64 array."""
    return tensor.detach().cpu().double().numpy()


def layers(maps: LayerMaps) -> list[int]:
    """The numbers of the layers that are here, from 1."""
    return [i + 1 for i in (range(len(maps)) if maps.layer_numbers is None else maps.layer_numbers)]


def query_labels(maps: LayerMaps, limit: int = 18) -> list[str]:
    """The tokens of the query rows that are here, as `labels`."""
    names = _shortened(maps.queries.display, limit)
    return names if maps.rows is None else [names[i] for i in maps.rows]


def readout(maps: LayerMaps) -> tuple[NDArray[np.float64], str]:
    """What goes into the read-out row at each layer, (layer, token), heads averaged, and its name.

    The mean over query rows where no read-out row is known, or it is not here.
    """
    scores = values(maps.scores)
    scores = scores.mean(1) if scores.ndim == 4 else scores
    row = maps.meta.get("readout")
    chosen = [i for i in (row if isinstance(row, tuple) else (row,)) if isinstance(i, int)]
    here = list(range(scores.shape[1]) if maps.rows is None else maps.rows)
    if not any(i in here for i in chosen) and len(here) == 1:
        chosen = here
    mean = ", head mean" if maps.heads else ""
    if chosen and all(i in here for i in chosen):
        names = " and ".join(row_name(maps, i) for i in chosen)
        return scores[:, [here.index(i) for i in chosen]].mean(1), f"what flows into {names}{mean}"
    return scores.mean(1), f"mean over {'all' if maps.rows is None else 'the computed'} query rows{mean}"


def row_name(maps: LayerMaps, row: int) -> str:
    """A query row by its token: `[CLS] (token 0)`."""
    stream = maps.queries
    count = maps.scores.shape[-2] if maps.rows is None else len(stream)
    place = f"{stream.unit} {row % count}"
    return f"{_shortened(stream.display, 18)[row]} ({place})" if count == len(stream) else place


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
