"""What is left of an answer as tokens are taken out of a text: many changed texts through the model at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mixlens.answer import Answer
from mixlens.architectures import takes_positions
from mixlens.attribute.variants import Substitute, Variant, replacement, signal_filler, variant
from mixlens.capture.fed import fillers, kind
from mixlens.capture.stream import Stream
from mixlens.capture.text import text_of
from mixlens.errors import Undefined, UnknownOption
from mixlens.subject import Subject

REPLACEMENTS = ("delete", "pad", "mask", "unk")
TOKENS = {"cpu": 2048}  # in one pass; more gains nothing there
ELSEWHERE = 16384


def log_probability(answer: Answer, logits: tuple[Tensor, ...] | None) -> float:
    """ln of the answer's probability, over target and foil where there is a foil; QA: start and end together.

    NaN where there is no answer, or an output without a probability (regression).
    """
    if logits is None or answer.regression or not answer.indices:
        return float("nan")
    total, foil = 0.0, answer.foil
    for z, i in zip(answer.read(logits), answer.indices, strict=True):
        z = z.detach().double().cpu()
        if foil is not None or answer.independent:
            part = torch.nn.functional.logsigmoid(z[i] - (z[foil] if foil is not None else 0.0))
        else:
            part = torch.log_softmax(z, -1)[i]
        total += float(part)
    return total


def asked_about(task: str, at: int, answer: Answer, count: int) -> NDArray[np.bool_] | None:
    """(token,): what must stay, since without it nothing is asked; None where any token may go.

    The position that a masked or token head answers at, or all that it is asked about; the first and the last token of
    an extracted answer; the frames that a CTC head is asked about.
    """
    if task not in ("masked", "token", "question", "ctc"):
        return None
    kept = np.zeros(count, dtype=bool)
    several = answer.frames or (answer.indices if task == "question" else None)
    kept[at if several is None else list(several)] = True
    return kept


def check(subject: Subject, name: str, replace_by: str, mask_pad: bool = False) -> None:
    """Raises Undefined or UnknownOption for a replacement that `changed` would refuse."""
    filler_id(subject, name, replace_by, mask_pad)


def changed(
    subject: Subject,
    tokens: Stream,
    at: int,
    answer: Answer,
    removed: tuple[int, ...],
    replace_by: str,
    mask_pad: bool = False,
) -> Variant | None:
    """The text without some tokens; None where no answer would be left to read.

    `replace_by`: "delete", or what takes a token's place: "pad", "mask", "unk". `mask_pad`: nothing attends to the
    [PAD]s that are put in, which is deletion with the other tokens kept in their places. Raises Undefined,
    UnknownOption.
    """
    made = variant(subject.head, tokens, at, answer, removed, filler_id(subject, "replace", replace_by, mask_pad))
    if not isinstance(made, Variant):
        return None
    if mask_pad and subject.spec.positions == "all":  # elsewhere a masked token takes none: as if deleted
        text, places = text_of(made.tokens), _positions(tokens.inputs, len(tokens), removed)
        return replace(made, tokens=replace(text, inputs={**text.inputs, "position_ids": places}))
    return made


def left(subject: Subject, variants: Sequence[Variant | None], batch_size: int) -> list[float]:
    """The log-probability that is left of the answer in each changed text, in order; NaN for None.

    Texts of like length go through together, up to `batch_size` or as many as make a pass worth its start.
    """
    out = [float("nan")] * len(variants)
    there = [(i, v) for i, v in enumerate(variants) if v is not None]
    # own positions are for all texts of a batch or for none
    there.sort(key=lambda pair: ("position_ids" in pair[1].tokens.inputs, -len(pair[1].tokens), pair[0]))
    start = 0
    while start < len(there):
        first = there[start][1].tokens
        rows = max(batch_size, TOKENS.get(subject.device.type, ELSEWHERE) // len(first))
        batch = [
            pair
            for pair in there[start : start + rows]
            if ("position_ids" in pair[1].tokens.inputs) == ("position_ids" in first.inputs)
        ]
        start += len(batch)
        passes = subject.through([v.tokens for _, v in batch], batch_size=rows, answers=[v.at for _, v in batch])
        for (i, v), seen in zip(batch, passes, strict=True):
            out[i] = log_probability(v.answer, seen.logits)
    return out


def filler_id(subject: Subject, name: str, replace_by: str, mask_pad: bool = False) -> Substitute | None:
    """What takes a token's place, or a patch's; None: it is taken out. Raises Undefined, UnknownOption."""
    fed = subject.head.fed
    if fillers(fed):
        if mask_pad:
            raise UnknownOption(f"mask_pad=True hides padding of texts, for {name} of a {kind(fed)} there is none")
        return signal_filler(fed, name, replace_by)
    if replace_by not in REPLACEMENTS:
        raise UnknownOption(f"expected replace='delete', 'pad', 'mask' or 'unk' for {name}, got {replace_by!r}")
    if mask_pad and replace_by != "pad":
        raise UnknownOption(f"mask_pad=True needs replace='pad' for {name}, got replace={replace_by!r}")
    if mask_pad and not takes_positions(subject.model):
        raise Undefined(
            f"{subject.model.config.model_type} takes no position_ids, so no [PAD] can be masked in its place"
        )
    if replace_by == "delete":
        return None
    if replace_by != "pad":
        return replacement(subject, name, replace_by)
    pad = getattr(subject.tokenizer, "pad_token_id", None)
    pad = getattr(subject.model.config, "pad_token_id", None) if pad is None else pad
    if pad is None:
        raise Undefined(f"{name} puts [PAD] in a token's place, this model has none; use replace='delete'")
    return None if mask_pad else int(pad)


def _positions(inputs: Mapping[str, tuple[int, ...]], n: int, removed: tuple[int, ...]) -> tuple[int, ...]:
    """The places of what is left, as they were."""
    places = inputs.get("position_ids", tuple(range(n)))
    return tuple(places[i] for i in range(n) if i not in removed)
