"""Several methods on one text, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixlens.attribute import ATTRIBUTIONS
from mixlens.errors import InputError, Undefined
from mixlens.results import Attribution, PathLike

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Comparison:
    """One text's Attribution by each method, in the order asked for; `skipped`: method -> why it has none."""

    attributions: Mapping[str, Attribution]
    skipped: Mapping[str, str]

    @property
    def first(self) -> Attribution:
        """The first method's, for what all share: text, tokens, target."""
        return next(iter(self.attributions.values()))

    def __getitem__(self, method: str) -> Attribution:
        return self.attributions[method]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: text, tokens, target, model, and per method scores and words; skipped with reasons."""
        shared = {k: v for k, v in self.first.to_dict().items() if k in ("text", "tokens", "target", "model")}
        kept = ("scores", "words", "options", "meta")
        methods = {n: {k: v for k, v in a.to_dict().items() if k in kept} for n, a in self.attributions.items()}
        return {**shared, "methods": methods, "skipped": dict(self.skipped)}

    def to_frame(self) -> pandas.DataFrame:
        """A row a token, a column a method. Needs the extra `pandas`."""
        from mixlens.view import frame

        return frame.comparison(self)

    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own: the text once a method, coloured; written to `path` if given."""
        from mixlens.view import comparison

        return comparison.page(self, path)

    def plot(self, path: PathLike | None = None) -> Figure:
        """Methods by words, each method's scores on its own scale. The ending of `path` says the format."""
        from mixlens.view import comparison

        return comparison.figure(self, path)

    def _repr_html_(self) -> str:
        from mixlens.view import comparison

        return comparison.fragment(self)

    def __rich__(self) -> Any:
        from mixlens.view import comparison

        return comparison.table(self)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.attributions)}; {len(self.first.tokens)} tokens)"


def compare(lens: Any, text: Any, methods: Sequence[str] | None, target: Any, **how: Any) -> Comparison:
    """Explain `text` by each method. A method that is not defined for this model is skipped, with the reason.

    Raises InputError for a list of texts, Undefined when no method is left; unknown names raise.
    """
    found: dict[str, Attribution] = {}
    skipped: dict[str, str] = {}
    for name in ATTRIBUTIONS if methods is None else methods:
        try:
            result = lens.attribute(text, method=name, target=target, **how)
        except Undefined as error:
            skipped[name] = str(error)
            continue
        if isinstance(result, list):
            raise InputError(f"expected one text to compare methods on, got {len(result)}; compare them one by one")
        found[name] = result
    if not found:
        raise Undefined(f"none of the methods is defined for this model: {skipped}")
    return Comparison(found, skipped)
