"""What an explanation is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Quantity = Literal["logit", "prob", "log_odds"]


@dataclass(frozen=True)
class Target:
    """A label, class index, token or token id to explain.

    `what`: a label name or index (classifiers), a token or its id (language models); None is the prediction.
    `foil`: explain `what` rather than this. `position`: the token position that is read out (0-based, negatives
    count from the end); for extractive question answering the pair (start, end). `of`: the quantity; None is the
    method's own (the logit for gradients, the probability for blank-out). `index` and `label` are filled in by
    mixlens: the class or token id and its name.
    """

    what: str | int | None = None
    foil: str | int | None = None
    position: int | tuple[int, int] | None = None
    of: Quantity | None = None
    index: int | None = None
    label: str | None = None
    foil_index: int | None = None
