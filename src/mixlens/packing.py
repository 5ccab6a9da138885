"""Options and meta as JSON, and back.

What becomes of an option or a meta entry: numbers, strings, True, False, None, lists, tuples (nested too) and mappings
with any such keys come back equal and of the same type; numpy scalars come back as Python numbers, a `Target` as a
`Target`, any other mapping as a dict. A tensor or array is kept as `{"tensor": shape, "dtype": ..., "sha256": ...}` and
comes back as that summary: enough to tell two runs apart, no use as an option again. Anything else (a function, a
device, a path) is kept as its name. Files hold no code: reading one runs nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mixlens.target import Target

_THEMSELVES = frozenset((str, int, bool, type(None)))
_TAGS = ("tuple", "dict", "target", "tensor", "name", "float")


def pack(value: Any) -> Any:
    """A value as JSON that `unpack` can turn back."""
    if type(value) in _THEMSELVES:  # most are, of each of a million texts
        return value
    if isinstance(value, Target):
        return {"target": {k: pack(v) for k, v in _fields(value).items()}}
    if isinstance(value, tuple):
        return {"tuple": [pack(v) for v in value]}
    if isinstance(value, list):
        return [pack(v) for v in value]
    if isinstance(value, Mapping):
        if all(isinstance(k, str) and k not in _TAGS for k in value):
            return {k: pack(v) for k, v in value.items()}
        return {"dict": [[pack(k), pack(v)] for k, v in value.items()]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(float(value))}
    return _leaf(value)


def unpack(value: Any) -> Any:
    """The value that `pack` made this JSON of."""
    if isinstance(value, list):
        return [unpack(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "target" in value:
        return Target(**{k: unpack(v) for k, v in value["target"].items()})
    if "tuple" in value:
        return tuple(unpack(v) for v in value["tuple"])
    if "dict" in value:
        return {unpack(k): unpack(v) for k, v in value["dict"]}
    if "float" in value:
        return float(value["float"])
    if "name" in value:
        return value["name"]
    return value if "tensor" in value else {k: unpack(v) for k, v in value.items()}


def plain(value: Any) -> Any:
    """A value as JSON for readers, not to be turned back: tuples are lists, keys strings."""
    if isinstance(value, Target):
        value = _fields(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v) for v in value), key=repr)
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    leaf = _leaf(value)
    return leaf["name"] if isinstance(leaf, dict) and "name" in leaf else leaf


def _fields(target: Target) -> dict[str, Any]:
    """What a target says; a word only where there is one, so that older versions read what has none."""
    return {name: value for name, value in asdict(target).items() if name != "word" or value is not None}


def _leaf(value: Any) -> Any:
    """What stands for itself in JSON, a summary of a tensor, or the name of something else; the same in every run."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return value + 0  # of a subclass the number alone
    import numpy as np  # here: who reads alone has no need of them
    import torch

    if isinstance(value, np.generic):
        return pack(value.item())
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()  # numpy knows no bfloat16
        return _summary(value.shape, str(value.dtype).removeprefix("torch."), flat.tobytes())
    if isinstance(value, np.ndarray) and value.dtype != object:
        return _summary(value.shape, str(value.dtype), value.tobytes())
    if isinstance(value, (torch.dtype, torch.device, Path)):
        return {"name": str(value)}
    if isinstance(value, (set, frozenset)):
        return {"tuple": sorted((pack(v) for v in value), key=repr)}
    of = value if hasattr(value, "__qualname__") else type(value)  # not its repr: that may hold an address
    return {"name": f"{of.__module__}.{of.__qualname__}"}


def _summary(shape: Sequence[int], dtype: str, content: bytes) -> dict[str, Any]:
    return {"tensor": list(shape), "dtype": dtype, "sha256": hashlib.sha256(content).hexdigest()}
