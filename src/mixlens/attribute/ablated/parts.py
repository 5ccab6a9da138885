"""The parts of a prompt that are taken out, and the prompt without some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.answer import Answer
from mixlens.attribute.variants import Substitute, Variant, variant
from mixlens.capture.joined import predicting
from mixlens.capture.stream import Stream
from mixlens.capture.text import Tokens
from mixlens.errors import Undefined
from mixlens.results.units import TraceUnit, prompt_units
from mixlens.subject import Subject
from mixlens.subject.rows import logits_at


def parts_of(
    name: str, prompt: Stream, by: Any, documents: Mapping[str, tuple[int, int]], least: int
) -> list[TraceUnit]:
    """The units of a prompt that may be taken out, without its template tokens: where it has documents, theirs alone,
    since without the question nothing is asked. Raises UnknownOption, Undefined, InputError.
    """
    named = by == "document" or not isinstance(by, str)
    units = prompt_units(prompt, by, documents)
    if named:  # behind them stands what they leave
        units = units[: len(documents if by == "document" else by)]
    elif documents:
        inside = {i for first, last in documents.values() for i in range(first, last)}
        units = [unit for unit in units if inside.issuperset(unit.indices)]
    units = [unit for unit in units if not all(prompt.special[i] for i in unit.indices)]
    if len(units) < least:
        raise Undefined(
            f"expected at least {least} {by if isinstance(by, str) else 'named span'}s that may be taken out, for "
            f"{name}, got {len(units)}; choose smaller units, as units='sentence' or 'word'"
        )
    return units


@torch.no_grad()
def log_odds_without(
    subject: Subject,
    tokens: Tokens,
    first: int,
    answers: Sequence[Answer],
    removed: Sequence[tuple[int, ...]],
    filler: Substitute | None,
    batch_size: int,
) -> Float[np.ndarray, "ablation answer"]:
    """ln p / (1 - p) of each answer token behind the prompt without each of `removed`; NaN where nothing is left of it.

    With a foil, of the token rather than its foil. The answer begins at position `first` of `tokens`.
    """
    out = np.full((len(removed), len(answers)), np.nan)
    made = [variant(subject.head, tokens, first - 1, answers[0], gone, filler) for gone in removed]
    there = [(i, v) for i, v in enumerate(made) if isinstance(v, Variant) and v.at >= 0]
    for batch in subject.batches([v.tokens for _, v in there], batch_size) if there else ():
        chosen = [there[k] for k in batch.members]
        rows = [predicting(v.at + 1, len(answers)) for _, v in chosen]
        for (i, _), logits in zip(chosen, logits_at(subject, batch.inputs, rows), strict=True):
            out[i] = [token_log_odds(a, row) for a, row in zip(answers, logits, strict=True)]
    return out


def token_log_odds(answer: Answer, logits: Tensor) -> float:
    """ln p / (1 - p) of an answer's token among all, or against its foil."""
    z, index, foil = logits.detach().double().cpu(), answer.indices[0], answer.target.foil_index
    if foil is not None:
        return float(z[index] - z[foil])
    others = z.clone()
    others[index] = -torch.inf
    return float(z[index] - others.logsumexp(0))


def together(log_odds: Float[np.ndarray, "ablation token"]) -> Float[np.ndarray, " ablation"]:
    """ln p / (1 - p) of several tokens together, p the product of theirs."""
    if log_odds.shape[1] == 1:
        return log_odds[:, 0]
    log_p = -np.logaddexp(0, -log_odds).sum(1)
    return log_p - np.log(-np.expm1(log_p))
