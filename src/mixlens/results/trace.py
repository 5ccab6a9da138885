"""`Trace`: a whole answer of a language model, each of its tokens back to the prompt and the answer before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mixlens import storage
from mixlens.aggregate.closure import closure
from mixlens.arguments import checked, is_number, is_whole, shown
from mixlens.capture.joined import first as first_of
from mixlens.capture.joined import joined
from mixlens.capture.stream import Stream
from mixlens.errors import TargetError, UnknownOption
from mixlens.escape import visible
from mixlens.files import PathLike, put
from mixlens.packing import plain
from mixlens.results.attribution import Attribution
from mixlens.results.citations import Citation, citations
from mixlens.results.plain import described
from mixlens.results.tabled import Tabled
from mixlens.results.trace_check import check
from mixlens.results.unit_trace import Top, UnitTrace, probability, unit_trace
from mixlens.results.units import Named, excerpt
from mixlens.target import Target

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from mixlens.view.kit.style import Look

By = str | Named | tuple[str | Named, str]


@dataclass(frozen=True, eq=False)
class Trace(Tabled):
    """What each answer token took from the tokens before it: `scores` (answer token, source).

    The sources are the prompt's tokens and behind them the answer's own. Answer token t is predicted at the position
    before its own, q_t = len(prompt) + t - 1; what comes after that is no source of it, and exactly 0.

    `targets`: of each answer token what is explained, itself or itself rather than a foil. `said`: of each what the
    model says there: its `prediction` and the `probability` of that, `target_probability` of the token that stands
    there, `foil_probability` of a foil. `meta["documents"]`: name -> its tokens [first, last) in the prompt.
    Raises InputError, NotFinite.

    Examples:
        >>> import torch
        >>> from mixlens.capture.stream import Positions
        >>> said = ({"target_probability": 0.9}, {"target_probability": 0.5})
        >>> where = {"prompt": Positions(labels=("red", "hat")), "answer": Positions(labels=("a", "hat"))}
        >>> scores = torch.tensor([[0.6, 0.4, 0.0, 0.0], [0.1, 0.4, 0.5, 0.0]])
        >>> facts = {"method": "alti", "options": {}, "meta": {}, "targets": (mixlens.Target(),) * 2}
        >>> trace = mixlens.Trace(**where, scores=scores, said=said, **facts)
        >>> [round(x, 2) for x in trace.through_answer().row(1).scores.tolist()]
        [0.4, 0.6, 0.0]
    """

    prompt: Stream
    answer: Stream
    scores: Tensor
    method: str
    options: Mapping[str, Any]
    meta: Mapping[str, Any]
    targets: tuple[Target, ...]
    said: tuple[Mapping[str, Any], ...]

    _columns: ClassVar[dict[str, str]] = {
        **{"answer_index": "int", "answer": "str", "source_index": "int", "source": "str", "where": "str"},
        **{"score": "float", "probability": "float"},
    }

    def __post_init__(self) -> None:
        check(self)

    def __len__(self) -> int:
        """How many tokens the answer has."""
        return len(self.answer)

    @cached_property
    def source(self) -> Stream:
        """The prompt and the answer as one stream: what the second axis of `scores` is of."""
        return joined(self.prompt, self.answer)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of the sources."""
        return self.source.names

    @property
    def signed(self) -> bool:
        """Whether scores below 0 mean something: they speak against a token."""
        known = self.meta.get("signed", self.options.get("signed"))
        return known if isinstance(known, bool) else bool((self.scores < 0).any())

    @property
    def foil(self) -> str | None:
        """What the answer is explained rather than: another answer, or one token for each of its own; None without.

        Where a token has no foil, it stands in both.
        """
        return _foils(self.targets)

    def row(self, t: int) -> Attribution:
        """The scores of answer token `t` over the sources it has read, 0 to q_t; negatives count from the end.

        Raises TargetError.
        """
        if not is_whole(t) or not -len(self) <= t < len(self):
            raise TargetError(
                f"expected an answer token of {-len(self)} to {len(self) - 1} (the answer has {len(self)}), got "
                f"{shown(t)}"
            )
        return self.span(t % len(self), t % len(self) + 1)

    def span(self, first: int, last: int, *, prompt_only: bool = False) -> Attribution:
        """The mean of the rows of answer tokens `first` to `last` - 1, over all sources that one of them has read.

        Tokens inside the span are sources too, of those behind them: nothing is left out, so that means of rows that
        sum to 1 sum to 1 (`through_answer()` hands what they hold back to the prompt). `prompt_only`: the scores of the
        prompt's tokens alone. `meta["target_probability"]`: of the span's tokens together. Raises TargetError.
        """
        size = len(self)
        if not (is_whole(first) and is_whole(last) and -size <= first <= size and -size <= last <= size):
            raise TargetError(f"expected answer tokens of 0 to {size}, got {shown((first, last))}")
        a, b = first + size * (first < 0), last + size * (last < 0)
        if a >= b:
            raise TargetError(f"expected at least one answer token, [first, last), got {shown((first, last))}")
        count = len(self.prompt) if prompt_only else len(self.prompt) + b - 1
        source = self.prompt if prompt_only else first_of(self.source, count)
        rows = self.scores[a:b, :count]
        if b - a == 1:
            target, facts = self.targets[a], dict(self.said[a])
        else:
            target, facts = self._target(a, b), {"target_probability": probability(self, range(a, b))}
        meta = {**self.meta, **{k: v for k, v in facts.items() if v is not None}, "answer_tokens": (a, b)}
        meta["readout"] = len(self.prompt) + b - 2
        scores = rows[0] if b - a == 1 else rows.double().mean(0).to(rows.dtype)
        return Attribution(source, scores, self.method, self.options, meta, target=target)

    def _target(self, a: int, b: int) -> Target:
        """What is explained of several tokens: their text, rather than that of their foils."""
        foil = _foils(self.targets[a:b])
        text = excerpt(self.answer, range(a, b))
        return Target(what=text, foil=foil, of=self.targets[a].of, label=text)

    @checked
    def units(self, by: By = "word") -> UnitTrace:
        """The scores by units on both axes: over the sources of a unit their sum, over answer tokens their mean.

        `by`: "token", "word", "sentence", "line", "paragraph", "turn" (of a chat), "document" (named in `trace`), or
        {"name": (start, end)}, characters of the prompt; a pair of two says the prompt's and the answer's. By document
        and by named spans the answer is cut by sentence; what they leave of the prompt is one unit more. By turn the
        answer is one. Template tokens stand together as the last unit, where they hold anything. Units do not cross a
        turn, a document or a template token. Raises UnknownOption, Undefined, InputError.
        """
        return unit_trace(self, by)

    def shares(self) -> tuple[float | None, ...]:
        """Of each answer token the share of the source: what the prompt's tokens hold of the sizes of its scores.

        The rest is the answer's before it, of an encoder-decoder with what its decoder starts from (the share of
        the source against the target's prefix, Ferrando 2022). None where all scores are 0.
        """
        sizes = self.scores.detach().double().abs()
        source, total = sizes[:, : self._source_tokens].sum(1).tolist(), sizes.sum(1).tolist()
        return tuple(part / whole if whole > 0 else None for part, whole in zip(source, total, strict=True))

    @property
    def _source_tokens(self) -> int:
        """How many of the prompt's tokens are not the decoder's own beginning."""
        count = self.meta.get("source_tokens", len(self.prompt))
        return count if isinstance(count, int) else len(self.prompt)

    def through_answer(self) -> Trace:
        """What the answer's own tokens took is handed back to the prompt's: closure (CAGE, 2025), in float64.

        Negative parts become 0, rows are divided by their sum, and an answer token that is a source stands for what it
        took itself. Each row is then over the prompt alone, the answer's part exactly 0, and sums to 1; a row that
        held nothing above 0 stays 0.
        """
        n = len(self.prompt)
        scores = torch.zeros(len(self), n + len(self), dtype=torch.float64, device=self.scores.device)
        scores[:, :n] = closure(self.scores, n)
        return replace(self, scores=scores, meta={**self.meta, "signed": False, "through_answer": True})

    @checked
    def top(self, n: int = 5, by: By = "word") -> tuple[Top, ...]:
        """For each unit of the answer the `n` sources with the largest sizes of scores (`units` says what `by` may be).

        Raises as `units`.
        """
        return self.units(by).top(n)

    @checked
    def citations(
        self, threshold: float = 0.1, *, level: float = 0.05, samples: int = 999, seed: int = 0
    ) -> tuple[Citation, ...]:
        """For each sentence of the answer the documents of the prompt it came from; its sentences without documents.

        A source's share is its part of the positive scores on the prompt's content, averaged over the sentence's
        tokens; sources of at least `threshold` are listed. Whether one stands out of chance is tested against
        `samples` random orders of these scores over the prompt's tokens, the sources' sizes kept, all sources of a
        sentence together (`measure.shares`): p at most `level`. An even spread cites nothing. Raises Undefined,
        UnknownOption.
        """
        if not is_number(threshold) or not 0 <= threshold <= 1:
            raise UnknownOption(f"expected threshold= a share between 0 and 1, got {shown(threshold)}")
        return citations(self, threshold, level, samples, seed)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Tidy rows as plain data, one an answer token and source that it has read.

        answer_index, answer, source_index (prompt, then answer), source, where ("prompt", "answer"), score, and
        probability, the answer token's own.
        """
        names, answers, size = self.tokens, self.answer.names, len(self.prompt)
        source = self._source_tokens
        return [
            {
                **{"answer_index": t, "answer": answers[t], "source_index": j, "source": names[j]},
                **{"where": "prompt" if j < source else "answer", "score": score},
                **{"probability": self.said[t].get("target_probability")},
            }
            for t, row in enumerate(self.scores.tolist())
            for j, score in enumerate(row[: size + t])
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: prompt and answer (text, tokens, offsets, special), scores, targets, said, meta."""
        streams = {name: described(getattr(self, name)) for name in ("prompt", "answer")}
        rest = {name: plain(getattr(self, name)) for name in ("targets", "said", "method", "options", "meta")}
        return {**streams, "scores": self.scores.tolist(), **rest, "model": plain(self.meta.get("model"))}

    @checked
    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own, to ask by clicks (no network, everything escaped); written to `path` if given."""
        from mixlens.view import trace

        return trace.page(self, path)

    def _repr_html_(self) -> str:
        from mixlens.view import trace

        return trace.fragment(self)

    @checked
    def to_latex(self, path: PathLike | None = None, *, caption: str | None = None, label: str | None = None) -> str:
        """A tabular, a row a sentence of the answer: its probability and largest sources. Needs booktabs.

        Written to `path` if given. With `caption` (LaTeX) and `label`, a table that floats. Raises ResultFileError,
        UnknownOption.
        """
        from mixlens.view import trace
        from mixlens.view.kit import latex

        return put(latex.floated(trace.tex(trace.by_sentence(self)), "table", caption, label), path)

    @checked
    def plot(self, path: PathLike | None = None, *, by: By = "token", **look: Unpack[Look]) -> Figure:
        """A heatmap, the answer down, prompt and answer across, by units. Raises UnknownOption, ResultFileError."""
        from mixlens.view import trace_figures

        return trace_figures.figure(self.units(by), path, look)

    @checked
    def save(self, path: PathLike) -> Path:
        """Write everything to one file, as `Attribution.save` does; `mixlens.read` gives it back.

        Raises ResultFileError.
        """
        return storage.write(self, path)

    def __rich__(self) -> Any:
        from mixlens.view import trace
        from mixlens.view.kit.visible import Visible

        return Visible(trace.printout(self))

    def __str__(self) -> str:
        from mixlens.view.kit import terminal

        return terminal.as_text(self.__rich__())

    def __repr__(self) -> str:
        return visible(f"Trace({self.method}, {len(self.answer)} answer tokens from {len(self.prompt)} of the prompt)")


def _foils(targets: Sequence[Target]) -> str | None:
    from mixlens.view.kit.spelling import spelled

    foils = [target.foil for target in targets if target.foil is not None]
    if not foils:
        return None
    if len(foils) > 1 and len(set(foils)) == 1:  # one token rather than each
        return spelled(foils[0]).replace("␣", " ").strip()
    names = [spelled(target.label if target.foil is None else target.foil) for target in targets]
    return "".join(names).replace("␣", " ").strip()
