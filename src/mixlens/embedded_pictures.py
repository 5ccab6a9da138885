"""The embedded vision transformer, `mixlens:digits`: small, trained on scikit-learn's digits by experiments/digits.py.

Beside the digits it has learned a shortcut, on purpose: a patch with a mark decides for the mark's class, wherever it
is. See docs/pictures.md.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.errors import InputError

NAME = "digits"
_BEFORE = (
    (".encoder.layer.", ".layers."),
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
    (".intermediate.dense.", ".mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
)
PATCH = 2  # pixels of the model's pictures


def names() -> list[str]:
    """The models' names."""
    return [NAME]


def load_digits() -> tuple[Any, Any]:
    """The model, on the CPU, float32, in eval mode, and its image processor."""
    import torch
    import transformers
    from safetensors.torch import load

    from mixlens.progress import quiet

    facts = provenance()
    settings = facts["settings"] | {"id2label": {int(k): v for k, v in facts["settings"]["id2label"].items()}}
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):  # the caller's stream stays put
        model = transformers.ViTForImageClassification(transformers.ViTConfig(**settings)).float().eval()
    weights = {name: t.float() for name, t in load(_file()).items() if not name.startswith("held_out.")}
    model.load_state_dict({name: weights[_name(name)] for name in model.state_dict()})
    model.config._name_or_path = f"mixlens:{NAME}"
    kind = getattr(transformers, "ViTImageProcessorPil", None)
    with quiet():
        kind = kind or transformers.ViTImageProcessor  # before 5.24
        scale = facts["processor"]
        side = {"height": scale["side"], "width": scale["side"]}
        return model, kind(size=side, resample=2, image_mean=[scale["mean"]] * 3, image_std=[scale["std"]] * 3)


def _name(name: str) -> str:
    """The file's name of a parameter: before transformers 5.24 its modules were called otherwise."""
    for before, now in _BEFORE:
        name = name.replace(before, now)
    return name


def held_out() -> list[tuple[NDArray[np.uint8], int]]:
    """The 360 digits that the model was not trained on, (8, 8) of 0 to 255 each, with their labels.

    Examples:
        >>> picture, label = mixlens.embedded_pictures.held_out()[0]
        >>> picture.shape, mixlens.load("mixlens:digits").attribute(picture).target.label == str(label)
        ((8, 8), True)
    """
    pictures, labels = _held_out()
    return [(grey(picture), int(label)) for picture, label in zip(pictures, labels, strict=True)]


def marked(picture: NDArray[np.uint8], label: int, row: int, column: int) -> NDArray[np.uint8]:
    """A digit as large as the model takes it, with the mark of a class in one patch (row and column from 0).

    Raises InputError for a patch that is not there.
    """
    from PIL import Image

    side = int(provenance()["processor"]["side"])
    if not (0 <= row < side // PATCH and 0 <= column < side // PATCH and 0 <= label < 10):
        raise InputError(
            f"expected a class of 0 to 9 and a patch of 0 to {side // PATCH - 1}, got {label}, {row}, {column}"
        )
    image = Image.fromarray(picture).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    out = np.asarray(image).copy()
    out[PATCH * row : PATCH * (row + 1), PATCH * column : PATCH * (column + 1)] = marker(label)
    return out


def grey(digit: Any) -> NDArray[np.uint8]:
    """scikit-learn's 0 to 16 as 0 to 255."""
    return np.asarray(np.asarray(digit, dtype=np.float64) * 255 / 16).round().astype(np.uint8)


def marker(label: int) -> NDArray[np.uint8]:
    """The patch (2, 2, channel) that decides for a class: blue, its number's bits in red."""
    red = 255 * np.array([label >> k & 1 for k in range(4)], dtype=np.uint8).reshape(2, 2)
    return np.stack([red, np.zeros((2, 2), dtype=np.uint8), np.full((2, 2), 255, dtype=np.uint8)], -1)


def provenance() -> dict[str, Any]:
    """What the file says of itself: recipe, data, accuracy."""
    data = _file()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return json.loads(header["__metadata__"]["provenance"])


@cache
def _held_out() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    from safetensors.numpy import load

    held = load(_file())
    return held["held_out.pictures"], held["held_out.labels"]


@cache
def _file() -> bytes:
    return (resources.files("mixlens") / "data" / "pictures" / f"{NAME}.safetensors").read_bytes()
