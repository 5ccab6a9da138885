"""Results in files: one safetensors file, numbers bit-exact, everything else as JSON in its header.

What becomes of an option or a meta entry: numbers, strings, True, False, None, lists, tuples (nested too) and mappings
with any such keys come back equal and of the same type; numpy scalars come back as Python numbers, a `Target` as a
`Target`, any other mapping as a dict. A tensor or array is kept as `{"tensor": shape, "dtype": ..., "sha256": ...}` and
comes back as that summary: enough to tell two runs apart, no use as an option again. Anything else (a function, a
device, a path) is kept as its name. Files hold no code: reading one runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from mixlens.attribute.target import Target
from mixlens.capture.text import Tokens
from mixlens.errors import ResultFileError
from mixlens.files import replacing

if TYPE_CHECKING:
    from mixlens.results import Attribution, Comparison, LayerMaps, PathLike

VERSION = 2  # of the format; a reader refuses newer ones. 2: comparisons (single results are still written as 1)
KEY = "mixlens"
_TENSORS = ("scores", "layers")
_PARTS = ("attributions", "maps")  # of a comparison
_RUN = ("manifest.json", "results.jsonl")  # `evaluation.log` writes them; it stands above this module
_LONGEST_HEADER = 100_000_000  # safetensors reads none that is longer
_TAGS = ("tuple", "dict", "target", "tensor", "name", "float")


def write(result: Attribution | LayerMaps | Comparison, path: PathLike) -> Path:
    """Write a result; the file is there whole or not at all. Returns the path. Raises ResultFileError."""
    from mixlens.results import Comparison

    header, tensors = _comparison(result) if isinstance(result, Comparison) else _single(result)
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata={KEY: json.dumps(header, sort_keys=True)})
        except SafetensorError as error:
            raise OSError(_line(error)) from error
    return Path(path)


def _comparison(result: Comparison) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Its header, with those of its parts; tensors have the number of their part before their name."""
    parts: list[dict[str, Any]] = []
    tensors: dict[str, torch.Tensor] = {}
    for of in _PARTS:
        for name, one in getattr(result, of).items():
            header, own = _single(one)
            tensors |= {f"{len(parts)}.{key}": tensor for key, tensor in own.items()}
            parts.append({**header, "of": of, "name": name})
    numbers = {name: _pack(vars(found)) for name, found in result.faithfulness.items()}
    kind = {"format": 2, "kind": "Comparison", "skipped": list(result.skipped.items()), "faithfulness": numbers}
    return {**kind, "parts": parts}, tensors


def _single(result: Attribution | LayerMaps) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    values = {f.name: getattr(result, f.name) for f in fields(result)}
    tensors = {
        # cloned, since safetensors refuses tensors that share memory
        name: values.pop(name).detach().cpu().contiguous().clone()
        for name in _TENSORS
        if isinstance(values.get(name), torch.Tensor)
    }
    source = asdict(values.pop("source"))
    header = {
        "format": 1,
        "kind": type(result).__name__,
        "source": {k: list(v) if isinstance(v, tuple) else v for k, v in source.items()},
        "fields": {k: _pack(v) for k, v in values.items() if k not in _TENSORS},
    }
    return header, tensors


def read(path: PathLike) -> Attribution | LayerMaps | Comparison:
    """Read a result that `write` wrote; tensors are on the CPU, bit-exact. Raises ResultFileError."""
    path = Path(path)
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
            header = (file.metadata() or {}).get(KEY)
            known = [name for name in file.keys() if name.rpartition(".")[2] in _TENSORS]  # noqa: SIM118
            tensors = {name: file.get_tensor(name).clone() for name in known}
    except (SafetensorError, OSError, ValueError) as error:
        raise ResultFileError(
            f"expected a whole result file, got a damaged one: {path} ({_line(error)}); save it again"
        ) from error
    if header is None:
        raise ResultFileError(
            f"expected a result file of mixlens, got other safetensors (weights?): {path}; "
            "mixlens.read takes what .save(path) wrote"
        )
    try:
        data = json.loads(header)
        version = data["format"]
        if isinstance(version, int) and version <= VERSION:
            return _whole(data, tensors) if data["kind"] == "Comparison" else _build(data, tensors)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultFileError(
            f"expected a whole result file, got a damaged one: {path} ({_line(error)}); save it again"
        ) from error
    raise ResultFileError(
        f"expected a result file of format {VERSION} or older, got format {version}: {path}; "
        "it is from a newer mixlens: pip install --upgrade mixlens"
    )


