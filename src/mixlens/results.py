"""What comes out: `LayerMaps` and `Attribution`, frozen, with all that is needed to know where they come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from mixlens import aggregate
from mixlens.attribute.target import Target
from mixlens.capture.text import Tokens
from mixlens.capture.words import Unit, units
from mixlens.errors import Undefined, UnknownOption
from mixlens.mixing.maps import normalize_rows

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Word:
    """A word of the text (or a special token) with the sum of its pieces' scores."""

    text: str
    score: float
    start: int | None  # characters of the raw text; None for a special token
    end: int | None
    indices: tuple[int, ...]  # its tokens
    special: bool = False
    segment: int | None = None  # which text of a pair


@dataclass(frozen=True, eq=False)
class _Result:
    source: Tokens
    scores: Tensor
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str | tuple[str, ...] | None:
        """The raw text, a pair of texts, or None where token ids were explained."""
        return None if not self.source.text else self.source.text[0] if len(self.source.text) == 1 else self.source.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokenizer's own names of the tokens, one a score: `"##ing"`, `"Ġfilm"`."""
        return self.source.pieces

    @property
    def offsets(self) -> tuple[tuple[int, int] | None, ...] | None:
        """Characters [start, end) of every token in its raw text; None for special tokens (and altogether for ids)."""
        return None if self.source.spans is None else tuple(s and s[1:] for s in self.source.spans)

    @property
    def special(self) -> tuple[bool, ...]:
        """True where a token was put there by the tokenizer's template."""
        return self.source.special

    @property
    def display(self) -> tuple[str, ...]:
        """The tokens as a reader knows them: the raw text's characters where there are offsets.

        A token of blanks alone shows as `␣` (`↵` for a line end); where token ids came in, the tokenizer's own name.
        """
        return tuple(_shown(self.source, i) for i in range(len(self.source)))

    def units(self) -> tuple[Unit, ...]:
        """The words of the text with the tokens that each holds (see `capture.words.units`)."""
        return units(self.source)

    def save(self, path: PathLike) -> Path:
        """Write everything to one safetensors file (numbers bit-exact, the rest as JSON in its header).

        Written beside and renamed, so that a killed run leaves no half file. Raises ResultFileError.
        """
        from mixlens import storage

        return storage.write(cast("Attribution | LayerMaps", self), path)


