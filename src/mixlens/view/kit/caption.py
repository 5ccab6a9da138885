"""What is said around every picture of a result: its heading, the model's answer, warnings, where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixlens.capture.signal import Signal
from mixlens.escape import one_line, visible
from mixlens.view.kit.drawn import Attribution, LayerMaps
from mixlens.view.kit.spelling import number, probability, spelled, value_text

_FIRST = ("model", "readout", "class_specific", "signed")


def heading(result: Attribution | LayerMaps) -> str:
    """One line: method (and aggregation), target, model."""
    method = ".".join(filter(None, (result.method, getattr(result, "aggregation", None))))
    return " · ".join([one_line(method), *about(result)])


def kind(result: Any) -> str:
    """What is explained, as a page calls it."""
    return noun(getattr(result, "source", None))


def noun(stream: Any) -> str:
    """What a stream is of, as a page calls it."""
    return stream.noun if isinstance(stream, Signal) else "text"


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
    """What is explained: `positive`, `positive rather than negative`, `PER (Anna Smith)`."""
    name, t = named(result), getattr(result, "target", None)
    return name if t is None or t.foil is None else f"{name} rather than {spelled(t.foil)}"


def target_name(result: Attribution | LayerMaps) -> str | None:
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


def named(result: Attribution | LayerMaps) -> str | None:
    """The target's name, and the text whose label it is, where it is one."""
    name, place = target_name(result), entity(result)
    return name if place is None else f"{name} ({place})"


def entity(result: Attribution | LayerMaps) -> str | None:
    """The text of several tokens whose label is explained."""
    t = getattr(result, "target", None)
    if t is None or not isinstance(t.position, tuple) or _extracted(result) is not None:
        return None
    words = result.source.excerpt(*t.position)
    return None if words is None else " ".join(words.split())


def says(result: Attribution | LayerMaps) -> str | None:
    """What the model answers and how likely, and how likely are target and foil; None where that isn't known."""
    meta, t = result.meta, getattr(result, "target", None)
    if isinstance(meta.get("output"), float):
        return f"model's output: {number(meta['output'])}"
    best = meta.get("probability")
    if not isinstance(best, float):
        return None
    answer = meta.get("prediction", target_name(result))
    pairs = [] if t is None else [(t.label, meta.get("target_probability")), (t.foil, meta.get("foil_probability"))]
    others = [(name, p) for name, p in pairs if name is not None and isinstance(p, float) and p != best]
    rest = ", ".join(f"{spelled(name)} {probability(p)}" for name, p in others)
    line = f"model's answer: {spelled(answer)}, probability {probability(best)}" + (f"; {rest}" if rest else "")
    return one_line(line)


def chances(result: Attribution | LayerMaps) -> list[tuple[str, float]]:
    """The probability of every class, the largest first; of those that are known, where not all were recorded."""
    meta, t = result.meta, getattr(result, "target", None)
    known = meta.get("probabilities")
    if not isinstance(known, Mapping):
        pairs = [(meta.get("prediction"), meta.get("probability"))]
        if t is not None:
            pairs += [(t.label, meta.get("target_probability")), (t.foil, meta.get("foil_probability"))]
        known = dict(pairs)
    out = {spelled(name): p for name, p in known.items() if name is not None and isinstance(p, float)}
    return sorted(out.items(), key=lambda pair: -pair[1])


def independent(result: Attribution | LayerMaps) -> bool:
    """Whether each class has a probability of its own, so that they do not sum to 1."""
    known = result.meta.get("probabilities")
    return isinstance(known, Mapping) and abs(sum(known.values()) - 1) > 1e-3


def warnings(*results: Attribution | LayerMaps) -> list[str]:
    """What the reader should know before believing the numbers, each thing once."""
    return list(dict.fromkeys(one_line(w) for result in results for w in result.meta.get("warnings", ())))


def target(result: Attribution | LayerMaps) -> str | None:
    """The target in words, with its quantity: `positive rather than negative (log odds)`."""
    name, t = goal(result), getattr(result, "target", None)
    if t is None:
        return None
    placed = t.position is not None and entity(result) is None
    facts = [t.of and t.of.replace("_", " "), placed and f"position {value_text(t.position)}"]
    known = ", ".join(f for f in facts if f)
    return f"{name} ({known})" if known else name


def provenance(result: Attribution | LayerMaps) -> list[tuple[str, str]]:
    """Everything that says where the numbers come from, as name and value."""
    rows: list[tuple[str, Any]] = [("method", result.method), ("aggregation", getattr(result, "aggregation", None))]
    rows += [("target", target(result)), ("options", result.options or None)]
    rest = {k: v for k, v in result.meta.items() if k not in ("dropped", "windows")}
    if "prediction" in rest:
        rest["prediction"] = spelled(rest["prediction"])
    rows += [(name, rest.pop(name, None)) for name in _FIRST] + sorted(rest.items(), key=lambda kv: str(kv[0]))
    if result.source.dropped:
        rows.append(("truncated", f"{result.source.dropped} {result.source.units} were cut off, as asked"))
    return [(visible(str(k).replace("_", " ")), visible(value_text(v))) for k, v in rows if v is not None]
