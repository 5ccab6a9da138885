"""What a model answers, which row of a map speaks for the answer, and what a target means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer.classes import find, name, sibling
from mixlens.answer.ctc import frames_asked, resolved
from mixlens.answer.entity import asks_entity, labelled, tokens_asked
from mixlens.answer.objective import merge, quantity
from mixlens.answer.spans import best_span, context_of
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens, text_of
from mixlens.errors import NotFinite, TargetError, UnknownOption
from mixlens.subject.head import Head
from mixlens.subject.outputs import EVERY
from mixlens.target import Quantity, Target

CLASSES = 64  # up to which a result records the probability of each

Readout = int | Literal["mean", "max"]


@dataclass(frozen=True)
class Reading:
    """Where one text's answer stands: `row` of the maps, `at` the position whose logits are the answer.

    `row` is None for extractive question answering, CTC and several tokens, where the answer itself says it, and where
    nobody needs it.
    """

    row: Readout | None
    at: int
    answered: bool  # the head has an answer there
    target: Target  # what is asked about this text
    context: tuple[int, ...] = ()  # the tokens that an answer may be made of, or is


@dataclass(frozen=True)
class Answer:
    """A resolved target: logits and index a part (question answering has two: start and end), and the rows."""

    target: Target
    indices: tuple[int, ...]
    rows: tuple[Readout, ...]
    reported: Mapping[str, Any]  # beside the target: predictions and probabilities, as results record them
    independent: bool = False  # each class has its own sigmoid
    regression: bool = False  # outputs without probabilities
    frames: tuple[int, ...] | None = None  # of CTC and of several tokens: those whose logits, of all, are read
    merged: tuple[tuple[int, ...], ...] = ()  # classes that are read as one each: the target's, and the foil's
    warnings: tuple[str, ...] = ()  # what the reader of the explanation should know about the target

    def chosen(self, of: Quantity) -> Quantity:
        """What was asked for, else `of`, else (a regression head) the output itself."""
        return self.target.of or ("logit" if self.regression else of)

    def read(self, logits: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The logits a part."""
        parts = logits if self.frames is None else tuple(logits[i] for i in self.frames)
        return tuple(merge(z, self.merged) for z in parts) if self.merged else parts

    @property
    def foil(self) -> int | None:
        """The place of the foil in what `read` gives."""
        return self.target.foil_index if not self.merged else 1 if len(self.merged) > 1 else None

    def value(self, logits: tuple[Tensor, ...], of: Quantity) -> Tensor:
        """The explained number for this text's logits, summed over the parts."""
        if self.regression and self.chosen(of) != "logit":
            raise TargetError(f"expected of='logit' for a regression head, got {self.target.of!r}: no probability here")
        parts = [
            quantity(z, i, self.foil, self.chosen(of), self.independent)
            for z, i in zip(self.read(logits), self.indices, strict=True)
        ]
        return torch.stack(parts).sum()

    def among(self, outputs: Sequence[int]) -> Answer:
        """The same answer where the logits are those of `outputs` alone."""
        foil = self.target.foil_index
        target = self.target if foil is None else replace(self.target, foil_index=outputs.index(foil))
        return replace(self, target=target, indices=tuple(outputs.index(i) for i in self.indices))


def take(matrix: Float[Tensor, "*axes query key"], rows: tuple[Readout, ...]) -> Float[Tensor, "*axes key"]:
    """The read-out rows of a matrix, summed (question answering reads two)."""
    parts = []
    for row in rows:
        if isinstance(row, int):
            parts.append(matrix[..., row, :])
        else:
            parts.append(matrix.mean(-2) if row == "mean" else matrix.amax(-2))
    return torch.stack(parts).sum(0)


def outputs_read(answers: Sequence[Answer], of: Quantity) -> list[int] | None:
    """The classes or tokens, in order, whose logits the explained numbers depend on; None: they depend on all."""
    if any(
        a.frames is not None or len(a.indices) != 1 or (a.target.foil_index is None and a.chosen(of) != "logit")
        for a in answers
    ):
        return None
    read = {i for a in answers for i in (a.indices[0], a.target.foil_index) if i is not None}
    return sorted(read)


