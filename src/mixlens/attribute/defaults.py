"""Which method explains an answer where none is named: by the model's task, and whether its rows see later tokens.

Each line stands on measurements: docs/known-source.md for causal models, docs/choosing.md for encoders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mixlens.attribute.frozen import Frozen, PathLogit
from mixlens.attribute.logit import Logit
from mixlens.attribute.names import method
from mixlens.errors import Undefined
from mixlens.subject import EncoderDecoder, Subject
from mixlens.subject.head import HeadTask


@dataclass(frozen=True)
class Default:
    """One line of the table: `method` explains models whose rows see earlier tokens alone (`causal`), or all tokens.

    `tasks`: of these heads; None: of any that answers. `answered`: whether there must be an answer at all.
    `two_streams`: of encoder-decoders.
    """

    method: str
    causal: bool
    tasks: tuple[HeadTask, ...] | None = None
    answered: bool = True
    two_streams: bool = False

    def fits(self, subject: Subject, readout: bool = False) -> bool:
        """Whether it is for this model, and defined there. `readout`: whether a row is asked for, not an answer."""
        head = subject.head
        if readout and self.answered:
            return False
        if self.two_streams != isinstance(subject, EncoderDecoder) or head.causal != self.causal:
            return False
        if self.answered and head.task == "none":
            return False
        return (self.tasks is None or head.task in self.tasks) and _defined(self.method, subject)


# The first that fits. A rollout through many causal layers says where a token stands rather than what it is: below
# random scores on answers whose source is known. path_logit is above them on every task tried, head_logit, which has
# no rules to be refused by, on all but chains and what the last token says by itself. A rollout knows no class: of
# pairs of texts alti's order may be no better than a random one, while cp_lrp's is near the best on every set tried.
# Masked words' cues are where alti finds them.
DEFAULTS = (
    Default("path_logit", causal=True, tasks=("causal",)),
    Default("alti", causal=True, answered=False, two_streams=True),
    Default("head_logit", causal=True, tasks=("causal",)),
    Default("saliency", causal=True),
    Default("alti", causal=True, answered=False),  # no answer, so no gradient of one
    Default("cp_lrp", causal=False, tasks=("sequence",)),
    Default("alti", causal=False, answered=False),
)


def default_method(subject: Subject, options: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The name of the method for this model and these options where the caller names none."""
    readout = options.get("readout") is not None
    return next(default.method for default in DEFAULTS if default.fits(subject, readout))


def _defined(name: str, subject: Subject) -> bool:
    try:
        chosen = method(name).for_spec(subject.spec).for_head(subject.head)
        if isinstance(chosen, (Logit, PathLogit)):
            subject.unembedding  # noqa: B018 (raises where the logits are made otherwise)
        if isinstance(chosen, Frozen):
            chosen.tried(subject)
    except Undefined:
        return False
    return True
