"""Stage 6: what a model answers about a text, where that is read, and which number of it a target means."""

from mixlens.answer.readout import (
    Answer,
    Reading,
    Readout,
    answer,
    outputs_read,
    reading,
    take,
)
from mixlens.answer.targets import check_target, every_class, targets_of

__all__ = [
    "Answer",
    "Reading",
    "Readout",
    "answer",
    "check_target",
    "every_class",
    "outputs_read",
    "reading",
    "take",
    "targets_of",
]