def reading(head: Head, tokens: Stream, target: Target, readout: Any = None, rowed: bool = True) -> Reading:
    """Where a text's answer stands; `rowed`: its row must be known. Raises TargetError, UnknownOption."""
    row = None if readout is None else _override(readout, len(tokens))
    if head.task == "question":
        return Reading(row, 0, True, target, context_of(text_of(tokens)))
    if head.task == "ctc":
        return Reading(row, EVERY, True, target, frames_asked(tokens, target))
    if head.task == "token" and (isinstance(target.position, tuple) or target.word or asks_entity(head, target)):
        return Reading(row, EVERY, True, target, tokens_asked(tokens, target))
    if target.word is not None:
        raise TargetError(f"a word is asked about of a token classifier, not of {head.in_words}; leave word= out")
    if head.task not in ("masked", "causal", "token"):
        if target.position is not None:
            raise TargetError(
                f"a position means nothing for {head.in_words}; leave it out, or pass readout={target.position}"
            )
        pooled = row if row is not None else _pooled_row(head, tokens)
        if pooled is None and rowed:
            raise TargetError(
                f"no read-out row is known for {head.in_words} here; pass readout= (a token position, 'mean' or 'max')"
            )
        return Reading(pooled, 0, head.task == "sequence", target)
    try:
        at = _position(head, tokens, target)
    except TargetError:
        if row is None or target != Target():
            raise
        return Reading(row, 0, False, target)  # the row was given, and no single position has the answer
    return Reading(at if row is None else row, at, True, target)


def _override(readout: Any, n: int) -> Readout:
    if readout == "mean" or readout == "max":
        return readout
    if isinstance(readout, bool) or not isinstance(readout, int) or not -n <= readout < n:
        raise UnknownOption(f"expected readout=-{n} to {n - 1}, 'mean' or 'max', got {readout!r}")
    return readout % n


def _position(head: Head, tokens: Stream, target: Target) -> int:
    n = len(tokens)
    if target.position is not None:
        return _in_range(target.position, n)
    if head.task == "causal":
        return n - 1
    if head.task == "masked":
        masks = [i for i, t in enumerate(text_of(tokens).ids) if t == head.mask]
        if len(masks) == 1:
            return masks[0]
        name = getattr(head.tokenizer, "mask_token", None) or "the mask token"
        raise TargetError(
            f"expected one {name} in the text of a masked language model, got {len(masks)}; "
            f"put {name} where a word is to be explained, or pass mixlens.Target(position=...)"
        )
    raise TargetError(
        f"{head.in_words} answers at every token: pass mixlens.Target(label, position=0 to {n - 1}) for one of them, "
        "or word= a word of the text"
    )


def _in_range(position: Any, n: int) -> int:
    if isinstance(position, bool) or not isinstance(position, int) or not -n <= position < n:
        raise TargetError(f"expected a position of -{n} to {n - 1}, got {position!r}")
    return position % n


def _pooled_row(head: Head, tokens: Stream) -> Readout | None:
    n = len(tokens)
    if head.pooled == "last":
        ids = tokens.ids if isinstance(tokens, Tokens) else ()
        return max((i for i, t in enumerate(ids) if t != head.pad), default=n - 1)
    if head.pooled == "mean":
        return "mean"
    if head.pooled == "first" or (head.task == "none" and not head.causal and tokens.special[0]):
        return 0
    if head.task == "none" and head.causal:
        return n - 1
    return None


