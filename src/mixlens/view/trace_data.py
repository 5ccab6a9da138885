"""What the script of a trace's page is given (`explorer/trace.js`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixlens.errors import MixlensError
from mixlens.escape import one_line, visible
from mixlens.view.kit import arrays, colors, packed, pieces, spelling
from mixlens.view.kit.drawn_trace import Part, Trace, UnitTrace


def of_trace(trace: Trace) -> str | None:
    """A trace by tokens; None for one that is too large for a page."""
    if trace.scores.numel() > packed.LARGEST:
        return None
    size, documents = len(trace.prompt), trace.meta.get("documents") or {}
    head = {
        "prompt": {
            **pieces.facts(trace.prompt, **_grains(trace, trace.prompt, "prompt")),
            "count": size,
            "special": [bool(s) for s in trace.prompt.special],
        },
        "answer": pieces.facts(trace.answer, **_grains(trace, trace.answer, "answer")),
        "documents": [{"name": visible(name), "tokens": list(range(*span))} for name, span in documents.items()],
        "cited": [
            {
                "tokens": [i - size for i in citation.answer.indices],
                "sources": [{"name": visible(c.name), "p": c.p, "stands_out": c.stands_out} for c in citation.sources],
            }
            for citation in (citations(trace) if documents else ())
        ],
        "said": [visible(token_says(trace, t)) for t in range(len(trace))],
        "notes": _notes(trace),
        "differs": [k for k, target in enumerate(trace.targets) if target.foil is not None],
        "foil": None if trace.foil is None else visible(trace.foil),
    }
    return _packed(head, trace, arrays.values(trace.scores))


def _packed(head: dict[str, Any], trace: Trace | UnitTrace, scores: arrays.Array) -> str:
    shared = {
        "kind": "trace",
        "signed": bool((scores < 0).any()),
        "specific": trace.meta.get("class_specific") is not False,
        "colors": colors.arms(),
    }
    return packed.pack({**shared, **head}, {"scores": scores})


def _grains(trace: Trace, stream: Any, side: str) -> dict[str, list[pieces.Piece]]:
    """The pieces of a side of a trace; no grain where nothing can be cut by it."""
    alone = pieces.tokens(stream)
    out = {"word": pieces.words(stream), "token": alone}
    try:
        units = trace.units(("sentence", "token") if side == "prompt" else ("token", "sentence"))
    except MixlensError:
        return out
    first = 0 if side == "prompt" else len(trace.prompt)
    parts = [part for part in (units.sources if side == "prompt" else units.answer) if part.where == side]
    return {**out, "sentence": pieces.grouped(alone, [[i - first for i in part.indices] for part in parts])}


def _notes(trace: Trace) -> list[str]:
    out = []
    excluded = trace.meta.get("excluded")
    if isinstance(excluded, (tuple, list)) and excluded:
        out.append(f"{len(excluded)} {trace.prompt.units} were left out of the sources, as asked.")
    if any(trace.prompt.special):
        out.append(f"{grey(trace).capitalize()}.")
    return out


def grey(trace: Trace) -> str:
    """What the special positions of a prompt are: of a chat its template's; what an encoder reads has no template."""
    words = "have no content and are" if "source_tokens" in trace.meta else "are the template's and"
    return f"small grey {trace.prompt.units} {words} not coloured"


def of_units(trace: UnitTrace) -> str | None:
    """A trace by units, each of them one piece; None for one that is too large for a page."""
    sources = [k for k, part in enumerate(trace.sources) if part.where != "answer"]
    answers = [k for k, part in enumerate(trace.sources) if part.where == "answer"]
    values = arrays.values(trace.scores)
    # what no answer unit is a source of has a column of zeros, so that rows and columns of the answer are the same
    scores = np.zeros((len(trace.answer), len(sources) + len(trace.answer)))
    scores[:, : len(sources)] = values[:, sources]
    scores[:, len(sources) : len(sources) + len(answers)] = values[:, answers]
    if scores.size > packed.LARGEST:
        return None
    prompt, documents = [trace.sources[k] for k in sources], trace.meta.get("documents") or {}
    head = {
        "prompt": {
            **_units(prompt),
            "count": len(prompt),
            "special": [part.where == "template" for part in prompt],
        },
        "answer": _units(trace.answer),
        "documents": [{"name": visible(p.name), "tokens": [k]} for k, p in enumerate(prompt) if p.name in documents],
        "cited": [],
        "said": ["-" if p is None else f"probability {spelling.probability(p)}" for p in trace.probabilities],
        "notes": [],
        "differs": [],
        "foil": None,
    }
    return _packed(head, trace, scores)


def _units(parts: Sequence[Part]) -> dict[str, Any]:
    """The units one behind the other."""
    return {
        "grains": {
            "unit": [
                [" " if k else "", one_line(part.name) or "␣", [k], pieces.SPECIAL * (part.where == "template")]
                for k, part in enumerate(parts)
            ]
        },
        "directions": ["auto"],
        "unit": "unit",
        "units": "units",
    }


def citations(trace: Trace) -> Sequence[Any]:
    """None where the prompt has nothing to choose between."""
    try:
        return trace.citations(threshold=0.05)
    except MixlensError:
        return ()


def token_says(trace: Trace, t: int) -> str:
    """What the model says of an answer token."""
    facts = trace.said[t]
    named = {
        "target_probability": "probability",
        "foil_probability": f"rather than {spelling.spelled(trace.targets[t].foil)}",
        "probability": f"the model would say {spelling.spelled(facts.get('prediction'))}",
    }
    if facts.get("prediction") is None or facts.get("probability") == facts.get("target_probability"):
        del named["probability"]
    parts = [f"{name} {spelling.probability(facts[key])}" for key, name in named.items() if facts.get(key) is not None]
    return ", ".join(parts) or "no probability known"
