"""What is asked of which texts, checked; and the way from raw scores to a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from torch import Tensor

from mixlens.aggregate.shares import normalize_rows
from mixlens.answer import Answer, Reading
from mixlens.attribute.method import Deep, Method
from mixlens.capture.batch import BatchSize
from mixlens.capture.stream import Stream
from mixlens.errors import TargetError
from mixlens.progress import Progress
from mixlens.results import Attribution
from mixlens.subject import Subject

M_co = TypeVar("M_co", bound=Method, covariant=True)


@dataclass(frozen=True, eq=False)
class Request(Generic[M_co]):
    """What is asked of which texts. `options`: the method's own; the rest are those that every method has."""

    name: str
    method: M_co
    options: Mapping[str, Any]
    texts: Sequence[Stream]
    reads: Sequence[Reading]
    normalize: bool = True
    batch_size: int = 32  # of the longest texts
    sizes: BatchSize | None = None  # where shorter texts may be more; None: `batch_size` always
    progress: Progress | None = None
    written: Mapping[str, Any] = field(default_factory=dict)  # as the caller wrote them, for the record
    layered: Deep | None = None  # a preset's `layers`: those up to each, or each alone; None: free

    def size_of(self, n: int) -> int:
        """How many texts of n tokens go through at a time."""
        return self.sizes(n) if callable(self.sizes) else self.batch_size

    @property
    def answers(self) -> list[int]:
        """Where each text's answer is read."""
        return [read.at for read in self.reads]

    def need_answer(self, subject: Subject) -> None:
        """Raises TargetError where there is no answer to explain."""
        if not all(read.answered for read in self.reads):
            raise TargetError(
                f"{self.name} explains a model's answer, got {subject.head.in_words}, which gives none here; load it "
                "with its classification or language-model head, or pass mixlens.Target(position=...)"
            )

    def result(
        self, tokens: Stream, scores: Tensor, layers: Tensor | None, answer: Answer, meta: Mapping[str, Any]
    ) -> Attribution:
        """The Attribution of raw scores: divided by their sum, unless signed or unasked."""
        share = self.normalize and not (self.method.signed or self.options.get("signed"))
        row = answer.rows[0] if len(answer.rows) == 1 else answer.rows or None
        warnings = (*meta.get("warnings", ()), *answer.warnings)
        warned = {"warnings": warnings} if warnings else {}
        return Attribution(
            source=tokens,
            scores=normalize_rows(scores) if share else scores,
            method=self.name,
            options=dict(self.written),
            meta={**meta, "class_specific": self.method.class_specific, "readout": row, **answer.reported, **warned},
            target=answer.target,
            layers=normalize_rows(layers) if share and layers is not None else layers,
        )
