"""A picture with the scores of its patches on it: as an image, and as rows of a terminal."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.text import Text

from mixlens.capture.picture import Picture
from mixlens.view.kit import colors

SIDE = 480  # pixels of the longer side, at least: small pictures are enlarged, each of their pixels a square
_FADED = 0.55  # of the picture's own contrast, so that the colours on it are told from its own
_WEIGHT = 0.8  # of the colour where a score is the largest


def scale(picture: Picture, scores: Sequence[float] | NDArray[np.float64]) -> colors.Scale:
    """The colours of the patches; [CLS] and registers are left out, which would leave them none."""
    return colors.scale([float(s) for s, special in zip(scores, picture.special, strict=True) if not special])


def heat(picture: Picture, scores: Sequence[float] | NDArray[np.float64], hues: colors.Scale) -> Image.Image:
    """The picture in grey, each patch under the colour of its score, the stronger the larger it is."""
    shown = enlarged(picture.image)
    paper = np.asarray(shown.convert("L").convert("RGB"), dtype=np.float64)
    paper = 255 - _FADED * (255 - paper)
    for i, box in boxes(picture, shown.size):
        left, top, right, bottom = box
        share = hues.share(float(scores[i]))
        colour = np.array(hues.rgb(float(np.sign(share)) * hues.top), dtype=np.float64)
        weight = _WEIGHT * abs(share)
        part = paper[top:bottom, left:right]
        paper[top:bottom, left:right] = (1 - weight) * part + weight * colour * (0.35 + 0.65 * part / 255)
    return Image.fromarray(paper.round().clip(0, 255).astype(np.uint8))


def sheet(picture: Picture) -> dict[str, Any]:
    """The picture in grey for a page's script, and of each position its box in parts of the sides, or None."""
    shown = enlarged(picture.image)
    paper = np.asarray(shown.convert("L").convert("RGB"), dtype=np.float64)
    faded = Image.fromarray((255 - _FADED * (255 - paper)).round().astype(np.uint8))
    known = dict(shares(picture))
    return {"uri": uri(faded), "boxes": [known.get(i) for i in range(len(picture))]}


def enlarged(image: Image.Image) -> Image.Image:
    """The picture in colour, as large as it is to be looked at."""
    times = max(1, -(-SIDE // max(image.size)))
    size = image.size[0] * times, image.size[1] * times
    return image.convert("RGB").resize(size, Image.Resampling.NEAREST)


def boxes(picture: Picture, size: tuple[int, int]) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Each patch with its box (left, top, right, bottom) in a drawing of this size."""
    out = []
    for i, share in shares(picture):
        left, top, right, bottom = (round(v * side) for v, side in zip(share, (*size, *size), strict=True))
        out.append((i, (left, top, right, bottom)))
    return out


def shares(picture: Picture) -> list[tuple[int, tuple[float, float, float, float]]]:
    """Each patch with its box (left, top, right, bottom) in parts of the sides; as a grid where none is known."""
    out = []
    rows, columns = picture.grid
    for i, cell in enumerate(picture.cells):
        if cell is None:
            continue
        row, column = cell
        share = (column / columns, row / rows, (column + 1) / columns, (row + 1) / rows)
        place = None if picture.places is None else picture.places[i]
        if place is not None:
            width, height = picture.size
            share = place[0] / width, place[1] / height, place[2] / width, place[3] / height
        out.append((i, share))
    return out


def uri(image: Image.Image) -> str:
    """An image as a data URI."""
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def grid(picture: Picture, scores: Sequence[float] | NDArray[np.float64], hues: colors.Scale) -> Text:
    """A row of cells for each row of patches, on the colours of their scores, with percent of the largest size."""
    rows, columns = picture.grid
    numbers = columns <= 20
    values = {cell: float(s) for cell, s in zip(picture.cells, scores, strict=True) if cell is not None}
    text = Text()
    for row in range(rows):
        for column in range(columns):
            value = values[row, column]
            cell = f"{100 * hues.share(value):4.0f} " if numbers else "  "
            text.append(cell, style=f"#{hues.ink(value)} on #{hues.hex(value)}")
        text.append("\n")
    text.rstrip()
    return text
