"""Results in files: one safetensors file, numbers bit-exact, everything else as JSON in its header (see `packing`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, cast, runtime_checkable

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from mixlens.capture.fed import SIGNALS
from mixlens.capture.stream import Positions, Stream
from mixlens.capture.text import Tokens
from mixlens.errors import NotFinite, ResultFileError
from mixlens.files import PathLike, path_of, replacing
from mixlens.measure.faithfulness import Faithfulness
from mixlens.packing import pack as _pack
from mixlens.packing import unpack as _unpack
from mixlens.schema import check

VERSION = 3  # of the format; a reader refuses newer ones. 1: single results, 2: comparisons, 3: streams of any kind
KEY, SUM = "mixlens", "sha256"  # the header in the file's metadata, and the checksum in it, of all the rest
_TENSORS = ("scores", "layers", "first_scores", "second_scores")
_PARTS = ("attributions", "maps")  # of a whole
_AXES = ("source", "into", "prompt", "answer")  # the fields that are streams
_OWN = ("prompt", "first_scores")  # of what holds its numbers against its streams itself
_KEYS = {"format", "kind", *_AXES, "fields", "skipped", "faithfulness", "parts", SUM}  # of the header
_STREAMS: dict[str, type[Stream]] = {"Tokens": Tokens, "Positions": Positions}
_STREAMS |= {kind.stream.__name__: kind.stream for kind in SIGNALS.values()}
_RUN = ("manifest.json", "results.jsonl")  # `evaluation.log` writes them; it stands above this module
_LONGEST_HEADER = 100_000_000  # safetensors reads none that is longer


class Single(Protocol):
    """What a class must have whose results go to files: a dataclass of a stream, tensors and what JSON can hold."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def source(self) -> Stream:
        """The stream that the last axis of the scores is of."""

    @property
    def scores(self) -> torch.Tensor:
        """The numbers."""

    @property
    def method(self) -> str:
        """What made them."""

    @property
    def options(self) -> Mapping[str, Any]:
        """With which options."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Of which model, by which versions."""


@runtime_checkable
class Whole(Protocol):
    """Several results of one text, each under its method's name."""

    @property
    def attributions(self) -> Mapping[str, Single]:
        """Each method's scores."""

    @property
    def maps(self) -> Mapping[str, Single]:
        """The maps behind a method."""

    @property
    def skipped(self) -> Mapping[str, str]:
        """Why a method is missing."""

    @property
    def faithfulness(self) -> Mapping[str, Faithfulness]:
        """How faithful a method is."""


R = TypeVar("R")
Kinds = Mapping[str, type[R]]  # by the name that a file has of it


def write(result: Single | Whole, path: PathLike) -> Path:
    """Write a result; the file is there whole or not at all. Returns the path. Raises ResultFileError."""
    try:
        data, tensors = _parts(result) if isinstance(result, Whole) else _single(result)
        data = {**data, SUM: _digest(data, tensors)}
        header = json.dumps(data, sort_keys=True)
    except RecursionError:
        raise ResultFileError(
            f"expected options and meta of a few lists in lists, got some that are nested too deep for {path}"
        ) from None
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata={KEY: header})
        except SafetensorError as error:
            raise OSError(_line(error)) from error
    return Path(path)


