"""What a model answers, which row of a map speaks for the answer, and what a target means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from mixlens.attribute.target import Target
from mixlens.capture.text import Tokens
from mixlens.errors import TargetError, UnknownOption, did_you_mean

Task = Literal["sequence", "token", "masked", "causal", "question", "none"]
Rows = int | Literal["mean", "max"]

_ENDINGS: tuple[tuple[str, Task], ...] = (
    ("ForSequenceClassification", "sequence"),
    ("ForTokenClassification", "token"),
    ("ForMaskedLM", "masked"),
    ("ForCausalLM", "causal"),
    ("LMHeadModel", "causal"),
    ("ForQuestionAnswering", "question"),
)


def task_of(model: Any) -> Task:
    """The task of a model by the name of its class (transformers' naming scheme)."""
    name = type(model).__name__
    return next((task for ending, task in _ENDINGS if name.endswith(ending)), "none")


@dataclass(frozen=True)
class Head:
    """What is known of a model's head. `pooled`: the rows a sequence classifier was seen to read (see `probe`)."""

    task: Task
    labels: Mapping[int, str]
    pooled: Literal["first", "last", "mean"] | None = None
    causal: bool = False
    pad: int | None = None
    mask: int | None = None
    tokenizer: Any = None
    regression: bool = False


def check_target(target: Any) -> Target:
    """A `Target` from what a caller may pass: None, a label, an index, a token or a Target. Raises TargetError."""
    if isinstance(target, Target):
        return target
    if target is None or isinstance(target, (str, int)) and not isinstance(target, bool):
        return Target(target)
    raise TargetError(f"expected a label, an index, a token or a mixlens.Target, got {type(target).__name__}")


def read_out(head: Head, tokens: Tokens, target: Target, readout: Any = None) -> Rows:
    """The query row (or "mean" of all rows) that is read out for a target. Raises TargetError, UnknownOption."""
    n = len(tokens)
    if readout is not None:
        if readout in ("mean", "max"):
            return readout  # type: ignore[no-any-return]
        if isinstance(readout, bool) or not isinstance(readout, int) or not -n <= readout < n:
            raise UnknownOption(f"expected readout=-{n} to {n - 1}, 'mean' or 'max', got {readout!r}")
        return readout % n
    if target.position is not None:
        if head.task not in ("masked", "token", "causal"):
            raise TargetError(
                f"a position means nothing for a {head.task} head; leave it out, or pass readout={target.position}"
            )
        if not -n <= target.position < n:
            raise TargetError(f"expected a position of -{n} to {n - 1}, got {target.position}")
        return target.position % n
    if head.task == "masked":
        found = [i for i, t in enumerate(tokens.ids) if t == head.mask]
        if len(found) != 1:
            name = getattr(head.tokenizer, "mask_token", None) or "the mask token"
            raise TargetError(
                f"expected one {name} in the text of a masked language model, got {len(found)}; "
                f"put {name} where a word is to be explained, or pass mixlens.Target(position=...)"
            )
        return found[0]
    if head.task == "causal":
        return n - 1
    if head.task == "sequence":
        if head.pooled == "first":
            return 0
        if head.pooled == "last":
            return max((i for i, t in enumerate(tokens.ids) if t != head.pad), default=n - 1)
        if head.pooled == "mean":
            return "mean"
    if head.task == "none":
        if head.causal:
            return n - 1
        if tokens.special[0]:
            return 0
    raise TargetError(
        f"no read-out row is known for a {head.task} head here; pass readout= (a token position, 'mean' or 'max')"
        + (" or mixlens.Target(position=...)" if head.task == "token" else "")
    )


def resolve(head: Head, target: Target, logits: Tensor | None) -> tuple[Target, dict[str, Any]]:
    """The target with its index and label filled in, and what the model says: `{"prediction", "probability"}`.

    `logits` (class,) are those at the read-out position. Raises TargetError.
    """
    if head.task in ("none", "question") or logits is None:
        if target.what is not None or target.foil is not None:
            raise TargetError(
                f"expected no target for a {head.task} head, got {target.what!r}; load the model with its "
                "classification or language-model head"
            )
        return target, {}
    count = int(logits.shape[-1])
    if head.regression:
        if target.what not in (None, 0):
            raise TargetError(f"expected no target for a regression head (one output), got {target.what!r}")
        return replace(target, index=0, label=head.labels.get(0, "output")), {"output": float(logits[0])}
    index = int(logits.argmax()) if target.what is None else find(head, target.what, count)
    foil = None if target.foil is None else find(head, target.foil, count)
    if foil is not None and foil == index:
        raise TargetError(f"expected a foil other than the target, got {target.foil!r} for both")
    probabilities = logits.double().softmax(-1)
    best = int(logits.argmax())
    said = {
        "prediction": name(head, best),
        "probability": float(probabilities[best]),
        "target_probability": float(probabilities[index]),
    }
    if foil is not None:
        said["foil_probability"] = float(probabilities[foil])
    return replace(target, index=index, label=name(head, index)), said


def find(head: Head, what: str | int, count: int) -> int:
    """The class or token id that a label, token or index means. Raises TargetError with a suggestion."""
    kind = "label" if head.task in ("sequence", "token") else "token"
    if isinstance(what, int):
        if not 0 <= what < count:
            raise TargetError(f"expected a {kind} index of 0 to {count - 1}, got {what}")
        return what
    if kind == "label":
        by_name = {label: i for i, label in head.labels.items()}
        folded = {label.casefold(): i for label, i in by_name.items()}
        if what in by_name:
            return by_name[what]
        if what.casefold() in folded:
            return folded[what.casefold()]
        if what.isdecimal() and int(what) < count:
            return int(what)
        raise TargetError(f"no label {what!r}{did_you_mean(what, by_name)}")
    if head.tokenizer is None:
        raise TargetError(f"a target token needs a tokenizer; pass its id instead of {what!r}")
    known = head.tokenizer.get_vocab()
    if what in known:
        return int(known[what])
    ids = head.tokenizer(what, add_special_tokens=False)["input_ids"]
    if len(ids) == 1 and ids[0] != getattr(head.tokenizer, "unk_token_id", None):
        return int(ids[0])
    pieces = head.tokenizer.convert_ids_to_tokens(ids)
    raise TargetError(
        f"expected a target of one token, {what!r} is {len(ids)}: {pieces}; use one of them, or a word that the "
        "tokenizer knows whole (mind the blank before it: ' word')"
    )


def name(head: Head, index: int) -> str:
    """The label or token of an index."""
    if head.task in ("sequence", "token"):
        return str(head.labels.get(index, index))
    if head.tokenizer is None:
        return str(index)
    return str(head.tokenizer.convert_ids_to_tokens([index])[0])
