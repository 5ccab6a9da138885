"""Rows of text files: JSON, JSON lines, tables with separators, a text a line; and how their bytes are to be read."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, Literal

from mixlens.errors import DataError, UnknownOption
from mixlens.escape import unguard

Reader = Callable[[io.TextIOWrapper], Iterator[Any]]
DEPTH = 100  # lists in lists in lists of a row: no data set has more, and Python's own limit is no error of a row
_BOMS = (  # the longer first: UTF-32's begins as UTF-16's does
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_OWN = ({"method", "measure", "reference", "n_undefined"}, {"method", "index", "token", "faithfulness"})  # our tables
_SEPARATORS = ",;\t"  # of a .csv, by what its header holds


def check_encoding(encoding: Any) -> None:
    """Raises UnknownOption for what is no name of a text encoding."""
    try:
        "a".encode(encoding)
    except (LookupError, TypeError, ValueError):
        raise UnknownOption(
            f"expected encoding= the name of a text encoding, as 'utf-8', 'utf-16' or 'latin-1', got {encoding!r:.60}"
        ) from None


def encoding_of(file: IO[bytes], encoding: str | None) -> str:
    """How the bytes of a file are to be read: as asked, by its byte order mark, else UTF-8. Raises DataError."""
    head = file.read(4096)
    marked = next((name for mark, name in _BOMS if head.startswith(mark)), None)
    if encoding is not None:
        same = marked is not None and codecs.lookup(marked).name.startswith(codecs.lookup(encoding).name)
        return marked if marked is not None and same else encoding  # a mark is no character of the text
    if marked is None and b"\0" in head:
        name = "utf-16-be" if head[:1] == b"\0" else "utf-16-le"
        raise DataError(f"expected text, got zero bytes: UTF-16 without a byte order mark? then pass encoding={name!r}")
    return marked or "utf-8"


def _jsonl(file: io.TextIOWrapper) -> Iterator[Any]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            yield loads(line)
        except ValueError as error:
            yield DataError(f"expected JSON in line {number}, got {line.strip()[:40]!r} ({error})")


def _json(file: io.TextIOWrapper) -> Iterator[Any]:
    try:
        rows = loads(file.read())
    except ValueError as error:
        raise DataError(f"expected JSON, got: {error}; is it JSON lines? then name it .jsonl") from None
    if isinstance(rows, Mapping) and isinstance(rows.get("data"), list):  # SQuAD's own files, and what others export
        rows = rows["data"]
    if not isinstance(rows, list):
        raise DataError(f"expected a list of rows in a .json file, got {type(rows).__name__}; or write JSON lines")
    for row in rows:
        if isinstance(row, Mapping) and "paragraphs" in row:
            yield from _questions(row)
        else:
            yield row


def _questions(article: Mapping[str, Any]) -> Iterator[Any]:
    """A row a question of an article of SQuAD: its own keys, and the context that it is asked of."""
    try:
        for paragraph in article["paragraphs"]:
            rest = {k: v for k, v in paragraph.items() if k != "qas"}
            for question in paragraph["qas"]:
                yield {**rest, **question}
    except (TypeError, KeyError, AttributeError) as error:
        yield DataError(
            "expected SQuAD's {'paragraphs': [{'context': ..., 'qas': [{'question': ..., 'answers': ...}]}]}, "
            f"got another shape ({type(error).__name__}: {error})"
        )


def loads(text: str) -> Any:
    """JSON that is nested no deeper than `DEPTH`. Raises ValueError."""
    if text.count("[") + text.count("{") > DEPTH and _depth(text) > DEPTH:
        raise ValueError(f"nested deeper than {DEPTH} lists and mappings")
    return json.loads(text)


def _depth(text: str) -> int:
    """The most brackets that are open at once, those in strings left out."""
    depth = most = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text, re.DOTALL):
        sign = match[0]
        depth += (sign in "[{") - (sign in "]}")
        most = max(most, depth)
    return most


def _txt(file: io.TextIOWrapper) -> Iterator[Any]:
    for line in file:
        if line.strip():
            yield line.strip("\r\n")


def _csv(file: io.TextIOWrapper) -> Iterator[Any]:
    header = re.sub(r'"[^"]*"', "", file.readline())
    file.seek(0)
    return _table(file, next((sign for sign in _SEPARATORS if sign in header), ","), csv.QUOTE_MINIMAL)


def _tsv(file: io.TextIOWrapper) -> Iterator[Any]:
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if _quoted(file) else csv.QUOTE_NONE
    file.seek(0)
    return _table(file, "\t", quoting)


def _quoted(file: io.TextIOWrapper) -> bool:
    """Whether the quotes in a TSV are marks around fields. In most such files (GLUE's) they are characters.

    They are marks where every line can be read so, and something says so: a quoted field in every line, or one that
    holds a doubled quote or a tab.
    """
    field = r'(?:"(?:[^"]|"")*"|[^"\t]*)'
    line_of = re.compile(rf"{field}(?:\t{field})*")
    inner = re.compile(r'"(?:[^"]|"")*(?:""|\t)(?:[^"]|"")*"')
    all_quoted, any_quoted, proof = True, False, False
    for number, line in enumerate(file):
        line = line.rstrip("\r\n")
        if '"' not in line:
            all_quoted = all_quoted and (number == 0 or not line)
            continue
        if not line_of.fullmatch(line):
            return False
        any_quoted = any_quoted or number > 0
        proof = proof or any(inner.fullmatch(part) for part in re.findall(r'"(?:[^"]|"")*"', line))
    return proof or (all_quoted and any_quoted)


def _table(file: io.TextIOWrapper, sign: str, quoting: Literal[0, 3]) -> Iterator[Any]:
    csv.field_size_limit(1 << 30)
    table = csv.DictReader(file, delimiter=sign, strict=True, quoting=quoting)
    refuse_twins(table.fieldnames or ())
    written_here = any(columns <= set(table.fieldnames or ()) for columns in _OWN)
    while True:
        try:
            row = next(table, None)
        except csv.Error as error:
            yield DataError(f"expected {sign!r}-separated values in line {table.line_num}, got: {error}")
            continue
        if row is None:
            return
        if None in row or None in row.values():
            count = len(table.fieldnames or ())
            hint = "; a file whose fields hold line ends is a .csv" if quoting == csv.QUOTE_NONE else ""
            yield DataError(f"expected {count} values in line {table.line_num}, got others{hint}")
            continue
        yield {k: unguard(v) for k, v in row.items()} if written_here else row


def refuse_twins(names: Iterable[Any]) -> None:
    """Raises DataError where two columns have one name: which of them is meant? Columns without a name may be many."""
    count = Counter(name for name in names if name)
    twins = [name for name, times in count.items() if times > 1]
    if twins:
        raise DataError(f"expected columns of different names, got {twins[0]!r} {count[twins[0]]} times; rename them")


READERS: dict[str, Reader] = {"jsonl": _jsonl, "json": _json, "csv": _csv, "tsv": _tsv, "txt": _txt}
