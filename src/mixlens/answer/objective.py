"""The number that is explained: a logit, a probability or log-odds of the target, against a foil or not."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.errors import TargetError
from mixlens.precision import widened
from mixlens.target import Quantity


def merge(logits: Float[Tensor, " classes"], groups: tuple[tuple[int, ...], ...]) -> Float[Tensor, " merged"]:
    """The logits with each group of classes as one, in front, and the other classes behind them.

    ln sum exp of a group's: so the softmax gives a group the sum of its classes' probabilities.
    """
    z, taken = widened(logits), [i for group in groups for i in group]
    rest = [i for i in range(len(z)) if i not in taken]
    return torch.cat([torch.stack([z[list(group)].logsumexp(0) for group in groups]), z[rest]])


def quantity(
    logits: Float[Tensor, " classes"],
    index: int,
    foil: int | None = None,
    of: Quantity = "logit",
    independent: bool = False,
) -> Float[Tensor, ""]:
    """The explained number of one text, differentiable in `logits`.

    logit: z_t, or z_t - z_f. prob: softmax over all classes, or over {target, foil}. log_odds: log p / (1 - p) of
    that. `independent`: multi-label heads, where each class has its own sigmoid. Raises TargetError.
    """
    z = widened(logits)
    if of not in ("logit", "prob", "log_odds"):
        raise TargetError(f"expected of='logit', 'prob' or 'log_odds', got {of!r}")
    if foil is not None:
        difference = z[index] - z[foil]  # also the log-odds of the softmax over the two
        return torch.sigmoid(difference) if of == "prob" else difference
    if of == "logit":
        return z[index]
    if independent:
        return torch.sigmoid(z[index]) if of == "prob" else z[index]
    if len(z) == 1:
        raise TargetError(f"expected of='logit' for a head with one output, got {of!r}: it has no probability")
    if of == "prob":
        return torch.softmax(z, -1)[index]
    others = torch.cat([z[:index], z[index + 1 :]])
    return z[index] - torch.logsumexp(others, -1)
