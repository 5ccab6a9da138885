"""`Picture`: the stream of a picture, a position a patch; what is fed and drawn of it, and its changed copies."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.signal import Signal
from mixlens.capture.stream import Place
from mixlens.errors import UnknownOption

if TYPE_CHECKING:
    from PIL import Image

PIXELS = "pixel_values"  # what models of pictures call their input
Cell = tuple[int, int]  # row and column of a patch
Filler = Literal["grey", "blur", "zero"]  # what takes a patch's place
FILLERS: tuple[Filler, ...] = get_args(Filler)


@dataclass(frozen=True)
class Picture(Signal):
    """The stream of one picture. All tuples are as long as there are positions: patches, and what stands beside them.

    cells: the row and column of each patch; None for a position that is of no patch ([CLS], registers)
    grid: how many rows and columns of patches there are
    places: each patch's box in the picture's own pixels; None altogether where its maker did not say
    size: width and height of the picture as it came
    png: the picture as a reader is shown it, a PNG in base64
    inputs: `pixel_values` (channel, row, column), as the model is fed
    """

    noun: ClassVar[str] = "picture"
    unit = "patch"
    axes = ("left", "top", "right", "bottom")
    fed: ClassVar[str] = PIXELS
    fillers: ClassVar[tuple[str, ...]] = FILLERS

    labels: tuple[str, ...]
    cells: tuple[Cell | None, ...]
    grid: tuple[int, int]
    size: tuple[int, int]
    png: str
    places: tuple[Place | None, ...] | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many positions there are."""
        return len(self.labels)

    @property
    def names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    @property
    def special(self) -> tuple[bool, ...]:
        """Which are of no patch."""
        return tuple(cell is None for cell in self.cells)

    @property
    def pixels(self) -> Float[Tensor, "channel row column"]:
        """What the model is fed."""
        return self.numbers

    @property
    def replaceable(self) -> tuple[int, ...]:
        """The patches."""
        return tuple(i for i, cell in enumerate(self.cells) if cell is not None)

    @property
    def image(self) -> Image.Image:
        """The picture as a reader is shown it."""
        from PIL import Image

        return Image.open(io.BytesIO(base64.b64decode(self.png)))

    def without(self, removed: Sequence[int], filler: str) -> Picture:
        """The same picture with something in the place of some patches. Raises UnknownOption."""
        cells = [cell for i in removed if (cell := self.cells[i]) is not None]
        return replace(self, inputs={PIXELS: blanked(self.pixels, self.grid, cells, known(filler))})

    def filled(self, filler: str) -> Picture:
        """The same picture replaced as a whole. Raises UnknownOption."""
        return replace(self, inputs={PIXELS: filled(self.pixels, self.grid, known(filler))})

    def validate(self) -> None:
        """Raises ValueError where lengths or places do not go together."""
        for name in ("cells", "places"):
            row = getattr(self, name)
            if row is not None and len(row) != len(self):
                raise ValueError(f"{len(row)} {name} for {len(self)} positions")
        rows, columns = self.grid
        there = [cell for cell in self.cells if cell is not None]
        if sorted(there) != [(i, j) for i in range(rows) for j in range(columns)]:
            raise ValueError(f"{len(there)} cells for a grid of {rows} by {columns}")
        if any(place is not None and len(place) != 4 for place in self.places or ()):
            raise ValueError("a place that is no box")


def known(filler: str) -> Filler:
    """What takes a patch's place. Raises UnknownOption."""
    for name in FILLERS:
        if filler == name:
            return name
    raise UnknownOption(f"expected 'grey', 'blur' or 'zero' in the place of a patch, got {filler!r}")


def boxes(grid: tuple[int, int], height: int, width: int) -> Callable[[Cell], tuple[slice, slice]]:
    """From a cell to its rows and columns among the pixels."""
    h, w = height // grid[0], width // grid[1]
    return lambda cell: (slice(cell[0] * h, (cell[0] + 1) * h), slice(cell[1] * w, (cell[1] + 1) * w))


def blanked(
    pixels: Float[Tensor, "channel row column"], grid: tuple[int, int], cells: Sequence[Cell], filler: Filler
) -> Float[Tensor, "channel row column"]:
    """The pixels with some patches replaced.

    grey: the picture's own mean of each channel; blur: the picture seen through a window of three patches; zero: 0,
    which behind the usual normalisation is the grey of the data that the model was trained on.
    """
    out = pixels.clone()
    other = filled(pixels, grid, filler)
    box = boxes(grid, *pixels.shape[1:])
    for cell in cells:
        rows, columns = box(cell)
        out[:, rows, columns] = other[:, rows, columns]
    return out


def filled(
    pixels: Float[Tensor, "channel row column"], grid: tuple[int, int], filler: Filler
) -> Float[Tensor, "channel row column"]:
    """The whole picture replaced (see `blanked`)."""
    if filler == "zero":
        return torch.zeros_like(pixels)
    if filler == "grey":
        return pixels.mean((1, 2), keepdim=True).expand_as(pixels).clone()
    h, w = pixels.shape[1] // grid[0], pixels.shape[2] // grid[1]
    window = [min(3 * side, full) // 2 * 2 + 1 for side, full in ((h, pixels.shape[1]), (w, pixels.shape[2]))]
    pad = (window[1] // 2, window[1] // 2, window[0] // 2, window[0] // 2)
    wide = torch.nn.functional.pad(pixels[None].double(), pad, mode="replicate")
    return torch.nn.functional.avg_pool2d(wide, window, stride=1)[0].to(pixels)