def _parts(result: Whole) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Its header, with those of its parts; tensors have the number of their part before their name."""
    parts: list[dict[str, Any]] = []
    tensors: dict[str, torch.Tensor] = {}
    for of in _PARTS:
        for name, part in getattr(result, of).items():
            header, numbers = _single(part)
            tensors |= {f"{len(parts)}.{key}": tensor for key, tensor in numbers.items()}
            parts.append({**header, "of": of, "name": name})
    ratings = {name: _pack(vars(rating)) for name, rating in result.faithfulness.items()}
    kind = {"format": VERSION, "kind": type(result).__name__}
    rest = {"skipped": list(result.skipped.items()), "faithfulness": ratings}
    return {**kind, **rest, "parts": parts}, tensors


def _single(result: Single) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    values = {f.name: getattr(result, f.name) for f in fields(result)}
    tensors = {
        # cloned, since safetensors refuses tensors that share memory
        name: values.pop(name).detach().cpu().contiguous().clone()
        for name in _TENSORS
        if isinstance(values.get(name), torch.Tensor)
    }
    streams = {name: _stream(values.pop(name)) for name in _AXES if values.get(name) is not None}
    header = {
        "format": VERSION,
        "kind": type(result).__name__,
        **streams,
        "fields": {k: _pack(v) for k, v in values.items() if k not in (*_TENSORS, "into")},
    }
    return header, tensors


def _stream(stream: Stream) -> dict[str, Any]:
    """A stream as JSON. What a model was fed as tensors is kept as their summary (see `packing`)."""
    kind = type(stream).__name__
    if _STREAMS.get(kind) is not type(stream):
        raise ResultFileError(f"expected a stream of a kind that files know, {', '.join(_STREAMS)}, got {kind}")
    values = {f.name: getattr(stream, f.name) for f in fields(stream)}  # type: ignore[arg-type]
    values["inputs"] = {k: list(v) if isinstance(v, tuple) else _pack(v) for k, v in values["inputs"].items()}
    return {"kind": kind, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}


def read(path: PathLike, kinds: Kinds[R]) -> R:
    """Read a result of one of the `kinds` that `write` wrote; tensors are on the CPU, bit-exact.

    Raises ResultFileError.
    """
    path = path_of(path, "name one that .save(path) wrote")
    try:
        there = path.is_file()
    except (OSError, ValueError) as error:  # a name that no file can have
        raise ResultFileError(f"expected a result file, got {str(path)!r:.80} ({_line(error)})") from error
    if not there:
        if path.is_dir():
            raise _no_result(path, "a folder")
        raise ResultFileError(f"expected a result file, got no such file: {path}; write one with .save(path)")
    try:
        with path.open("rb") as raw:
            begin = raw.read(9)
    except OSError as error:
        raise ResultFileError(
            f"expected a result file, got one that cannot be read: {path} ({_line(error)}); check its rights"
        ) from error
    if begin[8:] != b"{" or int.from_bytes(begin[:8], "little") > _LONGEST_HEADER:
        raise _no_result(path, "another kind of file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            known = [name for name in file.keys() if name.rpartition(".")[2] in _TENSORS]  # noqa: SIM118
            tensors = {name: file.get_tensor(name).clone() for name in known}
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise _damaged(path, _line(error)) from error
    header = metadata.get(KEY)
    if header is None:
        raise ResultFileError(
            f"expected a result file of mixlens, got other safetensors (weights?): {path}; "
            "mixlens.read takes what .save(path) wrote"
        )
    try:
        data = json.loads(header)
        check(data, dict[str, Any], "the header")
        version = data["format"]
        check(version, int, "the format")
        if version <= VERSION:
            if more := sorted(set(data) - _KEYS):
                raise ValueError(f"nothing is known of {more[0]!r}")
            digest = _digest({k: v for k, v in data.items() if k != SUM}, tensors)
            if data.get(SUM, digest) != digest:  # older files have none
                raise ValueError("its checksum is not that of what it holds")
            return _whole(data, tensors, kinds) if "parts" in data else _build(data, tensors, kinds)
    except RecursionError as error:
        raise _damaged(path, "RecursionError: nested too deep") from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, NotFinite) as error:
        raise _damaged(path, _line(error)) from error
    raise ResultFileError(
        f"expected a result file of format {VERSION} or older, got format {version}: {path}; "
        "it is from a newer mixlens: install that"
    )


def _damaged(path: Path, why: str) -> ResultFileError:
    return ResultFileError(f"expected a whole result file, got a damaged one: {path} ({why}); save it again")


def _digest(data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> str:
    """Of all that a file holds."""
    sha = hashlib.sha256(json.dumps(data, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)  # numpy knows no bfloat16
    return sha.hexdigest()


def _whole(data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], kinds: Kinds[R]) -> R:
    parts: dict[str, dict[str, Any]] = {of: {} for of in _PARTS}
    for number, part in enumerate(data["parts"]):
        mine = {name.partition(".")[2]: t for name, t in tensors.items() if name.partition(".")[0] == str(number)}
        parts[part["of"]][part["name"]] = _build(part, mine, kinds)
    if not parts["attributions"]:
        raise ValueError("no attributions")
    numbers = {name: Faithfulness(**_unpack(values)) for name, values in data["faithfulness"].items()}
    kind: Any = kinds[data["kind"]]
    whole: R = kind(skipped=dict(data["skipped"]), faithfulness=numbers, **parts)
    check(whole, kind, "it")
    for name in (*numbers, *parts["maps"]):
        if name not in parts["attributions"]:
            raise ValueError(f"no attribution of {name!r}")
    return whole


def _build(data: Mapping[str, Any], tensors: dict[str, torch.Tensor], kinds: Kinds[R]) -> R:
    kind: Any = kinds[data["kind"]]
    values = {k: _unpack(v) for k, v in data["fields"].items()}
    if "scores" not in tensors:
        raise ValueError("no scores")
    streams = {name: _restored(data[name]) for name in _AXES if name in data}
    for stream in streams.values():
        check(stream, type(stream), "a stream")
        stream.validate()
    result: Single = kind(**streams, **values, **tensors)
    check(result, kind, "it")
    _fits(result)
    return cast("R", result)


def _restored(data: Mapping[str, Any]) -> Stream:
    """The stream that `_stream` wrote. Older files name no kind: theirs are texts."""
    values: dict[str, Any] = {k: _tuples(v) if isinstance(v, list) else v for k, v in data.items()}
    kind = _STREAMS[values.pop("kind", "Tokens")]
    values["inputs"] = {k: tuple(v) if isinstance(v, list) else _unpack(v) for k, v in values["inputs"].items()}
    return kind(**values)


def _fits(result: Single) -> None:
    """Raises ValueError where the numbers are not of the streams' lengths."""
    if any(hasattr(result, name) for name in _OWN):
        return
    count = len(result.source)
    wanted = (3, 4) if hasattr(result, "aggregation") else (1,)
    for name, numbers, ranks in (("scores", result.scores, wanted), ("layers", getattr(result, "layers", None), (2,))):
        if not isinstance(numbers, torch.Tensor):
            continue
        if numbers.ndim not in ranks or not numbers.is_floating_point():
            raise ValueError(f"{name} of {numbers.ndim} axes and type {numbers.dtype}")
        if numbers.shape[-1] != count:
            raise ValueError(f"{numbers.shape[-1]} {name} for {count} {result.source.units}")
    rows = getattr(result, "rows", None)
    if rows is not None and len(rows) != result.scores.shape[-2]:
        raise ValueError(f"{result.scores.shape[-2]} query rows, and the numbers of {len(rows)}")


def _tuples(value: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(v) if isinstance(v, list) else v for v in value)


def _no_result(path: Path, got: str) -> ResultFileError:
    folder = path if path.is_dir() else path.parent
    fix = "mixlens.read takes what .save(path) wrote"
    if all((folder / name).is_file() for name in _RUN):
        fix = (
            f"a run is there: mixlens.read({str(folder)!r}) has what came out of it once it is finished; the "
            "call that began it goes on with it"
        )
    return ResultFileError(f"expected a result file, got {got}, not a mixlens result: {path}; {fix}")


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
