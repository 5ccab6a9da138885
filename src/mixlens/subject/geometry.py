"""What an image processor does to a picture: which of its pixels go where, seen from pictures whose colours say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from mixlens.capture.picture import PIXELS
from mixlens.errors import InputError
from mixlens.progress import quiet

Size = tuple[int, int]  # width and height
OFF = 0.75  # pixels of the picture that a straight line may be off


@dataclass(frozen=True)
class Geometry:
    """x = left + across * column, y = top + down * row: the picture's pixels by the edges of what is made of them.

    `exact`: that it is so, of all pixels. `black`, `white`: the numbers of these colours, a channel each.
    """

    left: float
    across: float
    top: float
    down: float
    size: Size
    black: tuple[float, ...]
    white: tuple[float, ...]
    exact: bool = True

    def box(self, box: tuple[int, int, int, int]) -> tuple[float, ...]:
        """(left, top, right, bottom) among the processed pixels as a box in the picture, cut off at its edges."""
        x = [self.left + self.across * at for at in box[::2]]
        y = [self.top + self.down * at for at in box[1::2]]
        x, y = (
            [round(min(max(v, 0.0), side), 2) for v in edges] for edges, side in zip((x, y), self.size, strict=True)
        )
        return x[0], y[0], x[1], y[1]


_KNOWN: WeakKeyDictionary[Any, dict[Size, Geometry]] = WeakKeyDictionary()


def processed(processor: Any, image: Image.Image) -> Tensor:
    """(channel, row, column): what an image processor makes of a picture. Raises InputError."""
    try:
        with quiet():
            made = processor(images=image, return_tensors="pt")[PIXELS]
        (pixels,) = made
    except Exception as error:  # whatever a processor says of what it cannot take
        raise InputError(
            f"expected a picture that {type(processor).__name__} takes, got one of {image.size[0]} x {image.size[1]}: "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        ) from error
    return pixels if isinstance(pixels, Tensor) else torch.from_numpy(np.asarray(pixels))


def geometry_of(processor: Any, size: Size, shape: tuple[int, ...] | None) -> Geometry:
    """What it does to pictures of a size: by one that is black, one white, one that brightens from left to right, and
    one from top to bottom. `shape`: what came out of a picture, which they have to have too. Raises InputError.
    """
    known = _KNOWN.setdefault(processor, {})
    if size not in known:
        known[size] = _measured(processor, size, shape)
    return known[size]


def _measured(processor: Any, size: Size, shape: tuple[int, ...] | None) -> Geometry:
    width, height = size
    black, white = (processed(processor, Image.new("RGB", size, (v, v, v))).double().numpy() for v in (0, 255))
    if shape is not None and black.shape != shape:
        raise InputError(
            f"expected an image processor that gives pictures of one size alike, {type(processor).__name__} gave "
            f"{tuple(shape)} and {black.shape}; pass a tensor (channel, row, column) of its instead"
        )
    ends = black.mean((1, 2)), white.mean((1, 2))
    lines, exact = [], True
    for axis, count in ((1, width), (0, height)):
        made = processed(processor, _ramp(size, axis)).double().numpy()
        share = ((made - black) / np.where(white == black, 1, white - black)).mean(0)  # (row, column), 0 to 1
        (start, step), off = _line(share.mean(1 - axis), count)
        spread = float(np.ptp(share, axis=1 - axis).max()) * count
        exact = exact and off <= max(OFF, 1.5 * count / 255) and spread <= max(OFF, 1.5 * count / 255)
        lines.append((start, step))
    exact = exact and bool(np.ptp(black, axis=(1, 2)).max() <= 1e-6 * np.abs(white).max())
    (left, across), (top, down) = lines
    return Geometry(left, across, top, down, size, tuple(ends[0].tolist()), tuple(ends[1].tolist()), exact)


def _ramp(size: Size, axis: int) -> Image.Image:
    """Bright from 0 to 255 over the centres of its columns (axis 1) or rows."""
    count = size[1 - axis]
    values = np.round(255 * (np.arange(count) + 0.5) / count).astype(np.uint8)
    grid = np.broadcast_to(values[None, :] if axis else values[:, None], (size[1], size[0]))
    return Image.fromarray(np.ascontiguousarray(grid)).convert("RGB")


def _line(share: NDArray[np.float64], count: int) -> tuple[tuple[float, float], float]:
    """(start, step) of the edges in pixels, of brightness by the centres of lines; and how far off the worst is.

    At the ends brightness is a mean of what is there, so a tenth at either end is left out where there is enough.
    """
    at, inside = np.arange(len(share)) + 0.5, slice(len(share) // 10, len(share) - len(share) // 10)
    if len(share) == 1:
        return (0.0, float(count)), 0.0
    step, start = np.polyfit(at[inside], share[inside] * count, 1)
    off = np.abs(start + step * at - share * count)[inside].max()
    if abs(start) < 1 and abs(start + step * len(share) - count) < 1:
        start, step = 0.0, count / len(share)  # all of the picture: brightness has 256 steps, the last half pixel none
    return (float(start), float(step)), float(off)
