"""What a run was made with, as plain data that tells two runs apart."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from mixlens.capture.offload import device_of, state
from mixlens.decompose.compiled import lanes
from mixlens.errors import RunChanged
from mixlens.escape import one_line
from mixlens.lens import Lens
from mixlens.version import __version__

_BLOCK, _FACTOR = 1 << 22, 2654435761  # of `checksum`: numbers that are summed up in 64 bits
_CACHED = 1 << 16  # of them that stay in a CPU's caches
_DIGEST = re.compile(r"[0-9a-f]{64}")
_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def plain(value: Any) -> Any:
    """A value as JSON holds it; tensors, arrays and whatever else by a digest or a name."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        there = value.layout is torch.strided and not (value.is_meta or value.is_quantized)
        bits = there and value.dtype.itemsize in _WHOLE
        return f"tensor {tuple(value.shape)} {checksum(value) if bits else value.dtype}"
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if hasattr(value, "__dataclass_fields__"):
        return {k: plain(getattr(value, k)) for k in value.__dataclass_fields__}
    return f"{type(value).__module__}.{type(value).__qualname__}"


@torch.no_grad()
def checksum(tensor: torch.Tensor) -> str:
    """A tensor's bits in two whole numbers, plain and weighted by place: fast on any device, the same on all."""
    bits = tensor.detach().contiguous().reshape(-1)
    bits = bits.view(_WHOLE[bits.dtype.itemsize]) if bits.dtype != torch.bool else bits.to(torch.uint8)
    size = _CACHED if bits.device.type == "cpu" else _BLOCK
    place = torch.arange(1, 1 + min(size, len(bits)), dtype=torch.int64, device=bits.device) * _FACTOR
    total = weighted = 0
    for start in range(0, len(bits), _BLOCK):
        block, alone, by_place = bits[start : start + _BLOCK], 0, 0
        for at in range(0, len(block), size):
            piece = block[at : at + size].to(torch.int64)
            here = int(piece.sum())
            alone += here
            by_place += int((piece * place[: len(piece)]).sum()) + (start + at) * _FACTOR * here
        total += _wrapped(alone)
        weighted += _wrapped(by_place)
    return f"{total:x}.{weighted:x}"


def _wrapped(number: int) -> int:
    """The number as 64 bits hold it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def model_facts(lens: Lens) -> dict[str, Any]:
    """Architecture, head, dtype, device and a digest of all weights and buffers, and of the tokenizer."""
    sha = hashlib.sha256()
    for name, tensor in sorted(state(lens.model).items()):
        if isinstance(tensor, torch.Tensor) and tensor.dtype.itemsize in _WHOLE and not tensor.is_complex():
            sha.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {checksum(tensor)}\n".encode())
    config = lens.model.config
    return {
        "class": type(lens.model).__name__,
        "config": hashlib.sha256(json.dumps(plain(_settings(config)), sort_keys=True).encode()).hexdigest(),
        "dtype": str(lens.model.dtype).removeprefix("torch."),
        "device": device_of(lens.model).type,
        "weights": sha.hexdigest(),
        "tokenizer": tokenizer_facts(lens.tokenizer),
    }


def _settings(config: Any) -> dict[str, Any]:
    loose = ("_name_or_path", "transformers_version", "_attn_implementation", "_attn_implementation_internal")
    return {k: v for k, v in config.to_dict().items() if k not in loose}


def tokenizer_facts(tokenizer: Any) -> str | None:
    """A digest of all that a tokenizer does, but for how its last call padded and cut; None without one."""
    if tokenizer is None:
        return None
    core = getattr(tokenizer, "backend_tokenizer", None)
    if core is not None:
        if core.padding is not None or core.truncation is not None:  # the last call's, which it keeps
            core = type(core).from_str(core.to_str())
            core.no_padding()
            core.no_truncation()
        serialized = core.to_str()
    elif hasattr(tokenizer, "get_vocab"):
        serialized = json.dumps(tokenizer.get_vocab(), sort_keys=True)
    else:  # an image processor
        serialized = json.dumps(tokenizer.to_dict(), sort_keys=True, default=str)
    return hashlib.sha256(serialized.encode()).hexdigest()


def versions() -> dict[str, str]:
    """Of what computes the numbers; `llvmlite` where it is there, since its loops round another way than torch."""
    names = ("torch", "transformers", "numpy", *(["llvmlite"] if lanes() else []))
    return {"mixlens": __version__, **{name: version(name) for name in names}}


LISTED = 8  # changes that a message lists


def refuse_changes(before: Mapping[str, Any], now: Mapping[str, Any], folder: str) -> None:
    """Raises RunChanged that names each thing that differs between two manifests, one a line.

    Data with the same fingerprint is the same, whatever it is called.
    """
    old, new = before.get("data"), now.get("data")
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        mark = new.get("fingerprint")
        if mark is not None and mark == old.get("fingerprint"):
            now = {**now, "data": {**new, "name": old.get("name")}}
    changes = list(_changes("", before, now))
    kinds = [str(made.get("kind") or "evaluate") for made in (before, now)]
    if kinds[0] != kinds[1]:  # then nothing else can be compared
        changes = [f"what made it: was {kinds[0]}, now {kinds[1]}"]
    if changes:
        first = [change for change in changes if not change.startswith(_FOLLOWS)] or changes
        more = [f"and {len(first) - LISTED} more"] if len(first) > LISTED else []
        raise RunChanged(
            "\n  ".join([f"expected the run that {one_line(folder)} holds, got another:", *first[:LISTED], *more])
            + "\ngive the new run another folder (out=), or delete this one"
            + _columns(before.get("task"), now.get("task"))
        )


def _columns(before: Any, now: Any) -> str:
    """How to go on with a run whose columns were named, where they are now left to be looked for; else nothing."""
    if not (isinstance(before, Mapping) and isinstance(now, Mapping) and before.get("name") == now.get("name")):
        return ""
    old, new = before.get("fields"), now.get("fields")
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return ""
    pairs = [f"{k} is '{v[0]}'" for k, v in old.items() if len(v) == 1 and v != new.get(k) and v[0] in new.get(k, ())]
    return f", or name its columns as that run did: {', '.join(pairs)}" if pairs else ""


_NAMED = ("methods", "measures", "corpora")  # by names: which there are comes before what each is
_FOLLOWS = ("asked: ", "columns: ")  # from other entries, which say it better


def _changes(path: str, before: Any, now: Any) -> Any:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        if path in _NAMED and before.keys() != now.keys():
            yield f"{path}: was {_short(list(before), 200)}, now {_short(list(now), 200)}"
            before, now = ({name: side[name] for name in before.keys() & now.keys()} for side in (before, now))
        for key in sorted({*before, *now}):
            yield from _changes(f"{path}.{key}" if path else key, before.get(key), now.get(key))
    elif before != now:
        yield f"{path}: was {_short(before)}, now {_short(now)}"


def _short(value: Any, longest: int = 60) -> str:
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return f"digest {value[:8]}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else text[: longest // 2 - 2] + "..." + text[2 - longest // 2 :]
