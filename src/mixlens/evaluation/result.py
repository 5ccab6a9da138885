"""The tidy table of a run: a row a method, measure and layer, and behind it every example's own value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mixlens.arguments import checked
from mixlens.errors import Undefined, UnknownOption, did_you_mean
from mixlens.evaluation.design import MODEL, NULL
from mixlens.evaluation.log import lines
from mixlens.files import PathLike, csv_text, put, write_parquet
from mixlens.measure.statistics import Correlation, Paired, Ranking, paired, permutation, ranking

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from mixlens.view.kit.style import Look


@dataclass(frozen=True)
class Row:
    """One line of the table. `n` values were defined, `n_undefined` not, `n_errors` examples failed.

    `method`: "model" for a measure that looks at no method (`anisotropy`, `mdl_compression`): a line a layer, -1 being
    the embeddings; it is one number of all texts, which has no `std`. `low`, `high`: the bootstrap interval of the
    mean. `null`: the mean of random scores; `p_null`: of the paired bootstrap against them (None where there is no
    pair).
    """

    method: str
    measure: str
    reference: str | None
    layer: int | None
    n: int
    n_undefined: int
    n_errors: int
    mean: float | None
    std: float | None
    low: float | None
    high: float | None
    higher_is_better: bool | None
    null: float | None
    p_null: float | None


COLUMNS = tuple(f.name for f in fields(Row))


@dataclass(frozen=True, eq=False)
class Table:
    """What an evaluation found. `rows` in the order of measures, methods, layers; `manifest`: how it was made.

    `wrong`: the ids of answers of language models that are not the model's own: measures of a known source leave them
    out.

    Examples:
        >>> data = [{"text": "a good film.", "label": "positive"}, {"text": "a bad film.", "label": "negative"}]
        >>> table = mixlens.evaluate(lens, data, methods=["alti", "random"], measures=["aopc"])
        >>> table.row("aopc", "alti").mean > table.row("aopc", "random").mean
        True
        >>> table.ranking("aopc").names
        ('alti', 'random')
        >>> table.to_csv().splitlines()[0]
        'method,measure,reference,layer,n,n_undefined,n_errors,mean,std,low,high,higher_is_better,null,p_null'
    """

    rows: tuple[Row, ...]
    manifest: Mapping[str, Any]
    folder: Path
    level: float = 0.95
    resamples: int = 1000
    seed: int = 0
    array: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty((0, 0)))
    wrong: tuple[str, ...] = field(repr=False, default=())

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """The measures, `"name:reference"` where they have a reference."""
        return tuple(self.manifest["measures"])

    @cached_property
    def corpora(self) -> tuple[str, ...]:
        """The measures of the model's vectors, which look at no method."""
        return tuple(self.manifest.get("corpora", ()))

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """The methods' labels in the order asked for."""
        return tuple(self.manifest["asked"])

    @checked
    def row(self, measure: str, method: str, layer: int | None = None) -> Row:
        """One line; `method` is "model" for a measure that looks at none. Raises UnknownOption."""
        facts = self.facts(measure)
        wanted = (method, facts["label"], facts["reference"], layer)
        for row in self.rows:
            if (row.method, row.measure, row.reference, row.layer) == wanted:
                return row
        raise UnknownOption(f"no row of {measure!r}, {method!r}, layer {layer}{did_you_mean(method, self.methods)}")

    @checked
    def values(self, measure: str, method: str, layer: int | None = None) -> NDArray[np.float64]:
        """(example,) in the data's order: the measure of each; NaN where it is undefined or failed.

        The null's are there under the method "random". Raises UnknownOption.
        """
        return self._column(self.named(measure), method, layer, None)

    @checked
    def curve(self, measure: str, method: str) -> NDArray[np.float64]:
        """(example, 1 + level): the answer's probability with nothing, then ever more taken out.

        Raises UnknownOption.
        """
        name = self.named(measure)
        levels = [c[3] for c in self.manifest["columns"] if c[:3] == [name, method, None] and c[3] is not None]
        if not levels:
            raise UnknownOption(f"{measure} has no curve of {method!r} that is alike for all texts")
        return np.stack([self._column(name, method, None, level) for level in levels], axis=1)

    def examples(self) -> Iterator[dict[str, Any]]:
        """Each example's own line: i, id, tokens, label, target, prediction, log_p, values; or error."""
        yield from lines(self.folder)  # from here, so that the table, whose folder it is, lives as long

    @checked
    def better(self, measure: str, a: str, b: str, *, layer: int | None = None) -> Paired:
        """a less b on the examples where both are defined: difference, interval and p by the paired bootstrap."""
        return paired(
            self.values(measure, a, layer),
            self.values(measure, b, layer),
            level=self.level,
            resamples=self.resamples,
            seed=self.seed,
        )

    @checked
    def ranking(self, measure: str) -> Ranking:
        """The methods from the best down, and the groups that the paired bootstrap does not distinguish.

        Raises UnknownOption, and Undefined for a measure of which neither end is better.
        """
        name, higher = self.named(measure), self.facts(measure)["higher_is_better"]
        if higher is None:
            raise Undefined(f"{measure} ranks no methods: neither more nor less of it is better")
        values = {m: v for m in self.methods if np.isfinite(v := self.values(name, m)).any()}
        return ranking(values, higher, level=self.level, resamples=self.resamples, seed=self.seed)

    @checked
    def layers(self, measure: str, method: str = MODEL) -> tuple[Row, ...]:
        """A measure's lines of single layers, from the first up. Raises UnknownOption."""
        rows = [r for r in self.rows if self.is_of(r, measure) and r.method == method and r.layer is not None]
        if not rows:
            hint = "layers='each'" if self.named(measure) in self.measures else 'method="model"'
            raise UnknownOption(f"no layers of {measure!r}, {method!r} in this table; ask for {hint}")
        return tuple(sorted(rows, key=lambda r: r.layer or 0))

    @checked
    def correlation(self, measure: str, method: str, other: str = "mdl_compression") -> Correlation:
        """Over layers: do those in which `measure` of a method is higher have more of a measure of the model too?

        Spearman's rho of the layers' numbers and its permutation p, exact for up to 8 layers; the embeddings, which no
        method explains, are left out (Mohebbi 2023, Table 2). Raises UnknownOption.
        """
        means = {r.layer: r.mean for r in self.layers(measure, method)}
        pairs = [(means[r.layer], r.mean) for r in self.layers(other) if r.layer in means]
        x, y = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return permutation(x, y, statistic="spearman")

    def is_of(self, row: Row, measure: str) -> bool:
        """Whether a line belongs to a measure. Raises UnknownOption."""
        facts = self.facts(measure)
        return (row.measure, row.reference) == (facts["label"], facts["reference"])

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows as plain data."""
        return [asdict(row) for row in self.rows]

    @checked
    def to_csv(self, path: PathLike | None = None) -> str:
        """The table as CSV, every number to the last bit; written to `path` if given. Raises ResultFileError."""
        return put(csv_text(COLUMNS, self.to_dicts()), path)

    @checked
    def to_parquet(self, path: PathLike) -> Path:
        """Write the table as Parquet. Needs the extra `parquet`. Raises MissingExtra, ResultFileError."""
        kinds = {f.name: str(f.type).partition(" ")[0] for f in fields(Row)}
        return write_parquet(path, kinds, self.to_dicts())

    def to_frame(self) -> pandas.DataFrame:
        """The table for pandas. Needs the extra `pandas`. Raises MissingExtra."""
        from mixlens.view import evaluation

        return evaluation.data_frame(self)

    to_pandas = to_frame

    @checked
    def to_latex(self, path: PathLike | None = None, *, caption: str | None = None, label: str | None = None) -> str:
        """Tabulars with intervals, methods by measures and each measure by layer where there are layers.

        The best is bold, what is indistinguishable from chance grey; needs booktabs and xcolor. Written to `path` if
        given. With `caption` (LaTeX) and `label`, a table that floats. Raises ResultFileError, UnknownOption.
        """
        from mixlens.view import evaluation
        from mixlens.view.kit import latex

        return put(latex.floated(evaluation.tex(self), "table", caption, label), path)

    @checked
    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own with tables and pictures; written to `path` if given. Raises ResultFileError."""
        from mixlens.view import evaluation

        return put(evaluation.page(self), path)

    @checked
    def plot(
        self,
        path: PathLike | None = None,
        *,
        kind: str | None = None,
        measure: str | None = None,
        **look: Unpack[Look],
    ) -> Figure:
        """A figure: `kind="ranking"` (critical-difference style), `"heatmap"` (method x layer), `"curves"`, `"layers"`.

        "layers": a measure of the model's vectors, layer by layer; the default where there are no methods.
        `measure`: the first that has such a picture by default. Raises UnknownOption, ResultFileError.
        """
        from mixlens.view import evaluation

        return evaluation.figure(self, path, kind=kind, measure=measure, look=look)

    def _repr_html_(self) -> str:
        from mixlens.view import evaluation

        return evaluation.fragment(self)

    def __rich__(self) -> Any:
        from mixlens.view import evaluation
        from mixlens.view.kit.visible import Visible

        return Visible(evaluation.Shown(self))

    def __str__(self) -> str:
        from mixlens.view.kit import terminal

        return terminal.as_text(self.__rich__())

    def __repr__(self) -> str:
        count = len(self.measures) + len(self.corpora)
        sizes = (len(self.methods), "method"), (count, "measure"), (self.array.shape[1], "example")
        return f"Table({', '.join(f'{n} {noun}' + 's' * (n != 1) for n, noun in sizes)})"

    def facts(self, measure: str) -> Mapping[str, Any]:
        """What the manifest says of a measure. Raises UnknownOption."""
        name = self.named(measure)
        return dict(self.manifest["measures"][name] if name in self.measures else self.manifest["corpora"][name])

    def named(self, name: str) -> str:
        """A measure's own name: `"spearman:saliency"` for `"spearman"` where that is clear. Raises UnknownOption."""
        if name in self.measures or name in self.corpora:
            return name
        matches = [m for m in self.measures if self.manifest["measures"][m]["label"] == name]
        if len(matches) == 1:
            return matches[0]
        known = (*self.measures, *self.corpora)
        hint = f"; say which: {', '.join(matches)}" if matches else did_you_mean(name, known)
        raise UnknownOption(f"no measure {name!r} in this table{hint}")

    @cached_property
    def _places(self) -> dict[tuple[Any, ...], int]:
        return {tuple(column): i for i, column in enumerate(self.manifest["columns"])}

    def _column(self, name: str, method: str, layer: int | None, level: int | None) -> NDArray[np.float64]:
        place = self._places.get((name, method, layer, level))
        if name in self.corpora:
            raise UnknownOption(f"{name} is one number of all texts, no text has one of its own; see Table.layers")
        if place is None:
            known = [*self.methods, NULL]
            raise UnknownOption(f"no values of {name!r}, {method!r}, layer {layer}{did_you_mean(method, known)}")
        return np.array(self.array[place])
