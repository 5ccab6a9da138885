"""Scores as arrays, and what their rows and columns are called."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mixlens.escape import visible
from mixlens.view.kit.drawn import Attribution, LayerMaps

Array = NDArray[np.float64]


def values(tensor: Tensor) -> Array:
    """A tensor of any type and device as a float64 array."""
    return tensor.detach().cpu().double().numpy()


def labels(result: Attribution | LayerMaps, limit: int = 18) -> list[str]:
    """The positions as labels of an axis: visible, on one line, at most `limit` characters."""
    return _shortened(result.display, limit)


def _shortened(names: Sequence[str], limit: int) -> list[str]:
    lines = [" ".join(visible(t).split()) or "␣" for t in names]
    return [t if len(t) <= limit else t[: limit - 1] + "…" for t in lines]


def layers(maps: LayerMaps) -> list[int]:
    """The numbers of the layers that are here, from 1."""
    return [i + 1 for i in (range(len(maps)) if maps.layer_numbers is None else maps.layer_numbers)]


def query_labels(maps: LayerMaps, limit: int = 18) -> list[str]:
    """The tokens of the query rows that are here, as `labels`."""
    names = _shortened(maps.queries.display, limit)
    return names if maps.rows is None else [names[i] for i in maps.rows]


def units(maps: LayerMaps) -> str:
    """What the positions on both axes are called, in the plural."""
    return maps.keys.units if maps.keys.unit == maps.queries.unit else "positions"


def readout(maps: LayerMaps) -> tuple[Array, str]:
    """What goes into the read-out row at each layer, (layer, token), heads averaged, and its name.

    The mean over query rows where no read-out row is known, or it is not here.
    """
    scores = values(maps.scores)
    scores = scores.mean(1) if scores.ndim == 4 else scores
    row = maps.meta.get("readout")
    chosen = [i for i in (row if isinstance(row, tuple) else (row,)) if isinstance(i, int)]
    here = list(range(scores.shape[1]) if maps.rows is None else maps.rows)
    if not any(i in here for i in chosen) and len(here) == 1:
        chosen = here
    mean = ", head mean" if maps.heads else ""
    if chosen and all(i in here for i in chosen):
        names = " and ".join(row_name(maps, i) for i in chosen)
        return scores[:, [here.index(i) for i in chosen]].mean(1), f"what flows into {names}{mean}"
    return scores.mean(1), f"mean over {'all' if maps.rows is None else 'the computed'} query rows{mean}"


def row_name(maps: LayerMaps, row: int) -> str:
    """A query row by its token: `[CLS] (token 0)`."""
    stream = maps.queries
    count = maps.scores.shape[-2] if maps.rows is None else len(stream)
    place = f"{stream.unit} {row % count}"
    return f"{_shortened(stream.display, 18)[row]} ({place})" if count == len(stream) else place


def pooled(scores: Array, side: int) -> tuple[Array, int]:
    """The last two axes cut to at most `side` by keeping of each k x k square the score of the largest size; k."""
    k = math.ceil(max(scores.shape[-2:]) / side)
    if k == 1:
        return scores, 1
    *lead, n, m = scores.shape
    grid = np.zeros((*lead, -(-n // k) * k, -(-m // k) * k))
    grid[..., :n, :m] = scores
    grid = grid.reshape(*lead, grid.shape[-2] // k, k, grid.shape[-1] // k, k).swapaxes(-3, -2)
    grid = grid.reshape(*grid.shape[:-2], k * k)
    return np.take_along_axis(grid, np.abs(grid).argmax(-1)[..., None], -1)[..., 0], k
