"""Extracted answers: which tokens one may be made of, and which span is the likeliest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.text import Tokens
from mixlens.errors import TargetError

LONGEST_ANSWER = 15  # tokens


def context_of(tokens: Tokens) -> tuple[int, ...]:
    """The tokens that an answer may be extracted from: those of the second text of a pair, special ones never.

    The second text is known by the tokenizer, else by token types, else it is what stands behind the separators.
    """
    plain = [i for i, special in enumerate(tokens.special) if not special]
    if tokens.spans is not None:
        second = len(tokens.text) - 1
        return tuple(i for i in plain if (span := tokens.spans[i]) is not None and span[0] == second)
    types = tokens.inputs.get("token_type_ids", ())
    if any(types):
        return tuple(i for i in plain if types[i])
    gaps = [i for before, i in pairwise(plain) if i - before > 1]
    return tuple(i for i in plain if not gaps or i >= gaps[0])


def best_span(
    starts: Float[Tensor, " tokens"], ends: Float[Tensor, " tokens"], context: Sequence[int]
) -> tuple[int, int]:
    """The likeliest span that starts before it ends, lies in the context and has at most 15 tokens.

    What transformers' question-answering pipeline takes by default. Raises TargetError for an empty context.
    """
    if not context:
        raise TargetError(
            "expected a context with the answer in it, got none (a pair is a question and its context; was the context "
            "cut off?); pass mixlens.Target(position=(start, end)) to explain any other span"
        )
    allowed = torch.zeros(len(starts), dtype=torch.bool, device="cpu")
    allowed[list(context)] = True
    near = torch.ones(len(starts), len(starts), dtype=torch.bool, device="cpu").triu().tril(LONGEST_ANSWER - 1)
    total = (starts[:, None].double() + ends.double()).cpu()
    total = total.masked_fill(~(near & allowed & allowed[:, None]), -torch.inf)
    start, end = divmod(int(total.argmax()), len(starts))
    return start, end
