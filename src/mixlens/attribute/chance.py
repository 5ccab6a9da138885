"""Uniform random scores: the baseline of every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from mixlens.answer import answer
from mixlens.attribute.method import Method
from mixlens.attribute.traced import Traced, padded
from mixlens.cost import Cost
from mixlens.results import Attribution
from mixlens.subject import Subject
from mixlens.subject.provenance import provenance

if TYPE_CHECKING:
    from typing_extensions import Self

    from mixlens.attribute.request import Request


@dataclass(frozen=True)
class Random(Method):
    """Uniform random scores: the baseline of every table."""

    baseline: ClassVar[bool] = True

    def cost(self, options: Mapping[str, Any]) -> Cost:
        return Cost("forward", "one pass")

    def options(self) -> dict[str, Any]:
        return {"seed": 0}

    @property
    def two_streams(self) -> bool:
        return True

    def rows(self, subject: Subject, ask: Traced) -> Tensor | None:
        """Of an encoder-decoder; an answer token's text has its own scores."""
        if not ask.source:
            return None
        seed, ids = ask.options.get("seed", 0), ask.tokens.ids
        made = [np.random.default_rng([seed, *ids[: row + 1]]).random(row + 1) for row in ask.rows]
        return padded([torch.from_numpy(scores) for scores in made], len(ids))

    def attributions(self, subject: Subject, ask: Request[Self]) -> list[Attribution]:
        """A text has its own scores, whatever its batch."""
        seed = ask.options.get("seed", 0)
        results = []
        passes = subject.through(ask.texts, batch_size=ask.batch_size, progress=ask.progress, answers=ask.answers)
        for read, text_pass in zip(ask.reads, passes, strict=True):
            tokens = text_pass.tokens
            scores = torch.from_numpy(np.random.default_rng([seed, *tokens.seed]).random(len(tokens)))
            resolved = answer(subject.head, read, text_pass.logits)
            results.append(ask.result(tokens, scores, None, resolved, provenance(subject, tokens)))
        return results
