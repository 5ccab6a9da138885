"""`LayerMaps`: a map a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mixlens.aggregate.shares import normalize_rows
from mixlens.arguments import checked
from mixlens.capture.stream import Stream
from mixlens.errors import InputError, Undefined, UnknownOption
from mixlens.escape import visible
from mixlens.files import PathLike, csv_of, put
from mixlens.packing import plain
from mixlens.progress import barred
from mixlens.results.aggregation import aggregated
from mixlens.results.base import Result
from mixlens.results.by_word import by_word, drawn
from mixlens.results.plain import described, with_origin

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from mixlens.view.kit.style import Look


@dataclass(frozen=True, eq=False, init=False)
class LayerMaps(Result):
    """A map a layer: `scores` (layer, query, key), or (layer, head, query, key) with `per_head=True`.

    `scores[l, i, j]`: how much token j goes into token i at layer l. After an aggregation, layer l stands for
    layers 0 to l together (`aggregation` names it).

    `keys`, or `source`, is the stream that the last axis is of, `queries` the one of the axis before it: the same but
    where one stream attends to another (`rectangular`; cross attention).

    Examples:
        >>> maps = lens.mixing("a deep and meaningful film.", method="value_zeroing")
        >>> tuple(maps.scores.shape)  # (layer, query, key)
        (6, 8, 8)
        >>> rollout = maps.rollout()
        >>> tuple(rollout.layer(-1).scores.shape)
        (1, 8, 8)
        >>> into_cls = rollout.row(0)[-1]  # what went into [CLS] by the last layer, a share a token
        >>> len(into_cls), f"{into_cls.sum():.3f}"
        (8, '1.000')
    """

    rows_sum_to_one: bool = False
    holds_residual: bool = False
    signed: bool = False
    aggregation: str | None = None
    windows: tuple[int | None, ...] | None = None  # causal models: how far back each layer sees (None: all the way)
    causal: bool = False
    rows: tuple[int, ...] | None = None  # which query rows are here, where not all
    layer_numbers: tuple[int, ...] | None = None  # which layers are here, where not all `depth` of them
    depth: int | None = None
    into: Stream | None = None  # the stream of the queries, where it is not that of the keys

    def __init__(
        self,
        source: Stream | None = None,
        scores: Tensor | None = None,
        method: str | None = None,
        options: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        rows_sum_to_one: bool = False,
        holds_residual: bool = False,
        signed: bool = False,
        aggregation: str | None = None,
        windows: tuple[int | None, ...] | None = None,
        causal: bool = False,
        rows: tuple[int, ...] | None = None,
        layer_numbers: tuple[int, ...] | None = None,
        depth: int | None = None,
        into: Stream | None = None,
        *,
        keys: Stream | None = None,
        queries: Stream | tuple[int, ...] | None = None,
    ) -> None:
        """Maps from `keys` (or `source`) into `queries` (or `into`); from a stream into itself without the second.

        `queries` also takes the numbers of the rows that are here, which `rows` is called by now. Raises InputError
        where maps between two streams have another shape than these.
        """
        keys = source if keys is None else keys
        into = queries if isinstance(queries, Stream) else into
        rows = rows if queries is None or isinstance(queries, Stream) else queries
        if keys is None or scores is None or method is None:
            raise TypeError("LayerMaps needs a stream (source=, or keys= and queries=), scores= and method=")
        super().__init__(keys, scores, method, {} if options is None else options, {} if meta is None else meta)
        values = {
            "rows_sum_to_one": rows_sum_to_one,
            "holds_residual": holds_residual,
            "signed": signed,
            "aggregation": aggregation,
            "windows": windows,
            "causal": causal,
            "rows": rows,
            "layer_numbers": layer_numbers,
            "depth": depth,
            "into": None if into is keys else into,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)  # as a frozen dataclass's own __init__ does
        if self.rectangular:
            shape = (len(self.queries) if rows is None else len(rows), len(keys))
            if tuple(scores.shape[-2:]) != shape:
                raise InputError(
                    f"expected scores (..., {shape[0]}, {shape[1]}), query by key, as long as the two streams (or the "
                    f"rows that are here), got {tuple(scores.shape)}"
                )

    @property
    def keys(self) -> Stream:
        """The stream that is taken from: `source`."""
        return self.source

    @property
    def queries(self) -> Stream:
        """The stream that takes: the keys' own, but where one stream attends to another."""
        return self.source if self.into is None else self.into

    @property
    def rectangular(self) -> bool:
        """Whether the maps are from one stream into another."""
        return self.into is not None

    @cached_property
    def heads(self) -> int | None:
        """Number of heads where the maps are per head, else None."""
        return int(self.scores.shape[1]) if self.scores.ndim == 4 else None

    def __len__(self) -> int:
        return int(self.scores.shape[0])

    @checked
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
        return aggregated(
            self, "rollout", residual=residual, normalize=normalize, head=head, receptive_field=receptive_field
        )

    @barred
    @checked
    def flow(
        self,
        residual: float | str | None = "auto",
        normalize: bool = True,
        queries: Sequence[int] | None = None,
        layers: Sequence[int] | None = None,
        head: int | None = None,
        receptive_field: bool = False,
        progress: Callable[[int, int], None] | bool | None = None,
    ) -> LayerMaps:
        """The exact maximum flow from each token of a layer to each input token (Abnar & Zuidema 2020).

        The maps' rows must sum to 1 (`normalized()`). `residual`, `head` and `receptive_field` as in `rollout`.
        `normalize`: divide the rows of flow values by their sum, as the authors do. `queries`, `layers`: compute these
        alone; all rows of all layers take minutes at 128 tokens. `progress`: True for a bar, or
        a function of (rows done, rows in all).
        Raises Undefined, UnknownOption.
        """
        chosen: dict[str, Any] = {"queries": queries, "layers": layers, "head": head, "progress": progress}
        return aggregated(
            self, "flow", residual=residual, normalize=normalize, receptive_field=receptive_field, **chosen
        )

    def normalized(self) -> LayerMaps:
        """The maps with each row divided by its sum; a row that is all zero stays so. Raises Undefined if signed."""
        if self.signed:
            raise Undefined(
                f"{self.method} is signed: the sum of a row may be 0 or less, so it is no share of anything"
            )
        meta = {**self.meta, "rows_divided": True}
        return replace(self, scores=normalize_rows(self.scores), rows_sum_to_one=True, meta=meta)

    @checked
    def mean(self, receptive_field: bool = False) -> LayerMaps:
        """The mean of the maps of layers 0 to l."""
        return aggregated(self, "mean", receptive_field=receptive_field)

    @checked
    def sum(self, receptive_field: bool = False) -> LayerMaps:
        """The sum of the maps of layers 0 to l."""
        return aggregated(self, "sum", receptive_field=receptive_field)

    @checked
    def layer(self, k: int, receptive_field: bool = False) -> LayerMaps:
        """Layer k alone (0-based, negatives count from the end), again as LayerMaps of one layer. Raises Undefined."""
        return aggregated(self, "layer", k=k, receptive_field=receptive_field)

    def by_word(self) -> LayerMaps:
        """The maps of the words of a text or a sound: summed over the positions of the word that is taken from, the
        mean over those of the word that takes. Raises InputError where no words are known, Undefined.
        """
        return by_word(self)

    @checked
    def row(self, i: int | str) -> Tensor:
        """Query row i of every layer, (layer, key) or (layer, head, key); `"max"`: the maximum over queries.

        Raises UnknownOption for a row that does not exist or was not computed.
        """
        if i == "max" and self.rows is None:
            return self.scores.amax(-2)
        n = self.scores.shape[-2] if self.rows is None else len(self.queries)
        if not isinstance(i, int) or not -n <= i < n:
            allowed = f"a row of -{n} to {n - 1} or 'max'" if self.rows is None else f"one row of -{n} to {n - 1}"
            raise UnknownOption(f"expected {allowed}, got {i!r}")
        if self.rows is None:
            return self.scores[..., i, :]
        if i % n not in self.rows:
            here = ", ".join(map(str, self.rows))
            raise UnknownOption(f"expected a row that was computed, {here}, got {i}; ask with queries=[{i}]")
        return self.scores[..., self.rows.index(i % n), :]

    @checked
    def per_head(self, head: int) -> LayerMaps:
        """The maps of one head, (layer, query, key). Raises UnknownOption."""
        if self.heads is None:
            raise UnknownOption("expected maps with a head axis, got (layer, query, key); ask with per_head=True")
        if head is None or not -self.heads <= head < self.heads:
            raise UnknownOption(f"expected a head of -{self.heads} to {self.heads - 1}, got {head}")
        return replace(self, scores=self.scores[:, head], options={**self.options, "head": head})

    @checked
    def plot(
        self,
        path: PathLike | None = None,
        *,
        row: int | str | None = None,
        kind: str = "heatmap",
        **look: Unpack[Look],
    ) -> Figure:
        """A figure: `kind="heatmap"`, a heatmap a layer (with heads a row of them), or `"graph"`, weights as lines.

        `row=i` (or `"max"`): the layer x token picture of one query row, layer 1 at the bottom (GlobEnc, Figure 1);
        where one row was computed, that one. `"graph"` needs all rows and layers.
        The ending of `path` (png, svg, pdf) says the format. Raises UnknownOption, ResultFileError.
        """
        from mixlens.view import maps_figures

        if kind == "graph" and self.rectangular:
            raise Undefined(
                "expected maps of a stream into itself for a graph, got maps from one stream into another, its layers "
                "do not stand on each other; draw kind='heatmap'"
            )
        if kind == "graph" and (self.rows is not None or self.layer_numbers is not None):
            raise Undefined(
                "expected all rows and layers for a graph, got those of flow(queries=..., layers=...); leave them out, "
                "or draw kind='heatmap'"
            )
        if row is None and self.rows is not None and len(self.rows) == 1:
            row = self.rows[0]
        return maps_figures.figure(drawn(self), path, row=row, kind=kind, look=look)

    @checked
    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own with a picture a layer; written to `path` if given, returned in any case."""
        from mixlens.view import maps

        return maps.page(drawn(self), path)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: text, tokens, scores (nested lists), method, options, model, meta."""
        # whatever else the class has, so that a field that is added is not forgotten here
        names = [f.name for f in fields(self) if f.name not in (*(f.name for f in fields(Result)), "into")]
        more = {"queries" if name == "rows" else name: plain(getattr(self, name)) for name in names}  # as it always was
        if self.into is not None:
            more |= {f"query_{key}": value for key, value in described(self.into).items()}
        return with_origin(self, more)

    def _repr_html_(self) -> str:
        from mixlens.view import maps

        return maps.fragment(drawn(self))

    def to_frame(self) -> pandas.DataFrame:
        """A long table: layer, (head,) query, key, score. Needs the extra `pandas`."""
        from mixlens.view import maps

        return maps.data_frame(self)

    to_pandas = to_frame

    @checked
    def to_csv(self, path: PathLike | None = None) -> str:
        """A row a score: layer, (head,) query, key, counted from 0, what both are called, and the score.

        Written to `path` if given. Raises ResultFileError.
        """
        from mixlens.view import maps

        return put(csv_of(maps.named_columns(self)), path)

    def __rich__(self) -> Any:
        from mixlens.view import maps
        from mixlens.view.kit.visible import Visible

        return Visible(maps.printout(drawn(self)))

    def __repr__(self) -> str:
        shape = tuple(self.scores.shape)
        method = ".".join(filter(None, (self.method, self.aggregation)))
        return visible(f"LayerMaps({method}, scores {shape})")
