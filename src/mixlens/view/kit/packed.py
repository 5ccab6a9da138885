"""Arrays and facts as one string for a page's script: little-endian, by byte planes, deflated, in base64.

Layout before deflating: the length of the head (uint32), the head as JSON in UTF-8, then the arrays one after the other
in the head's order. An array of n numbers stands as its n lowest bytes, then its n next ones, ...: exponents stand
together and deflate well. `"f4"` is float32. `"u2"` and `"i2"` are whole numbers of 16 bits; times their row's `scale`
(float32, of 1 / 65535 or 1 / 32767 of its largest size) they are the numbers to that part of the row's largest.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.view.kit.arrays import Array

EXACT = 1_400_000  # numbers of an array up to which it is float32
LARGEST = 12_000_000  # up to which it is packed at all: some 30 MB of a page


def pack(head: Mapping[str, Any], arrays: Mapping[str, Array], exact: int = EXACT) -> str:
    """The string; `head` is JSON's, with `arrays` added: name, kind, shape of each."""
    listed, parts = [], []
    for name, array in arrays.items():
        for part, kind, values in _parts(name, array, exact):
            listed.append({"name": part, "kind": kind, "shape": list(values.shape)})
            parts.append(_planes(values))
    text = json.dumps({**head, "arrays": listed}, separators=(",", ":")).encode()
    data = b"".join([len(text).to_bytes(4, "little"), text, *parts])
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _parts(name: str, array: Array, exact: int) -> list[tuple[str, str, NDArray[Any]]]:
    """An array as it is packed: itself, or 16-bit numbers and the scales of their rows."""
    if array.size <= exact:
        return [(name, "f4", array.astype("<f4"))]
    kind, top = ("<i2", 32767) if array.min() < 0 else ("<u2", 65535)
    scale = np.abs(array).max(-1, keepdims=True) / top
    steps = np.round(array / np.where(scale > 0, scale, 1.0))
    return [(name, kind[1:], steps.astype(kind)), (f"{name}.scale", "f4", scale[..., 0].astype("<f4"))]


def _planes(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(np.ascontiguousarray(values).reshape(-1, 1).view(np.uint8).T).tobytes()
