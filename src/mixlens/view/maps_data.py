"""What the script of a page of layer maps is given (`explorer/maps.js`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mixlens.capture.picture import Picture
from mixlens.capture.stream import Stream
from mixlens.errors import MixlensError
from mixlens.escape import visible
from mixlens.view.kit import arrays, caption, colors, packed, picture, pieces
from mixlens.view.kit.drawn import LayerMaps


def of_maps(maps: LayerMaps, pairs: bool = False) -> str | None:
    """The maps with what may be done with them; None where they are too large for a page.

    Heads are averaged where all of them are too many numbers, and numbers are of 16 bits where float32 would be too
    large; `notes` says both. `pairs`: they say what two texts have in common, and nothing is taken.
    """
    scores, notes = arrays.values(maps.scores), []
    averaged = bool(maps.heads) and scores.size > packed.EXACT
    if averaged:
        scores = scores.mean(1)
        notes.append("Mean over the heads: all of them would be too large for a page.")
    if scores.size > packed.LARGEST:
        return None
    if scores.size > packed.EXACT:
        notes.append("Numbers are kept to a 65,535th of their row's largest, so that the page stays small.")
    square = maps.queries is maps.keys
    rows = list(range(scores.shape[-2])) if maps.rows is None else list(maps.rows)
    head = {
        "kind": "maps",
        "keys": _stream(maps.keys),
        "queries": _stream(maps.queries),
        "rows": rows,
        "square": square,
        "pairs": pairs,
        "layers": arrays.layers(maps),
        "depth": getattr(maps, "depth", None) or len(maps),
        "aggregated": None if _aggregation(maps) is None else f"This layer ({visible(str(_aggregation(maps)))})",
        "rollout": _rollout(maps, averaged),
        "mean": _may(lambda one_layer: one_layer.mean(), maps),
        "start": _largest(maps, rows) if pairs else _start(maps, rows),
        "notes": notes,
        "colors": colors.arms(),
    }
    return packed.pack(head, {"maps": scores})


def _stream(stream: Stream) -> dict[str, Any]:
    """What the script is told of a stream: a piece a position, and of a picture where its patches are."""
    seen = {"picture": picture.sheet(stream)} if isinstance(stream, Picture) else {}
    return {**pieces.facts(stream, token=pieces.tokens(stream)), "noun": caption.noun(stream), **seen}


def _aggregation(maps: Any) -> Any:
    return getattr(maps, "aggregation", None)


def _rollout(maps: LayerMaps, averaged: bool) -> dict[str, Any]:
    """Whether these maps can be rolled out, with which share of the identity; else why not."""
    if averaged:
        return {"reason": "the heads were averaged; ask for maps without per_head", "share": 0, "scaled": False}
    return _may(lambda one_layer: one_layer.rollout(head=0 if maps.heads else None), maps)


def _may(run: Callable[[Any], Any], maps: Any) -> dict[str, Any]:
    """What an aggregation of the first layer says of the aggregation of all, or why it is refused."""
    try:
        meta = run(replace(maps, scores=maps.scores[:1])).meta
    except MixlensError as error:
        return {"reason": visible(str(error)), "share": 0, "scaled": False}
    return {"reason": None, "share": meta.get("residual") or 0, "scaled": "log_scale" in meta}


def _start(maps: LayerMaps, rows: list[int]) -> int:
    """The query token that is shown first: the one that is read out."""
    readout = maps.meta.get("readout")
    return readout if isinstance(readout, int) and readout in rows else rows[0]


def _largest(maps: LayerMaps, rows: list[int]) -> int:
    """The query token of the largest score between two words: special tokens have nothing in common to show."""
    scores = arrays.values(maps.scores).sum(0)
    words = [j for j, special in enumerate(maps.keys.special) if not special] or list(range(len(maps.keys)))
    best = {q: float(scores[i, words].max()) for i, q in enumerate(rows) if not maps.queries.special[q]}
    return max(best, key=best.__getitem__, default=rows[0])
