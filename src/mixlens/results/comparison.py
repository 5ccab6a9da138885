"""`Comparison`: one text by several methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens import storage
from mixlens.arguments import checked
from mixlens.escape import visible
from mixlens.files import PathLike, csv_text, put, write_parquet
from mixlens.measure.faithfulness import Faithfulness
from mixlens.results.attribution import Attribution
from mixlens.results.maps import LayerMaps

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from mixlens.view.kit.style import Look

_COLUMNS = {"method": "str", "index": "int", "token": "str", "special": "bool"}
_NUMBERS = dict.fromkeys(("score", "faithfulness", "aopc", "permuted", "greedy", "best", "p"), "float")


@dataclass(frozen=True, eq=False)
class Comparison:
    """One text's Attribution by each method, in the order asked for; `skipped`: method -> why it has none
    ("faithfulness" and "maps of METHOD" there: why those are missing, where they were asked for and failed).

    `faithfulness`: method -> how much faster its order takes the answer away than chance, 0, on the scale of the best
    order found, 1 (see `measure.faithfulness`); empty where it was not asked for or the model has no probability.
    `maps`: method -> the layer maps behind it, where it has some and they were asked for.

    Examples:
        >>> both = lens.compare("a good film.", methods=["alti", "grad_x_input"])
        >>> both
        Comparison(alti, grad_x_input; 6 tokens)
        >>> {name: round(rating.value, 2) for name, rating in both.faithfulness.items()}
        {'alti': 1.0, 'grad_x_input': 0.62}
        >>> both["alti"].words()[2].text
        'good'
    """

    attributions: Mapping[str, Attribution]
    skipped: Mapping[str, str]
    faithfulness: Mapping[str, Faithfulness] = field(default_factory=dict)
    maps: Mapping[str, LayerMaps] = field(default_factory=dict)

    @property
    def first(self) -> Attribution:
        """The first method's, for what all share: text, tokens, target."""
        return next(iter(self.attributions.values()))

    def __getitem__(self, method: str) -> Attribution:
        return self.attributions[method]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: text, tokens, target, model, skipped; per method scores, words, faithfulness."""
        shared = {k: v for k, v in self.first.to_dict().items() if k in ("text", "tokens", "target", "model")}
        kept = ("scores", "words", "options", "meta")
        methods = {n: {k: v for k, v in a.to_dict().items() if k in kept} for n, a in self.attributions.items()}
        for name, rating in self.faithfulness.items():
            methods[name]["faithfulness"] = _plain(rating)
        return {**shared, "methods": methods, "skipped": dict(self.skipped)}

    @checked
    def save(self, path: PathLike) -> Path:
        """Write everything to one file, as `Attribution.save` does; `mixlens.read` gives it back.

        Raises ResultFileError.
        """
        return storage.write(self, path)

    def to_frame(self) -> pandas.DataFrame:
        """A row a token, a column a method; `to_csv` is long instead. Needs the extra `pandas`."""
        from mixlens.view import comparison

        return comparison.data_frame(self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Tidy rows as plain data, one a method and token.

        method, index (of the token), token, special, segment (which text of a pair), start, end (characters in it),
        score, and the method's own faithfulness, aopc, permuted, greedy, best, p, alike in its rows. None: not there.
        Of what is no text, the places' own numbers stand for segment, start and end.
        """
        source, columns = self.first.source, self._columns()
        empty = (None,) * len(source.axes)
        places = (None,) * len(source) if source.places is None else source.places
        rows = []
        for name, attr in self.attributions.items():
            rating = self.faithfulness.get(name)
            numbers = _plain(rating) if rating else {}
            numbers["faithfulness"] = numbers.pop("value", None)
            for i, score in enumerate(attr.scores.tolist()):
                row = {"method": name, "index": i, "token": source.names[i], "special": source.special[i]}
                row |= {**dict(zip(source.axes, places[i] or empty, strict=True)), "score": score, **numbers}
                rows.append({column: row.get(column) for column in columns})
        return rows

    def _columns(self) -> dict[str, str]:
        """The columns of `to_dicts` and their kinds; where a position stands has one for each number of a place."""
        source = self.first.source
        parts = any(isinstance(number, float) for place in source.places or () for number in place or ())
        kind = "float" if parts else "int"
        return {**_COLUMNS, **dict.fromkeys(source.axes, kind), **_NUMBERS}

    @checked
    def to_csv(self, path: PathLike | None = None) -> str:
        """The rows of `to_dicts` as CSV, every number to the last bit; written to `path` if given.

        Raises ResultFileError.
        """
        return put(csv_text(tuple(self._columns()), self.to_dicts()), path)

    @checked
    def to_parquet(self, path: PathLike) -> Path:
        """Write the rows of `to_dicts` as Parquet. Needs the extra `parquet`. Raises MissingExtra, ResultFileError."""
        return write_parquet(path, self._columns(), self.to_dicts())

    @checked
    def to_latex(self, path: PathLike | None = None, *, caption: str | None = None, label: str | None = None) -> str:
        """A tabular, a row a method: its faithfulness, the coloured text; written to `path` if given.

        Needs booktabs and xcolor. With `caption` (LaTeX) and `label`, a table that floats. Raises ResultFileError,
        UnknownOption.
        """
        from mixlens.view import comparison
        from mixlens.view.kit import latex

        return put(latex.floated(comparison.tex(self), "table", caption, label), path)

    @checked
    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own: the text once a method, coloured; written to `path` if given."""
        from mixlens.view import comparison

        return comparison.page(self, path)

    @checked
    def plot(self, path: PathLike | None = None, *, kind: str = "words", **look: Unpack[Look]) -> Figure:
        """A figure: `kind="words"`, methods by words, or `"maps"`, the methods' layer maps side by side.

        Each method has its own scale. The ending of `path` says the format. Raises UnknownOption, ResultFileError.
        """
        from mixlens.view import comparison_figures

        return comparison_figures.figure(self, path, kind, look)

    def _repr_html_(self) -> str:
        from mixlens.view import comparison

        return comparison.fragment(self)

    def __rich__(self) -> Any:
        from mixlens.view import comparison
        from mixlens.view.kit.visible import Visible

        return Visible(comparison.printout(self))

    def __str__(self) -> str:
        from mixlens.view.kit import terminal

        return terminal.as_text(self.__rich__())

    def __repr__(self) -> str:
        source = self.first.source
        return visible(f"Comparison({', '.join(self.attributions)}; {len(source)} {source.units})")


def _plain(rating: Faithfulness) -> dict[str, float | None]:
    """The numbers by name for JSON and tables, which have no NaN."""
    return {name: v if isfinite(v) else None for name, v in vars(rating).items()}
