"""What an explanation is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """A label, class index, token or token id to explain.

    `what`: a label name or index (classifiers), a token or its id (language models); None is the prediction.
    `foil`: explain `what` rather than this. `position`: the token position that is read out (0-based, negatives
    count from the end). `of`: the quantity. The last two fields are filled in by mixlens: the class or token id
    and its name.
    """

    what: str | int | None = None
    foil: str | int | None = None
    position: int | None = None
    of: Literal["logit", "prob", "log_odds"] = "logit"
    index: int | None = None
    label: str | None = None
