"""What an explanation is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mixlens.arguments import is_whole, shown
from mixlens.errors import TargetError

Quantity = Literal["logit", "prob", "log_odds"]


@dataclass(frozen=True)
class Target:
    """A label, class index, token or token id to explain.

    `what`: a label name or index (classifiers), a token or its id (language models); None is the prediction.
    `foil`: explain `what` rather than this. `position`: the token position that is read out (0-based, negatives
    count from the end); for extractive question answering the pair (start, end), for token classifiers also (first,
    last). `word`: of a token classifier, the word or words of the text whose tokens are asked about, or their
    characters (start, end). Of several tokens the sum of their numbers is explained, and `what` may be an entity
    ("PER"): its labels (B-PER, I-PER) as one. `of`: the quantity; None is the method's own (the logit for gradients,
    the probability for blank-out). `index` and `label` are filled in by mixlens: the class or token id and its name.
    Raises TargetError.

    Examples:
        >>> target = mixlens.Target("positive", foil="negative", of="log_odds")
        >>> lens.attribute("a deep film.", method="grad_x_input", target=target).target.label
        'positive'
    """

    what: str | int | None = None
    foil: str | int | None = None
    position: int | tuple[int, int] | None = None
    of: Quantity | None = None
    index: int | None = None
    label: str | None = None
    foil_index: int | None = None
    word: str | tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Raises TargetError for what is no target whatever the model."""
        for name, value in (("what", self.what), ("foil", self.foil)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (str, int))):
                raise TargetError(f"expected {name}= a label, an index or a token, got {shown(value)}")
        if self.of is not None and not (isinstance(self.of, str) and self.of in ("logit", "prob", "log_odds")):
            raise TargetError(f"expected of='logit', 'prob' or 'log_odds', got {shown(self.of)}")
        ends = self.position if isinstance(self.position, tuple) else (self.position,)
        pair = not isinstance(self.position, tuple) or len(self.position) == 2
        if self.position is not None and not (pair and all(map(is_whole, ends))):
            raise TargetError(f"expected a position, a whole number, or (start, end), got {shown(self.position)}")
        characters = isinstance(self.word, tuple) and len(self.word) == 2 and all(map(is_whole, self.word))
        if self.word is not None and not (characters or (isinstance(self.word, str) and self.word.strip())):
            raise TargetError(f"expected word= one of the text, or its characters (start, end), got {shown(self.word)}")
