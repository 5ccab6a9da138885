"""What is said of a text that was explained window by window: how it was cut, and what the model answers in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mixlens.escape import one_line
from mixlens.view.kit import caption, spelling
from mixlens.view.kit.drawn import Attribution

_LISTED = 12  # windows in a line


def shown(attr: Attribution) -> dict[str, Any] | None:
    """What a page needs: a line, and a row a window; None of a text that is in one piece."""
    parts = _parts(attr)
    if not parts:
        return None
    n = len(attr.source)
    rows = []
    for number, part in enumerate(parts, 1):
        first, last = int(part["first"]), int(part["last"])
        chance = _chance(part)
        rows.append(
            {
                "number": number,
                "tokens": f"{first} to {last}",
                "left": 100 * first / n,
                "width": 100 * (last + 1 - first) / n,
                "answer": _answer(attr, part),
                "chance": None if chance is None else spelling.probability(chance),
                "explained": bool(part.get("explained", True)),
            }
        )
    return {
        "rows": rows,
        "line": line(attr),
        "answered": any(row["answer"] for row in rows),
        "rated": _rated(parts),
    }


def notes(attr: Attribution) -> list[str]:
    """The two below, where there are windows."""
    return [note for note in (line(attr), chances(attr)) if note]


def line(attr: Attribution) -> str | None:
    """How the text was cut and joined, in a sentence without its end; None of a text that is in one piece."""
    parts = _parts(attr)
    if not parts:
        return None
    read = sum(bool(part.get("explained", True)) for part in parts)
    count = f"{read} of {len(parts)}" if read < len(parts) else f"{len(parts)}"
    size = attr.options.get("window")
    return f"joined from {count} windows of {size} tokens: a score is the {attr.meta.get('joined')}"


def chances(attr: Attribution) -> str | None:
    """The target's probability in each window, on one line."""
    parts = _parts(attr)
    rated = [None if (p := _chance(part)) is None else spelling.probability(p) for part in parts]
    if not any(rated):
        return None
    more = f" and {len(rated) - _LISTED} more" if len(rated) > _LISTED else ""
    of = "output" if _rated(parts) == "output" else f"probability of {caption.named(attr)}"
    return one_line(f"{of} in each: {', '.join(p or '-' for p in rated[:_LISTED])}{more}")


def _parts(attr: Attribution) -> list[Mapping[str, Any]]:
    parts = attr.meta.get("windows", ())
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, (tuple, list)) else []


def _chance(part: Mapping[str, Any]) -> float | None:
    """The probability of the target there, or a regression head's output."""
    value = part.get("target_probability", part.get("output"))
    return value if isinstance(value, float) else None


def _rated(parts: list[Mapping[str, Any]]) -> str | None:
    """What the last column holds; None: nothing."""
    if not any(_chance(part) is not None for part in parts):
        return None
    return "output" if any("output" in part for part in parts) else "probability"


def _answer(attr: Attribution, part: Mapping[str, Any]) -> str:
    """What the model answers there."""
    span = part.get("answer")
    if isinstance(span, (tuple, list)) and len(span) == 2:
        return one_line(attr.source.excerpt(int(span[0]), int(span[1])) or f"tokens {span[0]} to {span[1]}")
    return one_line(spelling.spelled(part["prediction"])) if part.get("prediction") is not None else ""