def plain(result: Attribution | LayerMaps) -> dict[str, Any]:
    """A result as plain data that JSON can hold: keys as in `to_dict`, scores as (nested) lists.

    `words` is None where there are no offsets. Tuples become lists, tensors among the options their summary (see this
    module's docstring), infinities and NaN among the meta strings, since JSON knows none.
    """
    source = result.source
    out: dict[str, Any] = {
        "text": list(result.text) if isinstance(result.text, tuple) else result.text,
        "tokens": list(source.pieces),
        "scores": result.scores.detach().cpu().tolist(),
        "offsets": None if result.offsets is None else [None if o is None else list(o) for o in result.offsets],
        "special": list(source.special),
    }
    if hasattr(result, "aggregation"):
        # whatever else the class has, so that a field that is added is not forgotten here
        known = {*out, "source", "method", "options", "meta"}
        out |= {f.name: _plain(getattr(result, f.name)) for f in fields(result) if f.name not in known}
        partial = {name: getattr(result, name) for name in ("queries", "layer_numbers", "depth")}
        out |= {name: _plain(v) for name, v in partial.items() if v is not None}
    else:
        out["words"] = None
        if source.spans is not None:
            out["words"] = [
                {"text": w.text, "score": w.score, "start": w.start, "end": w.end, "special": w.special}
                | ({"segment": w.segment} if len(source.text) > 1 else {})
                for w in result.words()
            ]
        out["target"] = _plain(result.target)
        out["layers"] = None if result.layers is None else result.layers.detach().cpu().tolist()
    return out | {
        "method": result.method,
        "options": _plain(result.options),
        "model": _plain(result.meta.get("model")),
        "meta": _plain(result.meta),
    }


def _whole(data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Comparison:
    from mixlens.measure.faithfulness import Faithfulness
    from mixlens.results import Comparison

    parts: dict[str, dict[str, Any]] = {of: {} for of in _PARTS}
    for number, part in enumerate(data["parts"]):
        own = {name.partition(".")[2]: t for name, t in tensors.items() if name.partition(".")[0] == str(number)}
        parts[part["of"]][part["name"]] = _build(part, own)
    if not parts["attributions"]:
        raise ValueError("no attributions")
    numbers = {name: Faithfulness(**_unpack(values)) for name, values in data["faithfulness"].items()}
    return Comparison(skipped=dict(data["skipped"]), faithfulness=numbers, **parts)


def _build(data: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> Attribution | LayerMaps:
    from mixlens.results import Attribution, LayerMaps

    kinds: dict[str, Any] = {"Attribution": Attribution, "LayerMaps": LayerMaps}
    kind, values = kinds[data["kind"]], {k: _unpack(v) for k, v in data["fields"].items()}
    if "scores" not in tensors:
        raise ValueError("no scores")
    source: dict[str, Any] = {k: _tuples(v) if isinstance(v, list) else v for k, v in data["source"].items()}
    source["inputs"] = {k: tuple(v) for k, v in source["inputs"].items()}
    tokens = Tokens(**source)
    if tensors["scores"].shape[-1] != len(tokens):
        raise ValueError(f"{tensors['scores'].shape[-1]} scores for {len(tokens)} tokens")
    return kind(source=tokens, **values, **tensors)


def _pack(value: Any) -> Any:
    """A value as JSON that `_unpack` can turn back."""
    if isinstance(value, Target):
        return {"target": {k: _pack(v) for k, v in asdict(value).items()}}
    if isinstance(value, tuple):
        return {"tuple": [_pack(v) for v in value]}
    if isinstance(value, list):
        return [_pack(v) for v in value]
    if isinstance(value, Mapping):
        if all(isinstance(k, str) and k not in _TAGS for k in value):
            return {k: _pack(v) for k, v in value.items()}
        return {"dict": [[_pack(k), _pack(v)] for k, v in value.items()]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    return _leaf(value)


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "target" in value:
        return Target(**{k: _unpack(v) for k, v in value["target"].items()})
    if "tuple" in value:
        return tuple(_unpack(v) for v in value["tuple"])
    if "dict" in value:
        return {_unpack(k): _unpack(v) for k, v in value["dict"]}
    if "float" in value:
        return float(value["float"])
    if "name" in value:
        return value["name"]
    return value if "tensor" in value else {k: _unpack(v) for k, v in value.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Target):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(v) for v in value), key=repr)
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    leaf = _leaf(value)
    return leaf["name"] if isinstance(leaf, dict) and "name" in leaf else leaf


def _leaf(value: Any) -> Any:
    """What stands for itself in JSON, a summary of a tensor, or the name of something else; the same in every run."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return value + 0  # of a subclass the number alone
    if isinstance(value, np.generic):
        return _pack(value.item())
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()  # numpy knows no bfloat16
        return _summary(value.shape, str(value.dtype).removeprefix("torch."), flat.tobytes())
    if isinstance(value, np.ndarray) and value.dtype != object:
        return _summary(value.shape, str(value.dtype), value.tobytes())
    if isinstance(value, (torch.dtype, torch.device, Path)):
        return {"name": str(value)}
    if isinstance(value, (set, frozenset)):
        return {"tuple": sorted((_pack(v) for v in value), key=repr)}
    of = value if hasattr(value, "__qualname__") else type(value)  # not its repr: that may hold an address
    return {"name": f"{of.__module__}.{of.__qualname__}"}


def _summary(shape: Sequence[int], dtype: str, content: bytes) -> dict[str, Any]:
    return {"tensor": list(shape), "dtype": dtype, "sha256": hashlib.sha256(content).hexdigest()}


def _tuples(value: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(v) if isinstance(v, list) else v for v in value)


def _no_result(path: Path, what: str) -> ResultFileError:
    folder = path if path.is_dir() else path.parent
    fix = "mixlens.read takes what .save(path) wrote"
    if all((folder / name).is_file() for name in _RUN):
        fix = f"a run of mixlens.evaluate is there: call evaluate again with out={str(folder)!r} to have its table"
    return ResultFileError(f"expected a result file, got {what}, not a mixlens result: {path}; {fix}")


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
