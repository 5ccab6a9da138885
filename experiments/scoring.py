"""What a model answers to examples, how far off that is, and how often it is right."""

from __future__ import annotations

from typing import Any

import torch
from examples import Example, batches, collate
from torch import Tensor
from torch.nn.functional import cross_entropy


def scores(model: Any, batch: list[Example], inputs: dict[str, Tensor]) -> Tensor:
    """(batch, class): the classifier's logits, or those of the words that compete at [MASK]."""
    if batch[0].among is None:
        return model(**inputs).logits
    hidden = model.bert(**inputs).last_hidden_state
    at = torch.tensor([example.at for example in batch], device=hidden.device)
    among = torch.tensor([example.among for example in batch], device=hidden.device)
    return model.cls(hidden[torch.arange(len(batch), device=hidden.device), at]).gather(1, among)


def loss_of(model: Any, batch: list[Example], inputs: dict[str, Tensor], labels: Tensor) -> Tensor:
    """Cross entropy of the class, or the mean of those of the answer's first and last token."""
    if batch[0].span is None:
        return cross_entropy(scores(model, batch, inputs), labels)
    found = model(**inputs)
    spans = torch.tensor([example.span for example in batch], device=found.start_logits.device)
    return (cross_entropy(found.start_logits, spans[:, 0]) + cross_entropy(found.end_logits, spans[:, 1])) / 2


def answered(model: Any, examples: list[Example]) -> dict[str, float]:
    """Part of the questions whose best span of the context (up to 30 tokens) is the answer, and the mean F1."""
    model.eval()
    exact, overlap = [], []
    with torch.no_grad():
        for batch in batches(examples, 16):
            inputs, _ = collate(batch, model.device)
            found = model(**inputs)
            for example, starts, ends in zip(batch, found.start_logits, found.end_logits, strict=True):
                first, last = example.context
                sums = starts[first : last + 1, None] + ends[None, first : last + 1]
                sums = sums.masked_fill(
                    torch.ones_like(sums).tril(-1).bool() | torch.ones_like(sums).triu(30).bool(), -1e9
                )
                a, b = (first + k for k in divmod(int(sums.argmax()), sums.shape[1]))
                c, d = example.span
                common = max(0, min(b, d) - max(a, c) + 1)
                exact.append(float((a, b) == (c, d)))
                overlap.append(2 * common / (b - a + 1 + d - c + 1))
    return {"accuracy": sum(exact) / len(exact), "f1": sum(overlap) / len(overlap)}


def accuracy(model: Any, examples: list[Example]) -> dict[str, float]:
    """Part of the examples whose highest logit is that of their class, and the mean over classes (balanced).

    Of questions see `answered`.
    """
    if examples[0].span is not None:
        return answered(model, examples)
    model.eval()
    right: dict[int, list[float]] = {}
    with torch.no_grad():
        for batch in batches(examples, 32):
            inputs, labels = collate(batch, model.device)
            found = scores(model, batch, inputs).argmax(-1) == labels
            for example, hit in zip(batch, found.tolist(), strict=True):
                right.setdefault(example.label, []).append(float(hit))
    every = [hit for hits in right.values() for hit in hits]
    return {
        "accuracy": sum(every) / len(every),
        "balanced": sum(sum(hits) / len(hits) for hits in right.values()) / len(right),
    }
