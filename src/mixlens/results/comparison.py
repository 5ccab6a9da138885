"""`Comparison`: one text by several methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.measure.faithfulness import Faithfulness
from mixlens.results.attribution import Attribution
from mixlens.results.base import PathLike
from mixlens.results.maps import LayerMaps

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Comparison:
    """One text's Attribution by each method, in the order asked for; `skipped`: method -> why it has none.

    `faithfulness`: method -> how much faster its order takes the answer away than chance, 0, on the scale of a greedy
    search, 1 (see `measure.faithfulness`); empty where it was not asked for or the model has no probability.
    `maps`: method -> the layer maps behind it, where it has some and they were asked for.
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
        for name, found in self.faithfulness.items():
            methods[name]["faithfulness"] = {k: v if isfinite(v) else None for k, v in vars(found).items()}
        return {**shared, "methods": methods, "skipped": dict(self.skipped)}

    def save(self, path: PathLike) -> Path:
        """Write everything to one file, as `Attribution.save` does; `mixlens.read` gives it back.

        Raises ResultFileError.
        """
        from mixlens import storage

        return storage.write(self, path)

    def to_frame(self) -> pandas.DataFrame:
        """A row a token, a column a method. Needs the extra `pandas`."""
        from mixlens.view import frame

        return frame.comparison(self)

    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own: the text once a method, coloured; written to `path` if given."""
        from mixlens.view import comparison

        return comparison.page(self, path)

    def plot(self, path: PathLike | None = None, *, kind: str = "words") -> Figure:
        """A figure: `kind="words"`, methods by words, or `"maps"`, the methods' layer maps side by side.

        Each method has its own scale. The ending of `path` says the format. Raises UnknownOption, ResultFileError.
        """
        from mixlens.view import comparison

        return comparison.figure(self, path, kind)

    def _repr_html_(self) -> str:
        from mixlens.view import comparison

        return comparison.fragment(self)

    def __rich__(self) -> Any:
        from mixlens.view import comparison

        return comparison.table(self)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.attributions)}; {len(self.first.tokens)} tokens)"