def answer(head: Head, read: Reading, logits: tuple[Tensor, ...] | None) -> Answer:
    """The target with index and label filled in, the rows, and what the model says. Raises TargetError, NotFinite.

    `logits`: (class,) at the read-out position; for question answering start and end logits, each (token,).
    """
    target = read.target
    if not read.answered or logits is None:
        if target.what is not None or target.foil is not None:
            raise TargetError(
                f"expected no target for {head.in_words}, got {target.what!r}; load the model with its "
                "classification or language-model head"
            )
        return Answer(target, (), _rows(read), {})
    if any(bool((z.isnan() | z.isposinf()).any() or not z.isfinite().any()) for z in logits):
        raise NotFinite(
            "expected finite logits, the head gives NaN or infinity; a weight holds some (load an intact checkpoint), "
            "or half precision overflowed (load the model in float32)"
        )
    if head.task == "question":
        return _span(read, logits)
    if head.task == "ctc":
        full, indices, reported = resolved(head, target, read.context, logits)
        return Answer(full, indices, _rows(read) or read.context, reported, frames=read.context)
    if read.at == EVERY:
        full, merged, reported = labelled(head, target, read.context, logits)
        rows, indices = _rows(read) or read.context, (0,) * len(read.context)
        return Answer(full, indices, rows, reported, head.multilabel, frames=read.context, merged=merged)
    (z,) = logits
    rows, count = _rows(read), len(z)
    if head.regression and not head.multilabel:
        return _output(head, target, rows, z)
    index = int(z.argmax()) if target.what is None else find(head, target.what, count)
    foil = None if target.foil is None else find(head, target.foil, count)
    if foil is not None and foil == index:
        raise TargetError(f"expected a foil other than the target, got {target.foil!r} for both")
    p = torch.sigmoid(z.double()) if head.multilabel else z.double().softmax(-1)
    best = int(z.argmax())
    reported = {
        "prediction": name(head, best),
        "probability": float(p[best]),
        "target_probability": float(p[index]),
    }
    if foil is not None:
        reported["foil_probability"] = float(p[foil])
    if head.task in ("sequence", "token") and count <= CLASSES:
        reported["probabilities"] = {str(name(head, i)): float(p[i]) for i in range(count)}
    full = replace(target, index=index, label=name(head, index), foil_index=foil)
    named = [(target.what, index), (target.foil, foil)]
    warnings = tuple(w for wanted, i in named if (w := _likelier_with_blank(head, wanted, i, p)) is not None)
    return Answer(full, (index,), rows, reported, head.multilabel, warnings=warnings)


def _rows(read: Reading) -> tuple[Readout, ...]:
    return () if read.row is None else (read.row,)


def _likelier_with_blank(head: Head, wanted: Any, index: int | None, p: Tensor) -> str | None:
    """A warning where a token was asked for by its letters, and the one with (or without) a blank is likelier."""
    if head.task not in ("masked", "causal") or not isinstance(wanted, str) or index is None:
        return None
    other = sibling(head, index)
    if other is None or other >= len(p) or p[other] <= p[index]:
        return None
    taken, likelier = name(head, index), name(head, other)
    return (
        f"{wanted!r} was taken as the token {taken!r} (probability {float(p[index]):.2g}); {likelier!r}, which differs "
        f"by the blank before it, is likelier here ({float(p[other]):.2g}): pass {likelier!r} if you meant that"
    )


def _output(head: Head, target: Target, rows: tuple[Readout, ...], z: Tensor) -> Answer:
    """Regression: the output, or the one asked for where there are several; a difference of two with a foil."""
    if len(z) == 1 and (target.what not in (None, 0, head.labels.get(0)) or target.foil is not None):
        raise TargetError(f"expected no target for a regression head with one output, got {target.what!r}")
    if len(z) > 1 and target.what is None:
        names = ", ".join(name(head, i) for i in range(len(z)))
        raise TargetError(f"a regression head with {len(z)} outputs has no largest one to explain; name one of {names}")
    index = 0 if target.what is None else find(head, target.what, len(z))
    foil = None if target.foil is None else find(head, target.foil, len(z))
    if foil == index:
        raise TargetError(f"expected a foil other than the target, got {target.foil!r} for both")
    full = replace(target, index=index, label=head.labels.get(index, "output"), foil_index=foil)
    return Answer(full, (index,), rows, {"output": float(z[index])}, regression=True)


def _span(read: Reading, logits: tuple[Tensor, ...]) -> Answer:
    """Extractive question answering: the likeliest span of the context, or the positions asked for; both rows."""
    target = read.target
    if target.what is not None or target.foil is not None:
        raise TargetError("expected mixlens.Target(position=(start, end)) for question answering, got a label or token")
    n = len(logits[0])
    ends = target.position if target.position is not None else best_span(logits[0], logits[1], read.context)
    if not isinstance(ends, tuple) or len(ends) != 2:
        raise TargetError(f"expected position=(start, end) for question answering, got {target.position!r}")
    start, end = (_in_range(i, n) for i in ends)
    if start > end:
        raise TargetError(f"expected an answer that starts before it ends, got position={target.position!r}")
    rows: tuple[Readout, ...] = (start, end) if read.row is None else (read.row,)
    p = float(logits[0].softmax(-1)[start] * logits[1].softmax(-1)[end])
    full = replace(target, position=(start, end), label=f"tokens {start} to {end}")
    return Answer(full, (start, end), rows, {"answer": (start, end), "probability": p})
