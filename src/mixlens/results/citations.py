"""What each sentence of an answer came from: documents or sentences of the prompt, and whether they stand out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mixlens.errors import Undefined
from mixlens.measure.shares import shares
from mixlens.results import units
from mixlens.results.unit_trace import probability
from mixlens.results.units import TraceUnit

if TYPE_CHECKING:
    from mixlens.results.trace import Trace


@dataclass(frozen=True)
class Cited:
    """A document (or sentence) of the prompt with its share of what a sentence of the answer took from the prompt.

    `expected`: the share that its size would give it. `p`: how often a random order of the sentence's scores over the
    prompt's tokens gives some source a share that stands out as far (see `measure.shares`); `stands_out`: p is small.
    """

    unit: TraceUnit
    share: float
    expected: float
    p: float
    stands_out: bool

    @property
    def name(self) -> str:
        """The document's name, or the sentence."""
        return self.unit.name


@dataclass(frozen=True)
class Citation:
    """A sentence of the answer with its sources of at least the threshold's share, the largest first."""

    answer: TraceUnit
    sources: tuple[Cited, ...]
    probability: float | None = None

    @property
    def cited(self) -> tuple[Cited, ...]:
        """The sources that stand out of chance."""
        return tuple(source for source in self.sources if source.stands_out)


def citations(trace: Trace, threshold: float, level: float, samples: int, seed: int) -> tuple[Citation, ...]:
    """See `Trace.citations`."""
    documents, size = trace.meta.get("documents"), len(trace.prompt)
    try:
        sources = units.prompt_units(trace.prompt, "document" if documents else "sentence", documents)
    except Undefined:
        raise Undefined(
            "expected several documents or sentences in the prompt, got one sentence: there is nothing to choose "
            "between; trace(prompt, documents={'name': text}), or read .top() by word"
        ) from None
    order = [i for unit in sources for i in unit.indices]
    groups = np.repeat(np.arange(len(sources)), [len(unit.indices) for unit in sources])
    scores = trace.scores.detach().cpu().double().clamp(min=0).numpy()[:, order]
    out = []
    for unit in units.answer_units(trace.answer, "document", size):
        tokens = [i - size for i in unit.indices]
        measured = shares(scores[tokens].mean(0), groups, samples=samples, seed=seed)
        kept = [
            Cited(source, float(share), float(expected), float(p), bool(p <= level))
            for source, share, expected, p in zip(sources, *measured, strict=True)
            if share >= threshold and share > 0 and (not documents or source.name in documents)
        ]
        out.append(Citation(unit, tuple(sorted(kept, key=lambda c: -c.share)), probability(trace, tokens)))
    return tuple(out)
