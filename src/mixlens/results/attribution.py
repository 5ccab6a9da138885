"""`Attribution`: one score a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from mixlens.arguments import checked
from mixlens.escape import visible
from mixlens.files import PathLike, csv_of, put
from mixlens.packing import plain
from mixlens.results.base import Result
from mixlens.results.plain import with_origin
from mixlens.target import Target

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from mixlens.view.kit.style import Look

    Asked = Target | Any  # as typeshed writes what is seldom None: who explains classifiers need not ask each time
else:
    Asked = Target | None  # None of an encoder without a head


@dataclass(frozen=True)
class Word:
    """A word (or a special token, a pause) with the sum of its pieces' scores."""

    text: str
    score: float
    start: float | None  # characters of the raw text, seconds of a sound; None for a special token
    end: float | None
    indices: tuple[int, ...]  # its tokens
    special: bool = False
    segment: int | None = None  # which text of a pair


@dataclass(frozen=True, eq=False)
class Attribution(Result):
    """One score a token: `scores` (token,).

    Examples:
        >>> attr = lens.attribute("a deep and meaningful film.", method="alti")
        >>> attr.target.label, f"{attr.meta['probability']:.3f}"
        ('positive', '0.998')
        >>> [(word.text, round(word.score, 2)) for word in attr.words() if word.score > 0.2]
        [('deep', 0.27), ('meaningful', 0.31)]
        >>> tuple(attr.scores.shape), tuple(attr.layers.shape)  # (token,), (layer, token)
        ((8,), (6, 8))
        >>> "meaningful" in attr.to_html()  # to_html("film.html") writes it
        True
    """

    target: Asked = None
    layers: Tensor | None = None  # (layer, token), where a method has per-layer scores

    def words(self) -> tuple[Word, ...]:
        """The words of the text in reading order, each with the sum of its pieces' scores; special tokens stand alone.

        Raises InputError where there are no offsets (token ids came in, or a slow tokenizer), or of a sound no times of
        words; Undefined where the stream has no words (a picture).
        """
        scores = self.scores.tolist()
        out = []
        for u in self.units():
            start, end = (u.start, u.end) if u.place is None else u.place
            out.append(Word(u.text, sum(scores[i] for i in u.indices), start, end, u.indices, u.special, u.segment))
        return tuple(out)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: text, tokens, scores, offsets, special, words, method, options, target, model, meta.

        `words` is None where there are no offsets.
        """
        words = None
        if self.source.has_words:
            pair = isinstance(self.source.raw, tuple)
            keys = ("text", "score", "start", "end", "special", *(("segment",) if pair else ()))
            words = [{key: getattr(word, key) for key in keys} for word in self.words()]
        layers = None if self.layers is None else self.layers.detach().cpu().tolist()
        return with_origin(self, {"words": words, "target": plain(self.target), "layers": layers})

    @checked
    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own (no network, everything escaped); written to `path` if given, returned in any case."""
        from mixlens.view import attribution

        return attribution.page(self, path)

    def _repr_html_(self) -> str:
        from mixlens.view import attribution

        return attribution.fragment(self)

    @checked
    def plot(self, path: PathLike | None = None, *, kind: str | None = None, **look: Unpack[Look]) -> Figure:
        """A figure: `kind="bar"` (a bar a token, the default) or `"text"` (coloured text); of a picture `"picture"`
        (its heat, the default) or `"bar"`; of a sound also `"wave"` (its wave on its words' colours, the default).

        The ending of `path` (png, svg, pdf) says the format. `look`: `size=`, `dpi=`, `font=`, `fontsize=`, `cmap=`,
        `title=`, `ax=` (see `mixlens.view.kit.style.Look`). Raises UnknownOption, ResultFileError.
        """
        from mixlens.view import attribution_figures

        return attribution_figures.figure(self, path, kind=kind, look=look)

    @checked
    def to_latex(self, path: PathLike | None = None, *, caption: str | None = None, label: str | None = None) -> str:
        """Coloured text that a paper can include (needs xcolor); written to `path` if given.

        With `caption` (LaTeX) and `label`, a figure that floats. Raises ResultFileError, UnknownOption.
        """
        from mixlens.view import attribution
        from mixlens.view.kit import latex

        return put(latex.floated(attribution.tex(self), "figure", caption, label), path)

    def to_frame(self) -> pandas.DataFrame:
        """A table, a row a token: token, score, start, end, special. Needs the extra `pandas`."""
        from mixlens.view import attribution

        return attribution.data_frame(self)

    to_pandas = to_frame

    @checked
    def to_csv(self, path: PathLike | None = None) -> str:
        """The columns of `to_frame` as CSV, a row a token; written to `path` if given. Raises ResultFileError."""
        from mixlens.view import attribution

        return put(csv_of(attribution.columns(self)), path)

    def __rich__(self) -> Any:
        from mixlens.view import attribution
        from mixlens.view.kit.visible import Visible

        return Visible(attribution.printout(self))

    def __str__(self) -> str:
        from mixlens.view.kit import terminal

        return terminal.as_text(self.__rich__())

    def __repr__(self) -> str:
        label = self.target and self.target.label
        return visible(f"Attribution({self.method}, {len(self.source)} {self.source.units}, target={label})")
