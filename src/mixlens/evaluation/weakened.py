"""What is left of an answer behind a prompt whose embeddings are zero in part, or thinned out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mixlens.attribute.removal import ELSEWHERE, TOKENS
from mixlens.capture.joined import predicting
from mixlens.evaluation.traced import TracedItem, log_probability_of, size_of
from mixlens.subject import Subject
from mixlens.subject.rows import logits_at, row_logits

ZERO, SOFT = "zero", "soft"
Ask = tuple[TracedItem, tuple[float, ...], str]  # tokens whose embeddings are zero; or ("soft") a seed, and shares kept


def left(subject: Subject, asks: Sequence[Ask], batch_size: int) -> list[float]:
    """ln p of each answer ("zero"), or ln (1 - H), H the mean Hellinger distance of its rows from what they were."""
    out = [float("nan")] * len(asks)
    whole: dict[int, Tensor] = {}
    for item, _, weakening in asks:
        if weakening == SOFT and item.number not in whole:
            whole[item.number] = row_logits(subject, item.whole, _rows(item)).double().cpu()
    budget = TOKENS.get(subject.device.type, ELSEWHERE)
    for batch in subject.batches([item.whole for item, _, _ in asks], partial(size_of, batch_size, budget)):
        chosen = [asks[k] for k in batch.members]
        rows = [_rows(item) for item, _, _ in chosen]
        parts = logits_at(subject, batch.inputs, rows, prepare=partial(_weaken, chosen))
        for k, (item, _, weakening), logits in zip(batch.members, chosen, parts, strict=True):
            if weakening == SOFT:
                similar = 1 - hellinger(logits.double().cpu(), whole[item.number])
                out[k] = float(np.log(similar)) if similar > 0 else float("-inf")
            else:
                out[k] = log_probability_of(item.answers, logits)
    return out


def hellinger(logits: Tensor, others: Tensor) -> float:
    """sqrt(1 - sum_w sqrt(p_w q_w)) of two distributions a row, mean over rows."""
    shared = ((logits.log_softmax(-1) + others.log_softmax(-1)) / 2).logsumexp(-1).exp()
    return float((1 - shared).clamp_min(0).sqrt().mean())


def _rows(item: TracedItem) -> list[int]:
    return predicting(len(item.tokens), len(item.reply))


def _weaken(asks: Sequence[Ask], twin: Any) -> None:
    twin.get_input_embeddings().register_forward_hook(partial(_weakened, asks))


def _weakened(asks: Sequence[Ask], module: torch.nn.Module, args: Any, out: Tensor) -> Tensor:
    """The embeddings (text, position, dim), each dimension of each token kept or zero."""
    kept = torch.ones_like(out)
    for text, (item, given, weakening) in enumerate(asks):
        if weakening == ZERO:
            kept[text, [int(i) for i in given]] = 0
            continue
        seed, shares = int(given[0]), np.array(given[1:])
        # the same draws for all methods and retentions, so that they differ by the scores alone
        draws = np.random.default_rng([seed, *item.tokens.seed]).random((len(shares), out.shape[-1]))
        kept[text, : len(shares)] = torch.from_numpy(draws < shares[:, None]).to(kept)
    return out * kept
