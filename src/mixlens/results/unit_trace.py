"""`UnitTrace`: a trace by words, sentences, turns, documents ... on both axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mixlens.arguments import checked, is_whole, shown
from mixlens.errors import UnknownOption
from mixlens.escape import visible
from mixlens.files import PathLike, put
from mixlens.packing import plain
from mixlens.results import units
from mixlens.results.tabled import Tabled
from mixlens.results.units import Named, TraceUnit

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from mixlens.results.trace import Trace
    from mixlens.view.kit.style import Look


@dataclass(frozen=True)
class SourceScore:
    """A source and what it gave."""

    unit: TraceUnit
    score: float

    @property
    def text(self) -> str:
        """The source's text."""
        return self.unit.text


@dataclass(frozen=True)
class Top:
    """A unit of the answer and the sources with the largest scores, the largest first."""

    answer: TraceUnit
    sources: tuple[SourceScore, ...]


@dataclass(frozen=True, eq=False)
class UnitTrace(Tabled):
    """`scores` (answer unit, source unit), float64: the mean over a unit's answer tokens, the sum over its sources.

    `sources`: the prompt's units, the answer's own, and `template` last, all template tokens together, where they hold
    anything; `answer`: the answer's units, `template` last alike (an end-of-text token). `by`: what the units of
    prompt and answer are. `probabilities`: of each answer unit's tokens together; None where one is not known.
    """

    answer: tuple[TraceUnit, ...]
    sources: tuple[TraceUnit, ...]
    scores: Tensor
    by: tuple[str, str]
    probabilities: tuple[float | None, ...]
    method: str
    options: Mapping[str, Any]
    meta: Mapping[str, Any]

    _columns: ClassVar[dict[str, str]] = {
        **{"answer_index": "int", "answer": "str", "source_index": "int", "source": "str", "where": "str"},
        **{"text": "str", "start": "int", "end": "int", "score": "float", "probability": "float"},
    }

    def __len__(self) -> int:
        return len(self.answer)

    @checked
    def top(self, n: int = 5) -> tuple[Top, ...]:
        """For each answer unit the `n` sources with the largest sizes of scores; template tokens are no source here.

        Raises UnknownOption.
        """
        if not is_whole(n) or n < 1:
            raise UnknownOption(f"expected n of 1 or more, how many sources, got {shown(n)}")
        sources = [j for j, unit in enumerate(self.sources) if unit.where != "template"]
        out = []
        for unit, row in zip(self.answer, self.scores.tolist(), strict=True):
            best = sorted((j for j in sources if row[j]), key=lambda j: -abs(row[j]))[:n]
            out.append(Top(unit, tuple(SourceScore(self.sources[j], row[j]) for j in best)))
        return tuple(out)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Tidy rows, one an answer unit and source unit: its name, text, characters in its own text, and score."""
        return [
            {
                **{"answer_index": i, "answer": unit.name, "source_index": j, "source": source.name},
                **{"where": source.where, "text": source.text, "start": source.start, "end": source.end},
                **{"score": score, "probability": self.probabilities[i]},
            }
            for i, (unit, row) in enumerate(zip(self.answer, self.scores.tolist(), strict=True))
            for j, (source, score) in enumerate(zip(self.sources, row, strict=True))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: units of both axes, scores, probabilities, by, method, options, meta."""
        axes = {name: [plain(vars(unit)) for unit in getattr(self, name)] for name in ("answer", "sources")}
        rest = {name: plain(getattr(self, name)) for name in ("by", "probabilities", "method", "options", "meta")}
        return {**axes, "scores": self.scores.tolist(), **rest}

    @checked
    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own: the units as a picture, and each answer unit's sources; written to `path` if given."""
        from mixlens.view import trace

        return trace.unit_page(self, path)

    @checked
    def to_latex(self, path: PathLike | None = None, *, caption: str | None = None, label: str | None = None) -> str:
        """A tabular, a row an answer unit: its probability and largest sources. Needs booktabs.

        Written to `path` if given. With `caption` (LaTeX) and `label`, a table that floats. Raises ResultFileError,
        UnknownOption.
        """
        from mixlens.view import trace
        from mixlens.view.kit import latex

        return put(latex.floated(trace.tex(self), "table", caption, label), path)

    @checked
    def plot(self, path: PathLike | None = None, **look: Unpack[Look]) -> Figure:
        """A heatmap, answer units down and source units across. Raises UnknownOption, ResultFileError."""
        from mixlens.view import trace_figures

        return trace_figures.figure(self, path, look)

    def __rich__(self) -> Any:
        from mixlens.view import trace
        from mixlens.view.kit.visible import Visible

        return Visible(trace.printout(self))

    def __str__(self) -> str:
        from mixlens.view.kit import terminal

        return terminal.as_text(self.__rich__())

    def __repr__(self) -> str:
        by = self.by[0] if self.by[0] == self.by[1] else " to ".join(reversed(self.by))
        return visible(f"UnitTrace({self.method}, by {by}, {len(self.answer)} from {len(self.sources)})")


def unit_trace(trace: Trace, by: str | Named | tuple[str | Named, str]) -> UnitTrace:
    """A trace by units. Raises UnknownOption, Undefined, InputError."""
    pair: Sequence[Any] = by if isinstance(by, tuple) and len(by) == 2 else (by, by)
    if pair is by and isinstance(pair[1], Mapping):
        raise UnknownOption(
            f"named spans are the prompt's; expected the answer's units by a name, {', '.join(units.NAMES)}, got "
            f"{shown(pair[1])}"
        )
    size = len(trace.prompt)
    prompt = units.prompt_units(trace.prompt, pair[0], trace.meta.get("documents"))
    own_units = units.answer_units(trace.answer, pair[1], size)
    special = (*trace.prompt.special, *trace.answer.special)
    ends = units.template(special, own_units, size)
    rest = units.template(special, [*prompt, *own_units])
    scores = trace.scores.detach().to(device="cpu", dtype=torch.float64)
    answer = [
        *own_units,
        *([ends] if ends is not None and bool(scores[[i - size for i in ends.indices]].any()) else []),
    ]
    sources = [*prompt, *own_units, *([rest] if rest is not None and bool(scores[:, list(rest.indices)].any()) else [])]
    columns = torch.stack([scores[:, list(unit.indices)].sum(1) for unit in sources], 1)
    rows = torch.stack([columns[[i - size for i in unit.indices]].mean(0) for unit in answer])
    names = tuple("named spans" if isinstance(part, Mapping) else str(part) for part in pair)
    odds = tuple(probability(trace, [i - size for i in unit.indices]) for unit in answer)
    meta = trace.meta if trace.foil is None else {**trace.meta, "foil": trace.foil}  # which no other field here says
    facts = (trace.method, trace.options, meta)
    return UnitTrace(tuple(answer), tuple(sources), rows, (names[0], names[1]), odds, *facts)


def probability(trace: Trace, tokens: Sequence[int]) -> float | None:
    """Of these answer tokens together, each behind all before it; None where one is not known."""
    known = [p for t in tokens if (p := trace.said[t].get("target_probability")) is not None]
    return math.prod(map(float, known)) if len(known) == len(tokens) else None
