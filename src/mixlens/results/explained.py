"""`Explained`: every text of a data set, explained, in a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixlens.arguments import COUNT, checked, is_whole, shown
from mixlens.errors import DataError, ResultFileError, UnknownOption, did_you_mean
from mixlens.escape import visible
from mixlens.files import PathLike, folder_of
from mixlens.measure.vocabulary import TextWords, words_of
from mixlens.results import shards
from mixlens.results.attribution import Attribution
from mixlens.results.folder import END, finished, last_mark, manifest_of
from mixlens.results.vocabulary import WordScore, WordTable

if TYPE_CHECKING:
    import pandas

KIND = "explain_data"  # what a manifest says of such a run
_PLAIN = ("row", "id", "target", "probability", "prediction", "label")
_READ = (*_PLAIN, "text", "pair", "tokens", "scores", "words", "word_scores", "data")
_COUNTED = ("row", "target", "tokens", "scores", "special", "words", "word_scores", "data", "error")


@dataclass(frozen=True)
class Failure:
    """A row of the data that could not be explained, and why."""

    row: int
    id: str
    error: str
    text: str | tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class ExplainedText:
    """A text of the data set with its scores. `row`: its number there; `data`: the row's other columns.

    `words`: (word, score) in reading order, without special tokens; None where there are no offsets. `probability`: of
    the target.
    """

    row: int
    id: str
    text: str | tuple[str, str] | None
    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    words: tuple[tuple[str, float], ...] | None
    target: str | None
    probability: float | None
    prediction: str | None
    label: str | None
    data: Mapping[str, Any] = field(default_factory=dict)


class Explained:
    """The explained texts of a data set, as `mixlens.explain_data` left them in a folder; read as they are asked for.

    Iterates over `ExplainedText`s in the data's order; rows that failed are `failures`. `manifest`: how the run was
    made; `finished`: whether it came to its end.

    Examples:
        >>> import tempfile
        >>> texts = ["a deep film.", "a dull film.", "so deep and so good", ""]
        >>> folder = tempfile.TemporaryDirectory()
        >>> explained = mixlens.explain_data(lens, texts, "alti", out=folder.name)
        >>> explained
        Explained(alti, 3 texts, 1 failed)
        >>> [(text.id, text.target) for text in explained]
        [('0', 'positive'), ('1', 'negative'), ('2', 'positive')]
        >>> explained.failures[0].row, explained.failures[0].error[:22]
        (3, 'EmptyInput: expected a')
        >>> [(word.target, word.word, word.texts) for word in explained.words(least=2)]
        [('positive', 'deep', 2)]
        >>> explained.attribution("1").target.label
        'negative'
        >>> mixlens.read(folder.name)
        Explained(alti, 3 texts, 1 failed)
        >>> folder.cleanup()
    """

    @checked
    def __init__(self, path: PathLike) -> None:
        self.folder = folder_of(path)
        manifest = manifest_of(self.folder)
        if manifest is None or manifest.get("kind") != KIND:
            raise ResultFileError(
                f"expected a folder that mixlens.explain_data wrote, got {self.folder}: no manifest.json of such a run"
            )
        self.manifest: Mapping[str, Any] = manifest

    @cached_property
    def parts(self) -> tuple[tuple[Path, shards.Head], ...]:
        """The files, and what each says of itself. Raises MissingExtra, ResultFileError: one is missing or damaged."""
        paths = sorted(self.folder.glob(shards.PATTERN))
        row, out = 0, []
        for number, path in enumerate(paths):
            head = shards.head_of(path)
            if path.name != shards.name_of(number) or head.first != row:
                raise ResultFileError(
                    f"expected {shards.name_of(number)} to go on at row {row}, got {path.name} from row {head.first} "
                    f"in {self.folder}; delete what is in it from there on, and call mixlens.explain_data again"
                )
            row += head.rows
            out.append((path, head))
        mark = last_mark(self.folder) or {}
        there, ended = mark.get("rows", 0), mark.get("window") == END
        if row < there or (ended and row != there):  # (a file is there before the line that says so)
            raise ResultFileError(
                f"expected the files of {there:,} rows in {self.folder}, got those of {row:,}; call "
                "mixlens.explain_data again with the same arguments: it makes what is missing"
            )
        return tuple(out)

    @property
    def method(self) -> str:
        """What made the scores."""
        return str(self.manifest["method"])

    @property
    def options(self) -> Mapping[str, Any]:
        """With which options."""
        return dict(self.parts[0][1].options) if self.parts else {}

    @property
    def finished(self) -> bool:
        """Whether all of the data was read; a run that was killed goes on with the same call."""
        return finished(self.folder) is not None

    def __len__(self) -> int:
        return sum(head.rows - head.failed for _, head in self.parts)

    def __iter__(self) -> Iterator[ExplainedText]:
        for row in self._rows((*_READ, "error")):
            if row["error"] is None:
                yield _text(row)

    def columns(self, *names: str) -> Iterator[dict[str, Any]]:
        """The explained texts as plain data of these columns of the files alone, which takes less than all of a text.

        Raises UnknownOption.
        """
        for name in names:
            if name not in shards.COLUMNS:
                raise UnknownOption(f"no column {shown(name)}{did_you_mean(name, shards.COLUMNS)}")
        for row in self._rows((*dict.fromkeys(names), *(("error",) if "error" not in names else ()))):
            if row["error"] is None:
                parsed = {"data": shards.data_of(row)} if "data" in names else {}
                yield {name: row[name] for name in names} | parsed

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The rows that could not be explained."""
        out = []
        for path, head in self.parts:
            if head.failed:
                rows = shards.read(path, ("row", "id", "text", "pair", "error"))
                out += [Failure(r["row"], r["id"], r["error"], _raw(r)) for r in rows if r["error"] is not None]
        return tuple(out)

    def attribution(self, id: str | int) -> Attribution:
        """The Attribution of a text by its id, or by the number of its row: as `lens.attribute` gives it, in float32.

        Layers' own scores are not kept. Raises DataError where there is none, or several have the id.
        """
        rows = list(self._by_row([id]) if is_whole(id) else self._by_id(id))
        if not rows:
            raise DataError(
                f"expected the id of a text in {self.folder}, or the number of its row, got {shown(id)}; ids are "
                "strings: [text.id for text in explained]"
            )
        if len(rows) > 1:
            numbers = ", ".join(str(row["row"]) for row, _ in rows[:5])
            raise DataError(
                f"expected an id of one text, {shown(id)} is of rows {numbers}; pass a row's number, an int"
            )
        row, head = rows[0]
        if row["error"] is not None:
            raise DataError(f"row {row['row']} could not be explained: {row['error']}")
        return shards.attribution_of(row, head)

    def attributions(self, rows: Sequence[int]) -> dict[int, Attribution]:
        """The Attributions of explained texts by the numbers of their rows, each file read once."""
        return {r["row"]: shards.attribution_of(r, head) for r, head in self._by_row(rows) if r["error"] is None}

    def words(
        self,
        top: int | None = None,
        *,
        by: str | None = None,
        least: int = 3,
        level: float = 0.95,
        resamples: int = 200,
        seed: int = 0,
    ) -> WordTable:
        """The words that speak for each class: of each word its mean score over the texts of the class that hold it.

        With a bootstrap interval over texts, and what is left where each text's scores are shuffled among its words;
        a word `stands_out` where that does not explain it, of all words of the class together, each text in its own
        standard deviation. A text counts for the class that was explained in it. Words are compared without case;
        `least`: in so many texts at least; `top`: so many of each class; `by`: apart for each value of a column of the
        data. Raises UnknownOption, NotFinite (files with scores that are none).
        """
        for name, value in (("top", top), ("least", least), ("resamples", resamples)):
            if not (COUNT.fits(value) or (name == "top" and value is None)):
                raise UnknownOption(f"expected {name} of 1 or more, got {shown(value)}")
        if not (isinstance(level, float) and 0 < level < 1):
            raise UnknownOption(f"expected level between 0 and 1, got {shown(level)}")
        if by is not None:
            self.require_column(by)
        spoken = words_of(lambda: self._counted(by), least=least, level=level, resamples=resamples, seed=seed)
        out: list[WordScore] = []
        shown_of: dict[Any, int] = {}
        for word in spoken.words:
            shown_of[word.group] = shown_of.get(word.group, 0) + 1
            if top is not None and shown_of[word.group] > top:
                continue
            value, target = word.group
            numbers = {name: getattr(word, name) for name in _STATISTICS}
            out.append(WordScore(target, stands_out=word.p <= 1 - level + 1e-12, by=value, **numbers))
        if by is not None:
            from mixlens.view.explained import place

            out.sort(key=lambda row: (place(str(row.by)), str(row.target)))
        return WordTable(tuple(out), level, spoken.left_out, len(spoken.words))

    def require_column(self, by: str) -> None:
        """Raises UnknownOption for a column that no row of the data has."""
        columns: dict[str, None] = {}
        for row in self._rows(("data",)):
            columns |= dict.fromkeys(shards.data_of(row))
            if by in columns:
                return
        raise UnknownOption(
            f"expected by= a column of numbers, flags or short texts, got {shown(by)}{did_you_mean(by, columns)}"
        )

    def frame(self) -> pandas.DataFrame:
        """A row an explained text: id, text, target, probability ..., and the data's other columns.

        Needs the extra `pandas`, and memory for all. Raises MissingExtra.
        """
        from mixlens.view import explained

        return explained.data_frame(self)

    to_frame = to_pandas = frame

    @checked
    def to_html(self, path: PathLike | None = None, *, top: int = 15, by: str | None = None, seed: int = 0) -> str:
        """A page: the words that speak for each class, with texts, what failed, counts and probabilities.

        No network, everything escaped; written to `path` if given. `top`, `by`: see `words`. Raises UnknownOption,
        ResultFileError.
        """
        from mixlens.view import explained

        return explained.page(self, path, top=top, by=by, seed=seed)

    def __rich__(self) -> Any:
        from mixlens.view import explained
        from mixlens.view.kit.visible import Visible

        return Visible(explained.printout(self))

    def __repr__(self) -> str:
        failed = sum(head.failed for _, head in self.parts)
        more = (f", {failed} failed" if failed else "") + ("" if self.finished else ", unfinished")
        return visible(f"Explained({self.method}, {len(self)} text{'s' * (len(self) != 1)}{more})")

    def _rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        for path, _ in self.parts:
            yield from shards.read(path, columns)

    def _by_id(self, id: object) -> Iterator[tuple[dict[str, Any], shards.Head]]:
        for path, head in self.parts:
            if any(row["id"] == id for row in shards.read(path, ("id",))):
                yield from ((row, head) for row in shards.read(path) if row["id"] == id)

    def _by_row(self, numbers: Sequence[Any]) -> Iterator[tuple[dict[str, Any], shards.Head]]:
        wanted = set(numbers)
        for path, head in self.parts:
            if any(head.first <= number < head.first + head.rows for number in wanted):
                yield from ((row, head) for row in shards.read(path) if row["row"] in wanted)

    def _counted(self, by: str | None) -> Iterator[TextWords]:
        """The words of each text with their scores, of no special token; tokens where words are not known."""
        for row in self._rows(_COUNTED):
            if row["error"] is not None:
                continue
            words, scores = row["words"], row["word_scores"]
            if words is None:
                kept = [i for i, special in enumerate(row["special"]) if not special]
                words, scores = ([row[name][i] for i in kept] for name in ("tokens", "scores"))
            value = None if by is None else group_name(shards.data_of(row).get(by))
            yield TextWords(row["row"], (value, row["target"]), [word.casefold() for word in words], scores)


_STATISTICS = ("word", "texts", "mean", "low", "high", "null", "null_low", "null_high", "p", "example")


def group_name(value: object) -> str:
    """The value of a column as the name of a group."""
    return "none" if value is None else str(value)


def _raw(row: Mapping[str, Any]) -> str | tuple[str, str] | None:
    return row["text"] if row["pair"] is None else (row["text"], row["pair"])


def _text(row: Mapping[str, Any]) -> ExplainedText:
    words = None if row["words"] is None else tuple(zip(row["words"], row["word_scores"], strict=True))
    return ExplainedText(
        **{name: row[name] for name in _PLAIN},
        text=_raw(row),
        tokens=tuple(row["tokens"]),
        scores=tuple(row["scores"]),
        words=words,
        data=shards.data_of(row),
    )
