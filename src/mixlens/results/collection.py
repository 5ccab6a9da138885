"""`Results`: what several texts give, a list that can be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from mixlens.arguments import checked
from mixlens.files import PathLike

if TYPE_CHECKING:
    import pandas

R = TypeVar("R")  # what a text gives, None where it was skipped


class Results(list[R]):
    """A list of results, one a text; None where a text was skipped. `skipped`: its number -> why.

    Where they are of one text (`target="all"`), `names` says what each is of: the class.

    Examples:
        >>> results = lens.attribute(["a good film.", "a bad film."], method="alti")
        >>> [result.target.label for result in results]
        ['positive', 'negative']
        >>> results.skipped
        {}
        >>> list(results.to_frame().columns)
        ['text', 'token', 'score', 'start', 'end', 'special']
    """

    def __init__(
        self, results: Iterable[R] = (), skipped: Mapping[int, str] | None = None, names: Sequence[str] = ()
    ) -> None:
        super().__init__(results)
        self.skipped, self.names = dict(skipped or {}), tuple(names)

    def to_frame(self) -> pandas.DataFrame:
        """The results' tables below each other, with the number of the text, or the class, in front. Needs `pandas`."""
        from mixlens.view import collection

        return collection.data_frame(self)

    to_pandas = to_frame

    @checked
    def to_html(self, path: PathLike | None = None) -> str:
        """A page of its own with all results; written to `path` if given. Raises ResultFileError."""
        from mixlens.view import collection

        return collection.page(self, path)

    def _repr_html_(self) -> str:
        from mixlens.view import collection

        return collection.fragment(self)
