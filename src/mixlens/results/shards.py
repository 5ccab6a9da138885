"""Explained texts as rows of Parquet, and back: what of an Attribution stands in which column.

A file's own metadata hold what all of its texts share; so a file is read without another. Scores are float32.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mixlens.capture.text import Tokens
from mixlens.errors import ResultFileError
from mixlens.files import parquet, replacing
from mixlens.packing import pack, unpack
from mixlens.precision import widened
from mixlens.results.attribution import Attribution

FORMAT = 1
_ROUNDING = ("call_check",)  # what a run made again would have otherwise, and its files not be the same
KEY = b"mixlens"  # of the file's metadata
PATTERN = "part-*.parquet"
_STREAM = ("groups", "inputs", "dropped", "padded", "roles")  # what of `Tokens` has no column of its own
COLUMNS = {
    "row": "int64",  # of the data set, from 0 on
    "id": "string",
    "text": "string",
    "pair": "string",  # the second text of a pair
    "target": "string",
    "probability": "float64",  # of the target
    "prediction": "string",
    "label": "string",  # the gold label, where the data has one
    "tokens": "string[]",
    "scores": "float32[]",
    "words": "string[]",
    "word_scores": "float32[]",
    "ids": "int32[]",
    "special": "bool[]",
    "segment": "int8[]",
    "start": "int32[]",
    "end": "int32[]",
    "data": "string",  # the row's other columns, as JSON
    "meta": "string",  # what else there is of the Attribution, as JSON
    "error": "string",  # why the text is not explained
}


@dataclass(frozen=True)
class Head:
    """What all texts of a file share, and how many there are. `meta`: the part of the Attributions' that is equal."""

    method: str
    options: Mapping[str, Any]
    meta: Mapping[str, Any]
    first: int  # row of the data set
    rows: int
    failed: int


def name_of(number: int) -> str:
    """The file of a window."""
    return f"part-{number:06d}.parquet"


def row_of(row: int, id: str, label: object, data: Mapping[str, Any], attr: Attribution) -> dict[str, Any]:
    """An explained text as a row, but for what it shares with others (`write`)."""
    stream, target = attr.source, attr.target
    assert isinstance(stream, Tokens)
    spans = stream.spans
    words = [word for word in attr.words() if not word.special] if stream.has_words else None
    left = {name: getattr(stream, name) for name in _STREAM}
    rest = {name: value for name, value in left.items() if value}
    return {
        "row": row,
        "id": clean(id),
        "text": stream.text[0] if stream.text else None,
        "pair": stream.text[1] if len(stream.text) > 1 else None,
        "target": None if target is None or target.label is None else clean(target.label),
        "probability": _probability(attr.meta),
        "prediction": None if attr.meta.get("prediction") is None else clean(str(attr.meta["prediction"])),
        "label": None if label is None else clean(str(label)),
        "tokens": [clean(piece) for piece in stream.pieces],
        "scores": widened(attr.scores.detach().cpu()).float().numpy(),
        "words": None if words is None else [word.text for word in words],
        "word_scores": None if words is None else np.array([word.score for word in words], dtype=np.float32),
        "ids": list(stream.ids),
        "special": list(stream.special),
        **{
            axis: None if spans is None else [None if span is None else span[k] for span in spans]
            for k, axis in enumerate(stream.axes)
        },
        "data": _json(pack(dict(data))) if data else None,
        "meta": {"target": None if target is None else pack(target), "stream": pack(rest), **_packed(attr)},
        "error": None,
    }


def failed_row(row: int, id: str, text: object, label: object, data: Mapping[str, Any], error: str) -> dict[str, Any]:
    """A text that could not be explained, as a row."""
    pair = isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text)
    first = text if isinstance(text, str) else text[0] if pair and isinstance(text, tuple) else None
    return {
        **dict.fromkeys(COLUMNS),
        "row": row,
        "id": clean(id),
        "text": None if first is None else clean(first),
        "pair": clean(text[1]) if pair and isinstance(text, tuple) else None,
        "label": None if label is None else clean(str(label)),
        "data": _json(pack(dict(data))) if data else None,
        "error": clean(error),
    }


