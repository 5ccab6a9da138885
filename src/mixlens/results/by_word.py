"""Maps of tokens or frames as maps of the words that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mixlens.capture.sound import Sound
from mixlens.capture.stream import Positions, Stream
from mixlens.capture.words import Unit, units
from mixlens.errors import Undefined

if TYPE_CHECKING:
    from mixlens.results.maps import LayerMaps


def by_word(maps: LayerMaps) -> LayerMaps:
    """What goes into a word from a word: summed over the tokens it comes from, the mean over those it goes into.

    So rows that sum to 1 still do (Clark et al. 2019). Raises Undefined, InputError.
    """
    if maps.rows is not None:
        raise Undefined(
            f"the mean over a word's rows needs all of them, these maps hold rows {', '.join(map(str, maps.rows))}; "
            "leave queries= out"
        )
    keys = units(maps.source)
    queries = keys if maps.into is None else units(maps.into)
    scores = maps.scores @ _sums(keys, maps.scores)
    scores = _sums(queries, scores, mean=True).transpose(0, 1) @ scores
    source = _words(maps.source, keys)
    return replace(
        maps,
        scores=scores,
        source=source,
        into=None if maps.into is None else _words(maps.into, queries),
        windows=None,
        meta={**maps.meta, "by": "word"},
    )


def drawn(maps: LayerMaps) -> LayerMaps:
    """The maps as a reader looks at them: of a sound by its words where they are known, since one frame says little."""
    return by_word(maps) if isinstance(maps.source, Sound) and maps.source.has_words and maps.rows is None else maps


def _sums(words: Sequence[Unit], like: Tensor, mean: bool = False) -> Tensor:
    """(position, word): 1, or one part of the word's positions, where the position is of the word."""
    out = torch.zeros(sum(len(w.indices) for w in words), len(words), dtype=like.dtype, device=like.device)
    for k, word in enumerate(words):
        out[list(word.indices), k] = 1 / len(word.indices) if mean else 1
    return out


def _words(stream: Stream, words: Sequence[Unit]) -> Positions:
    return Positions(
        unit="word",
        labels=tuple(word.text for word in words),
        marks=tuple(word.special for word in words),
        places=tuple(word.place or (None if word.start is None else (word.start, word.end or 0)) for word in words),
        axes=("start", "end"),
    )
