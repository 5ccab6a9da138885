"""The wave of a sound in the colours of its words' or frames' scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mixlens.capture.sound import Sound
from mixlens.view.kit import colors

WIDTH, HEIGHT = 960, 150  # pixels
_PAPER, _INK = 255, 70  # greys: of the ground, of the wave


def stretches(sound: Sound, groups: Sequence[Sequence[int]]) -> list[tuple[float, float]]:
    """The seconds that each group of frames stands for."""
    return [(sound.places[g[0]][0], sound.places[g[-1]][1]) for g in groups]


def heat(
    sound: Sound,
    spans: Sequence[tuple[float, float]],
    scores: Sequence[float],
    special: Sequence[bool],
    hues: colors.Scale,
) -> Image.Image:
    """The wave on a ground of the scores' colours, over all of the sound's length."""
    width = WIDTH
    out: NDArray[np.uint8] = np.full((HEIGHT, width, 3), _PAPER, dtype=np.uint8)
    for (start, end), score, apart in zip(spans, scores, special, strict=True):
        left, right = (round(width * t / sound.seconds) for t in (start, end))
        if not apart:
            out[:, left:right] = hues.rgb(score)
    top = max((max(abs(low), abs(high)) for low, high in sound.peaks), default=0.0) or 1.0
    for x in range(width):
        low, high = sound.peaks[min(len(sound.peaks) - 1, x * len(sound.peaks) // width)]
        rows = [round(HEIGHT / 2 * (1 - 0.94 * v / top)) for v in (high, low)]
        out[max(0, rows[0]) : max(rows[1], rows[0] + 1), x] = _INK
    return Image.fromarray(out)