def write(path: Path, rows: Sequence[dict[str, Any]], method: str, options: Mapping[str, Any]) -> None:
    """Write rows; the file is there whole or not at all, and the same rows make the same bytes.

    Raises MissingExtra, ResultFileError.
    """
    arrow = parquet()
    metas = [row["meta"] for row in rows if row["meta"] is not None]
    shared = _shared([meta["meta"] for meta in metas])
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in COLUMNS}
    columns["meta"] = [
        None
        if meta is None
        else _json({**meta, "meta": {name: v for name, v in meta["meta"].items() if name not in shared}})
        for meta in columns["meta"]
    ]
    head = {"format": FORMAT, "method": method, "options": pack(dict(options)), "meta": shared}
    head |= {"first": rows[0]["row"], "rows": len(rows), "failed": len(rows) - len(metas)}
    fields = [(name, _type(arrow, kind)) for name, kind in COLUMNS.items()]
    table = arrow.table(columns, schema=arrow.schema(fields, metadata={KEY: _json(head)}))
    with replacing(path) as temporary:
        arrow.parquet.write_table(table, temporary, compression="zstd")


def head_of(path: Path) -> Head:
    """What a file says of itself. Raises MissingExtra, ResultFileError."""
    arrow = parquet()
    with _whole(path):
        head = json.loads(arrow.parquet.read_schema(path).metadata[KEY])
        version = head.pop("format")
        if type(version) is int and version <= FORMAT:
            return Head(**{**head, "options": unpack(head["options"])})
    raise ResultFileError(
        f"expected explained texts of format {FORMAT} or older, got format {version}: {path}; they are from a newer "
        "mixlens: install that"
    )


def read(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a file, one at a time; `columns`: these alone. Raises MissingExtra, ResultFileError."""
    arrow = parquet()
    with _whole(path), arrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=256, columns=None if columns is None else list(columns)):
            yield from batch.to_pylist()


def attribution_of(row: Mapping[str, Any], head: Head) -> Attribution:
    """The Attribution that a row was made of; its scores are float32."""
    meta = json.loads(row["meta"])
    spans = None
    if row["start"] is not None:
        places = zip(row["segment"], row["start"], row["end"], strict=True)
        spans = tuple(None if start is None else (segment, start, end) for segment, start, end in places)
    stream = unpack(meta["stream"])
    source = Tokens(
        ids=tuple(row["ids"]),
        pieces=tuple(row["tokens"]),
        special=tuple(row["special"]),
        text=tuple(text for text in (row["text"], row["pair"]) if text is not None),
        spans=spans,
        **stream,
    )
    return Attribution(
        source=source,
        scores=torch.tensor(row["scores"], dtype=torch.float32, device="cpu"),
        method=head.method,
        options=dict(head.options),
        meta={name: unpack(value) for name, value in {**head.meta, **meta["meta"]}.items()},
        target=None if meta["target"] is None else unpack(meta["target"]),
    )


def data_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row's other columns."""
    return {} if row["data"] is None else unpack(json.loads(row["data"]))


def clean(text: str) -> str:
    """The text with a question mark for what UTF-8 has no bytes for (half of a surrogate pair)."""
    return text.encode("utf-8", "replace").decode()


def _probability(meta: Mapping[str, Any]) -> float | None:
    value = meta.get("target_probability", meta.get("probability"))
    return value if isinstance(value, float) else None


def _packed(attr: Attribution) -> dict[str, Any]:
    kept = {name: value for name, value in attr.meta.items() if name not in _ROUNDING}
    return {"meta": {str(name): pack(value) for name, value in kept.items()}}


def _shared(metas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The entries that are equal in all."""
    if not metas:
        return {}
    return {k: v for k, v in metas[0].items() if all(k in meta and _alike(meta[k], v) for meta in metas)}


def _alike(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)  # (1 and 1.0 and True are none)


def _type(arrow: Any, kind: str) -> Any:
    made = arrow.bool_() if kind.startswith("bool") else getattr(arrow, kind.removesuffix("[]"))()
    return arrow.list_(made) if kind.endswith("[]") else made


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=False, separators=(",", ":"))


class _whole:
    """Raises ResultFileError for whatever is wrong with a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (OSError, ValueError, KeyError, TypeError)) and not isinstance(error, ResultFileError):
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise ResultFileError(
                f"expected explained texts, got a file that is damaged or another's: {self.path} ({reason}); delete it "
                "and call mixlens.explain_data again with the same arguments"
            ) from error
