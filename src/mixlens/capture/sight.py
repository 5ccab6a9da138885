"""What the mask lets the rows of a text see, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from mixlens.capture.attention import Call


@dataclass(frozen=True)
class Sight:
    """What the mask lets the rows of one text see. `window`: tokens back, itself included; None: all."""

    causal: bool
    window: int | None
    plain: bool  # the mask is exactly that


def sight(visible: Tensor | None, n: int) -> Sight:
    """The `Sight` of a mask (row, key), None being no mask, over a text's first n tokens."""
    if visible is None or n < 2:
        return Sight(False, None, True)
    seen = visible[:n, :n].cpu().numpy()  # torch starts its threads for each of these small steps
    if np.triu(seen, 1).any():
        return Sight(False, None, False)
    i = np.arange(n)
    width = int(seen[-1].sum())
    plain = np.array_equal(seen, (i <= i[:, None]) & (i > i[:, None] - width))
    return Sight(True, width if width < n else None, plain)


class Sights:
    """The `Sight` of each layer so far, of each of a batch's texts of these lengths (`texts`)."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.texts: list[list[Sight]] = [[] for _ in lengths]
        self._lengths = lengths
        self._mask: Tensor | None = None  # the last one, and what it lets each text see: most layers share one, and
        self._seen: list[Sight] = []  # looking at it takes its time

    def look(self, call: Call) -> None:
        """What the rows may see in the next layer is put down."""
        seen = [Sight(call.causal and n > 1, None, True) for n in self._lengths]
        if call.mask is not None:
            if call.mask is not self._mask:
                visible = call.visible()
                assert visible is not None
                visible = visible.cpu()
                each = (visible[min(b, len(visible) - 1), 0] for b in range(len(self._lengths)))
                self._mask = call.mask
                self._seen = [sight(rows, n) for rows, n in zip(each, self._lengths, strict=True)]
            seen = self._seen
        for known, latest in zip(self.texts, seen, strict=True):
            known.append(latest)


def windows_of(sights: Sequence[Sight], n: int) -> tuple[bool, tuple[int | None, ...] | None]:
    """Whether no token of a text of n sees what stands behind it; and how far back each layer sees, where that is plain
    in all (None: all the way).
    """
    causal = n > 1 and all(s.causal for s in sights)
    return causal, tuple(s.window for s in sights) if causal and all(s.plain for s in sights) else None
