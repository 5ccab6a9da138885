"""Where a model of pictures has its patches: which position is of which cell, seen from what enters the first layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mixlens.architectures import Spec, base_model
from mixlens.capture.entering import entering
from mixlens.capture.offload import device_of
from mixlens.capture.picture import PIXELS, Cell, boxes
from mixlens.errors import InputError, MixlensError, UnsupportedConfig

Shape = tuple[int, int, int]  # channels, rows and columns of pixels


@dataclass(frozen=True)
class Layout:
    """The cell of each position, None for one that no pixel reaches; and how many rows and columns of cells there are.

    `labels`: what each position is called.
    """

    cells: tuple[Cell | None, ...]
    grid: tuple[int, int]
    labels: tuple[str, ...]


def shape_of(model: Any) -> Shape:
    """The channels, rows and columns that a model's configuration says. Raises UnsupportedConfig."""
    base = base_model(model)
    config = base.config
    size, channels = getattr(config, "image_size", None), getattr(config, "num_channels", None)
    if channels is None:  # BLIP's cannot be set: what its patches are made by says it
        channels = next((m.in_channels for m in base.modules() if isinstance(m, torch.nn.Conv2d)), None)
    sides = (size, size) if isinstance(size, int) else size
    if not isinstance(channels, int) or not isinstance(sides, (list, tuple)) or len(sides) != 2:
        raise UnsupportedConfig(
            f"expected num_channels and an image_size of one number or two in the configuration of "
            f"{type(config).__name__}, got {channels!r} and {size!r}; such pictures have no rule here"
        )
    return channels, int(sides[0]), int(sides[1])


def random_picture(shape: Shape) -> Tensor:
    """(1, channel, row, column): the same for every model of a size."""
    draw = torch.Generator("cpu").manual_seed(0)
    return torch.randn(1, *shape, generator=draw, dtype=torch.float32, device="cpu")


@torch.no_grad()
def layout_of(model: Any, spec: Spec, shape: Shape) -> Layout:
    """Where the patches of pictures of a shape are. Raises InputError for a shape that the model does not take.

    A position is of the one cell whose pixels change it: rows and columns of cells are changed by the bits of their
    numbers, and by the bits' complements, so that a position that several cells reach is seen. Raises
    UnsupportedConfig for one.
    """
    config = base_model(model).config
    size = getattr(config, "patch_size", None)
    sides = (size, size) if isinstance(size, int) else size
    if not isinstance(sides, (list, tuple)) or len(sides) != 2:
        raise UnsupportedConfig(f"expected a patch_size of one number or two, got {size!r} ({type(config).__name__})")
    grid = shape[1] // int(sides[0]), shape[2] // int(sides[1])
    if 0 in grid:
        raise InputError(f"expected pictures of at least one patch, {tuple(sides)} pixels, got {shape[1:]}")
    noise = random_picture(shape)[0]
    masks = _masks(grid, shape)
    seen = _entering(model, spec, torch.stack([torch.zeros_like(noise), *(noise * mask for mask in masks)]))
    changed = (seen[1:] != seen[:1]).any(-1)  # (mask, position)
    moved, bits = changed[0], changed[1:].view(-1, 2, changed.shape[1])  # by all; by a bit and by its complement
    if bool((bits.sum(1) != moved).any()):
        raise _no_grid(config, "several of them reach one position, or none in every one")
    cells: list[Cell | None] = []
    rows = _bits(grid[0])
    for at in range(changed.shape[1]):
        ones = bits[:, 0, at].tolist()
        row, column = (sum(1 << k for k, bit in enumerate(part) if bit) for part in (ones[:rows], ones[rows:]))
        cells.append((row, column) if bool(moved[at]) else None)
    if sorted(c for c in cells if c is not None) != [(i, j) for i in range(grid[0]) for j in range(grid[1])]:
        raise _no_grid(config, "some have no position of their own")
    return Layout(tuple(cells), grid, _labels(cells, config))


def _bits(count: int) -> int:
    return (count - 1).bit_length()


def _masks(grid: tuple[int, int], shape: Shape) -> list[Tensor]:
    """Which pixels are changed: all; of each bit of the cells' rows and columns those that have it, and the rest."""
    box = boxes(grid, *shape[1:])
    out = [torch.ones(shape, dtype=torch.float32, device="cpu")]
    for axis, count in enumerate(grid):
        for bit in range(_bits(count)):
            mask = torch.zeros(shape, dtype=torch.float32, device="cpu")
            for number in range(count):
                if number >> bit & 1:
                    line = box((number, number))[axis]
                    mask[(slice(None), line) if axis == 0 else (slice(None), slice(None), line)] = 1
            out += [mask, 1 - mask]
    return out


def _entering(model: Any, spec: Spec, pixels: Tensor) -> Tensor:
    """(picture, position, dim): what the first layer reads. Raises InputError."""
    try:
        return entering(model, spec, {PIXELS: pixels.to(device_of(model), model.dtype)})
    except MixlensError:
        raise
    except Exception as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        rows, columns = shape_of(model)[1:]
        raise InputError(
            f"expected pictures of a size that {type(model).__name__} takes ({rows} x {columns} rows and columns by "
            f"its configuration), got {pixels.shape[2]} x {pixels.shape[3]}: "
            f"{str(error).strip().partition(chr(10))[0]}; resize it, or give a PIL image and the image processor"
        ) from error


def _no_grid(config: Any, why: str) -> UnsupportedConfig:
    return UnsupportedConfig(
        f"expected a position of its own for every patch of {config.patch_size} pixels ({type(config).__name__}), "
        f"{why}; pictures that are cut in another way have no rule here"
    )


def _labels(cells: list[Cell | None], config: Any) -> tuple[str, ...]:
    """Row and column from 1 ("patch 3,4"); "[CLS]" in front of them, "register 1"; others are numbered."""
    beside = [i for i, cell in enumerate(cells) if cell is None]
    registers = beside[len(beside) - int(getattr(config, "num_register_tokens", 0) or 0) :]
    names = {i: f"register {k}" for k, i in enumerate(registers, 1)}
    rest = [i for i in beside if i not in names]
    names |= {i: f"token {k}" if i else "[CLS]" for k, i in enumerate(rest, 1)}
    return tuple(names[i] if cell is None else f"patch {cell[0] + 1},{cell[1] + 1}" for i, cell in enumerate(cells))
