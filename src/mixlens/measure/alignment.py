"""How well scores of an answer's tokens say which source token each translates."""

from __future__ import annotations

from collections.abc import Collection

from jaxtyping import Float
from torch import Tensor

from mixlens.errors import InputError

Link = tuple[int, int]  # a target's token, and a source's


def alignment(scores: Float[Tensor, "target source"]) -> set[Link]:
    """Each target token with the source token of its largest score; one with no score above 0 with none."""
    best = scores.argmax(1).tolist()
    return {(t, j) for t, j in enumerate(best) if scores[t, j] > 0}


def alignment_error_rate(links: Collection[Link], sure: Collection[Link], possible: Collection[Link] = ()) -> float:
    """1 - (|A & S| + |A & P|) / (|A| + |S|), P the sure links S and those that are possible (Och & Ney 2003).

    0 where every sure link is there and nothing that is not possible, 1 where nothing is right. Raises InputError
    without links.

    Examples:
        >>> alignment_error_rate({(0, 0), (1, 2)}, sure={(0, 0)}, possible={(1, 2)})
        0.0
    """
    a, s, p = set(links), set(sure), {*sure, *possible}
    if not s:
        raise InputError("expected at least one sure link between a target's token and a source's, got none")
    return 1 - (len(a & s) + len(a & p)) / (len(a) + len(s))
