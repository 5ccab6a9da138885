"""Perturbation curves of a chunk: every text without some of its tokens, each such text once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixlens.attribute.removal import changed, left
from mixlens.attribute.variants import Variant
from mixlens.evaluation.explain import Item
from mixlens.evaluation.traced import TracedItem
from mixlens.evaluation.traced import left as left_of_answers
from mixlens.evaluation.weakened import left as weakened
from mixlens.lens import Lens
from mixlens.measure.measure import EMBEDDED

Key = tuple[int, tuple[Any, ...], str, bool]  # text, tokens taken out, what replaces them, are [PAD]s masked
_BATCHES = 64  # of changed texts at a time: what is held of them stays small


class Curves:
    """Collects what must pass through the model, passes it, and hands the curves out."""

    def __init__(self, lens: Lens, items: Sequence[Item]) -> None:
        self.lens, self.items = lens, items
        self.wanted: dict[Key, None] = {}
        self.log_p: dict[Key, float] = {}

    def want(self, at: int, removed: Sequence[tuple[Any, ...]], replace_by: str, mask_pad: bool) -> None:
        """Text `at` without each of these sets of tokens will be asked for."""
        for indices in removed:
            if indices:
                self.wanted.setdefault((at, indices, replace_by, mask_pad))

    def run(self, batch_size: int, tick: Callable[[float], None]) -> None:
        """Pass all that is wanted; `tick(share done)`. Raises Undefined, UnknownOption."""

        def length(key: Key) -> int:
            n = len(self.items[key[0]].tokens)
            return n - len(key[1]) if key[2] == "delete" or key[3] else n

        keys = sorted(self.wanted, key=lambda key: -length(key))
        step = _BATCHES * batch_size
        for start in range(0, len(keys), step):
            batch = keys[start : start + step]
            self.log_p.update(zip(batch, self._left(batch, batch_size), strict=True))
            tick((start + len(batch)) / len(keys))

    def _left(self, keys: Sequence[Key], batch_size: int) -> list[float]:
        """The log-probability that is left in each changed text, in order."""
        subject, out = self.lens.subject, dict.fromkeys(keys, float("nan"))
        answers = [key for key in keys if isinstance(self.items[key[0]], TracedItem)]
        weak = [key for key in answers if key[2] in EMBEDDED]
        answers = [key for key in answers if key[2] not in EMBEDDED]
        rest = [key for key in keys if not isinstance(self.items[key[0]], TracedItem)]
        out |= zip(rest, left(subject, [self._changed(*key) for key in rest], batch_size), strict=True)
        pairs = [(item, self._changed(*key)) for key in answers if isinstance(item := self.items[key[0]], TracedItem)]
        out |= zip(answers, left_of_answers(subject, pairs, batch_size), strict=True)
        asks = [(item, key[1], key[2]) for key in weak if isinstance(item := self.items[key[0]], TracedItem)]
        out |= zip(weak, weakened(subject, asks, batch_size) if asks else (), strict=True)
        return list(out.values())

    def _changed(self, at: int, removed: tuple[Any, ...], replace_by: str, mask_pad: bool) -> Variant | None:
        item = self.items[at]
        return changed(self.lens.subject, item.whole, item.read.at, item.answer, removed, replace_by, mask_pad)

    def curve(
        self, at: int, removed: Sequence[tuple[Any, ...]], replace_by: str, mask_pad: bool
    ) -> NDArray[np.float64]:
        """(1 + level,): log-probability of the untouched text, then of what is left at each level."""
        whole = self.items[at].log_p
        rest = [self.log_p[at, indices, replace_by, mask_pad] if indices else whole for indices in removed]
        return np.array([whole, *rest], dtype=np.float64)
