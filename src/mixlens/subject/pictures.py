"""What a caller passes as a picture, to the streams that a model reads; what it cannot read is refused."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from mixlens.architectures import Spec
from mixlens.capture.layout import Layout, Shape, layout_of, shape_of
from mixlens.capture.picture import PIXELS, Picture
from mixlens.capture.stream import Place
from mixlens.errors import EmptyInput, InputError, TooLong
from mixlens.subject.geometry import Geometry, geometry_of, processed
from mixlens.subject.head import Head

SHOWN = 512  # pixels of a picture's longer side that are kept to be drawn
MODES = ("RGB", "L", "1")
ORIENTATION = 0x0112  # in EXIF
# Not `ImageOps.exif_transpose`, which writes all of EXIF anew and fails where any of it is damaged.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_LAYOUTS: WeakKeyDictionary[Any, dict[Shape, Layout]] = WeakKeyDictionary()
_EXPECTED = (
    "expected a picture: a PIL image (RGB or L), the path of a file, an array (row, column, channel) of uint8, or a "
    "tensor (channel, row, column) as an image processor gives"
)


def is_picture(data: Any) -> bool:
    """Whether what a caller passes is a picture or several, where texts may come as well: a str is a text, a path a
    file. Raises InputError for a list of both.
    """
    if isinstance(data, Mapping):
        return PIXELS in data
    if isinstance(data, (list, tuple)) and data:
        kinds = {is_picture(item) for item in data}
        if len(kinds) > 1:
            raise InputError("expected texts or pictures in a list, got both; pass a list of each")
        return kinds.pop()
    if isinstance(data, Tensor):
        return data.is_floating_point()
    if isinstance(data, np.ndarray):
        return data.dtype == np.uint8 or data.dtype.kind == "f" or data.ndim > 2
    return isinstance(data, (Image.Image, os.PathLike))


def listed(data: Any) -> tuple[list[Any], bool]:
    """The pictures in `data`, and whether it was a single one. Raises InputError."""
    if isinstance(data, Mapping):
        if set(data) != {PIXELS}:
            raise InputError(f"expected a mapping with '{PIXELS}' alone, got the keys {sorted(map(str, data))}")
        data = _numbers(data[PIXELS])
        return (_apart(data), len(data) == 1) if data.ndim == 4 else ([data], True)
    if isinstance(data, (np.ndarray, Tensor)):
        return (_apart(data), False) if data.ndim == 4 else ([data], True)
    if isinstance(data, (list, tuple)):
        if not data:
            raise EmptyInput("expected a picture or several, got an empty list; pass at least one picture")
        return list(data), False
    return [data], True


def _numbers(held: Any) -> Tensor:
    """What stands at `pixel_values`. Raises InputError."""
    if isinstance(held, Tensor):
        return held
    try:
        return torch.from_numpy(np.asarray(held))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"expected '{PIXELS}' as a tensor (picture, channel, row, column) as an image processor gives, got "
            f"{type(held).__name__}: {held!r:.60}"
        ) from error


def _apart(several: Any) -> list[Any]:
    """The pictures of an array or a tensor. Raises EmptyInput."""
    if len(several) == 0:
        raise EmptyInput("expected a picture or several, got none")
    return list(several)


def picture_of(item: Any, model: Any, spec: Spec, processor: Any, head: Head) -> Picture:
    """One picture as a stream. Raises InputError."""
    if isinstance(item, Tensor):
        return _processed_already(item, model, spec, processor)
    image = opened(item)
    if processor is None:
        raise InputError(
            "a picture needs its model's image processor: mixlens.load(model, processor), or pass a tensor (channel, "
            "row, column) as the processor gives"
        )
    pixels = processed(processor, image)
    _fits(pixels, model)
    return _stream(pixels, image, geometry_of(processor, image.size, tuple(pixels.shape)), model, spec)


def opened(item: Any) -> Image.Image:
    """A picture in colour, or one of grey levels as such. Raises InputError."""
    if isinstance(item, (str, os.PathLike)):
        item = picture_in(item, str(item))
    if isinstance(item, np.ndarray):
        item = _array(item)
    if not isinstance(item, Image.Image):
        raise InputError(f"{_EXPECTED}, got {type(item).__name__}: {item!r:.60}")
    _single(item)
    if item.mode not in MODES:
        raise InputError(
            f"expected a picture in RGB or grey (L), got mode {item.mode!r}, which may hold transparency or colours of "
            "another kind; say what it is in RGB: image.convert('RGB')"
        )
    if 0 in item.size:
        raise EmptyInput(f"expected a picture with pixels, got one of {item.size[0]} x {item.size[1]}")
    return item.convert("RGB")


def picture_in(source: Any, name: str, formats: tuple[str, ...] | None = None, most: int | None = None) -> Image.Image:
    """The picture in a file that is there, or in what is read as one, turned as its camera says.

    `formats`: those that may come, `most`: how many pixels, both before a pixel is read. Raises InputError, TooLong.
    """
    try:
        with Image.open(source, formats=formats) as image:
            if most is not None and image.width * image.height > most:
                raise TooLong(f"expected at most {most:,} pixels, {name!r:.80} has {image.width:,} x {image.height:,}")
            _single(image)
            image.load()
            turn = _TURNS.get(image.getexif().get(ORIENTATION))
            return image.copy() if turn is None else image.transpose(turn)
    except UnidentifiedImageError as error:
        kinds = "PNG, JPEG ..." if formats is None else ", ".join(formats)
        raise InputError(f"expected a file with a picture ({kinds}), got {name!r:.80}, which holds none") from error
    except InputError:
        raise
    except Exception as error:  # whatever Pillow says of a damaged file
        reason = getattr(error, "strerror", None) or error
        noun = "a file with a picture" if hasattr(source, "read") else "the path of a picture"
        raise InputError(f"expected {noun}, got {name!r:.80}: {reason}") from error


def _single(image: Image.Image) -> None:
    """Raises InputError for several frames, of which all but the first would be left out."""
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        raise InputError(f"expected one picture, got {frames} frames; take one: image.seek(0); image.copy()")


def _array(array: Any) -> Image.Image:
    """An array of bytes as a picture."""
    if array.dtype != np.uint8:
        raise InputError(
            f"expected an array of uint8, 0 to 255, got {array.dtype}; what is processed already goes in as a tensor "
            "(channel, row, column)"
        )
    if array.size == 0:
        raise EmptyInput(f"expected a picture with pixels, got an array of the shape {array.shape}")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] == 3):
        raise InputError(
            f"expected an array (row, column) or (row, column, channel) with 1 or 3 channels, got {array.shape}; four "
            "channels hold transparency: leave the fourth out"
        )
    return Image.fromarray(array)


def _fits(pixels: Tensor, model: Any) -> None:
    """Raises InputError for numbers that no picture of the model has."""
    channels = shape_of(model)[0]
    if pixels.layout is not torch.strided or pixels.is_meta or pixels.is_quantized:
        kind = "on the device meta" if pixels.is_meta else pixels.layout if not pixels.is_quantized else pixels.dtype
        raise InputError(f"expected a tensor whose numbers are there, dense, got one {kind}; pass a dense one")
    if pixels.ndim != 3 or pixels.shape[0] != channels:
        raise InputError(
            f"expected a tensor (channel, row, column) with {channels} channel(s), got {tuple(pixels.shape)}"
        )
    if pixels.numel() == 0:
        raise EmptyInput(f"expected a picture with pixels, got a tensor of the shape {tuple(pixels.shape)}")
    if not pixels.is_floating_point():
        raise InputError(
            f"expected a tensor of floating-point numbers, as an image processor gives, got {pixels.dtype}; a picture "
            "of 0 to 255 is an array (row, column, channel) of uint8"
        )
    if not bool(torch.isfinite(pixels).all()):
        raise InputError("expected a picture of finite numbers, got NaN or infinity; look at how it was made")


def _processed_already(pixels: Tensor, model: Any, spec: Spec, processor: Any) -> Picture:
    """A tensor as it is. Raises InputError, where a processor says so too for numbers that it never gives."""
    _fits(pixels, model)
    low, high = float(pixels.min()), float(pixels.max())
    if processor is not None:
        known = geometry_of(processor, (pixels.shape[2], pixels.shape[1]), None)
        least, most = min(known.black), max(known.white)
        slack = 1e-3 * (most - least)
        if low < least - slack or high > most + slack:
            raise InputError(
                f"expected numbers of {least:.4g} to {most:.4g}, what the image processor makes of black and white, "
                f"got {low:.4g} to {high:.4g}; pass the picture itself, or what the processor gives"
            )
    elif high - low > 64:
        raise InputError(
            f"expected a tensor as an image processor gives, got numbers from {low:.4g} to {high:.4g}; scale and "
            "normalise it, or load the model with its image processor and pass the picture itself"
        )
    grey = (pixels.detach().cpu().float() - low) / ((high - low) or 1.0)
    channels = grey.expand(3, -1, -1) if len(grey) == 1 else grey[:3]
    image = Image.fromarray((channels.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8))
    return _stream(pixels, image, None, model, spec)


def _stream(pixels: Tensor, image: Image.Image, geometry: Geometry | None, model: Any, spec: Spec) -> Picture:
    """The stream of what a model is fed; `geometry`: where its pixels are in the picture, None: it is the picture."""
    shape: Shape = (pixels.shape[0], pixels.shape[1], pixels.shape[2])
    known = _LAYOUTS.setdefault(model, {})
    if shape not in known:
        known[shape] = layout_of(model, spec, shape)
    layout = known[shape]
    side = pixels.shape[1] // layout.grid[0], pixels.shape[2] // layout.grid[1]

    def place(cell: tuple[int, int] | None) -> Place | None:
        if cell is None:
            return None
        top, left = cell[0] * side[0], cell[1] * side[1]
        box = left, top, left + side[1], top + side[0]
        return tuple(map(float, box)) if geometry is None else geometry.box(box)

    fits = geometry is None or geometry.exact
    return Picture(
        labels=layout.labels,
        cells=layout.cells,
        grid=layout.grid,
        size=image.size,
        png=_png(image),
        places=tuple(map(place, layout.cells)) if fits else None,
        inputs={PIXELS: pixels.detach().to("cpu")},
    )


def _png(image: Image.Image) -> str:
    """A PNG in base64, no larger than is shown."""
    small = image.copy()
    if max(small.size) > SHOWN:
        small.thumbnail((SHOWN, SHOWN))
    out = io.BytesIO()
    small.save(out, "PNG", optimize=True)
    return base64.b64encode(out.getvalue()).decode()