@dataclass(frozen=True, eq=False)
class Attribution(_Result):
    """One score a token: `scores` (token,)."""

    target: Target | None = None
    layers: Tensor | None = None  # (layer, token), where a method has per-layer scores

    def words(self) -> tuple[Word, ...]:
        """The words of the text in reading order, each with the sum of its pieces' scores; special tokens stand alone.

        Raises InputError where there are no offsets (token ids came in, or a slow tokenizer).
        """
        scores = self.scores.tolist()
        return tuple(
            Word(u.text, sum(scores[i] for i in u.indices), u.start, u.end, u.indices, u.special, u.segment)
            for u in self.units()
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: text, tokens, scores, offsets, special, words, method, options, target, model, meta."""
        from mixlens import storage

        return storage.plain(self)

    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own (no network, everything escaped); written to `path` if given, returned in any case."""
        from mixlens.view import html

        return html.attribution(self, path)

    def _repr_html_(self) -> str:
        from mixlens.view import html

        return html.fragment(self)

    def plot(self, path: PathLike | None = None, *, kind: str = "bar") -> Figure:
        """A figure: `kind="bar"` (a bar a token) or `"text"` (coloured text).

        The ending of `path` (png, svg, pdf) says the format. Raises UnknownOption, ResultFileError.
        """
        from mixlens.view import figures

        return figures.attribution(self, path, kind=kind)

    def to_latex(self, path: PathLike | None = None) -> str:
        """Coloured text that a paper can include (needs xcolor); written to `path` if given."""
        from mixlens.view import latex

        return latex.attribution(self, path)

    def to_frame(self) -> pandas.DataFrame:
        """A table, a row a token: token, score, start, end, special. Needs the extra `pandas`."""
        from mixlens.view import frame

        return frame.attribution(self)

    to_pandas = to_frame

    def __rich__(self) -> Any:
        from mixlens.view import terminal

        return terminal.attribution(self)

    def __str__(self) -> str:
        from mixlens.view import terminal

        return terminal.as_text(self.__rich__())

    def __repr__(self) -> str:
        return f"Attribution({self.method}, {len(self.source)} tokens, target={self.target and self.target.label})"


@dataclass(frozen=True, eq=False)
class LayerMaps(_Result):
    """A map a layer: `scores` (layer, query, key), or (layer, head, query, key) with `per_head=True`.

    `scores[l, i, j]`: how much token j goes into token i at layer l. After an aggregation, layer l stands for
    layers 0 to l together (`aggregation` names it).
    """

    rows_sum_to_one: bool = False
    holds_residual: bool = False
    signed: bool = False
    aggregation: str | None = None
    windows: tuple[int | None, ...] | None = None  # causal models: how far back each layer sees (None: all the way)
    causal: bool = False
    queries: tuple[int, ...] | None = None  # which query rows are here, where not all
    layer_numbers: tuple[int, ...] | None = None  # which layers are here, where not all `depth` of them
    depth: int | None = None

    @cached_property
    def heads(self) -> int | None:
        """Number of heads where the maps are per head, else None."""
        return int(self.scores.shape[1]) if self.scores.ndim == 4 else None

    def __len__(self) -> int:
        return int(self.scores.shape[0])

    def rollout(
        self,
        residual: float | str | None = "auto",
        normalize: bool = False,
        head: int | None = None,
        receptive_field: bool = False,
    ) -> LayerMaps:
        """The product of the layer maps up to each layer (Abnar & Zuidema 2020, Eq. 1).

        `residual`: the share of the identity in every map; "auto" is 0.5 for `attention` and none for the rest.
        `normalize`: divide rows by their sum first. `head`: the layer's own head over the head-mean rollout below
        (A.1; needs `per_head=True`). `receptive_field`: causal models, divide by the rollout of uniform attention.
        Raises Undefined.
        """
        return aggregate.apply(
            self, "rollout", residual=residual, normalize=normalize, head=head, receptive_field=receptive_field
        )

    def flow(
        self,
        residual: float | str | None = "auto",
        normalize: bool = True,
        queries: Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
        head: int | None = None,
        receptive_field: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> LayerMaps:
        """The exact maximum flow from each token of a layer to each input token (Abnar & Zuidema 2020).

        The maps' rows must sum to 1 (`normalized()`). `residual`, `head` and `receptive_field` as in `rollout`.
        `normalize`: divide the rows of flow values by their sum, as the authors do. `queries`, `layers`: compute these
        alone; all rows of all layers take minutes at 128 tokens. `progress(rows done, rows in all)`.
        Raises Undefined, UnknownOption.
        """
        return aggregate.apply(
            self,
            "flow",
            residual=residual,
            normalize=normalize,
            queries=queries,
            layers=layers,
            head=head,
            receptive_field=receptive_field,
            progress=progress,
        )

    def normalized(self) -> LayerMaps:
        """The maps with each row divided by its sum; a row that is all zero stays so. Raises Undefined if signed."""
        if self.signed:
            raise Undefined(
                f"{self.method} is signed: the sum of a row may be 0 or less, so it is no share of anything"
            )
        meta = {**self.meta, "rows_divided": True}
        return replace(self, scores=normalize_rows(self.scores), rows_sum_to_one=True, meta=meta)

    def mean(self, receptive_field: bool = False) -> LayerMaps:
        """The mean of the maps of layers 0 to l."""
        return aggregate.apply(self, "mean", receptive_field=receptive_field)

    def sum(self, receptive_field: bool = False) -> LayerMaps:
        """The sum of the maps of layers 0 to l."""
        return aggregate.apply(self, "sum", receptive_field=receptive_field)

    def layer(self, k: int, receptive_field: bool = False) -> LayerMaps:
        """Layer k alone (0-based, negatives count from the end), again as LayerMaps of one layer. Raises Undefined."""
        return aggregate.apply(self, "layer", k=k, receptive_field=receptive_field)

    def row(self, i: int | str) -> Tensor:
        """Query row i of every layer, (layer, key) or (layer, head, key); `"max"`: the maximum over queries.

        Raises UnknownOption for a row that does not exist or was not computed.
        """
        if i == "max" and self.queries is None:
            return self.scores.amax(-2)
        n = self.scores.shape[-2] if self.queries is None else len(self.source)
        if not isinstance(i, int) or not -n <= i < n:
            allowed = f"a row of -{n} to {n - 1} or 'max'" if self.queries is None else f"one row of -{n} to {n - 1}"
            raise UnknownOption(f"expected {allowed}, got {i!r}")
        if self.queries is None:
            return self.scores[..., i, :]
        if i % n not in self.queries:
            here = ", ".join(map(str, self.queries))
            raise UnknownOption(f"expected a row that was computed, {here}, got {i}; ask with queries=[{i}]")
        return self.scores[..., self.queries.index(i % n), :]

    def per_head(self, head: int) -> LayerMaps:
        """The maps of one head, (layer, query, key). Raises UnknownOption."""
        if self.heads is None:
            raise UnknownOption("expected maps with a head axis, got (layer, query, key); ask with per_head=True")
        if not -self.heads <= head < self.heads:
            raise UnknownOption(f"expected a head of -{self.heads} to {self.heads - 1}, got {head}")
        return replace(self, scores=self.scores[:, head], options={**self.options, "head": head})

    def plot(self, path: PathLike | None = None, *, row: int | str | None = None, kind: str = "heatmap") -> Figure:
        """A figure: `kind="heatmap"`, a heatmap a layer (with heads a row of them), or `"graph"`, weights as lines.

        `row=i` (or `"max"`): the layer x token picture of one query row, layer 1 at the bottom (GlobEnc, Figure 1);
        where one row was computed, that one. `"graph"` needs all rows and layers.
        The ending of `path` (png, svg, pdf) says the format. Raises UnknownOption, ResultFileError.
        """
        from mixlens.view import figures

        if kind == "graph" and (self.queries is not None or self.layer_numbers is not None):
            raise Undefined(
                "expected all rows and layers for a graph, got those of flow(queries=..., layers=...); leave them out, "
                "or draw kind='heatmap'"
            )
        if row is None and self.queries is not None and len(self.queries) == 1:
            row = self.queries[0]
        return figures.maps(self, path, row=row, kind=kind)

    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own with a picture a layer; written to `path` if given, returned in any case."""
        from mixlens.view import html

        return html.maps(self, path)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: text, tokens, scores (nested lists), method, options, model, meta."""
        from mixlens import storage

        return storage.plain(self)

    def _repr_html_(self) -> str:
        from mixlens.view import html

        return html.fragment(self)

    def to_frame(self) -> pandas.DataFrame:
        """A long table: layer, (head,) query, key, score. Needs the extra `pandas`."""
        from mixlens.view import frame

        return frame.maps(self)

    to_pandas = to_frame

    def __rich__(self) -> Any:
        from mixlens.view import terminal

        return terminal.maps(self)

    def __repr__(self) -> str:
        shape = tuple(self.scores.shape)
        return f"LayerMaps({self.method}{'.' + self.aggregation if self.aggregation else ''}, scores {shape})"


def _shown(source: Tokens, i: int) -> str:
    piece = source.pieces[i]
    if source.special[i] or not source.text:
        return piece
    span = source.spans[i] if source.spans is not None else None
    if span is None:  # a slow tokenizer: its mark of a blank is all there is to take away
        return piece.lstrip("\u0120\u2581") or "␣"
    seg, start, end = span
    blank = "↵" if source.text[seg][max(start - 1, 0) : start] in ("\n", "\r") else "␣"
    return source.text[seg][start:end] or blank


def read(path: PathLike) -> Attribution | LayerMaps:
    """Read a result that `save` wrote; every number comes back bit-exact. Raises ResultFileError."""
    from mixlens import storage

    return storage.read(path)
