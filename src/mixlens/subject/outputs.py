"""Where the answer stands in what a model gives back: a model output, a mapping, a tuple or a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

EVERY = -1  # in the place of a position: the logits of all of them
Key = str | int | None  # a name, a place in a tuple, or the output itself


def tensors(output: Any) -> dict[Key, Tensor]:
    """The tensors of real numbers in an output that may be an answer: (text,), (text, class), (text, token, class)."""
    if isinstance(output, Tensor):
        entries: dict[Key, Any] = {None: output}
    elif isinstance(output, Mapping):
        entries = dict(output)
    elif isinstance(output, (tuple, list)):
        entries = dict(enumerate(output))
    else:
        entries = dict(getattr(output, "__dict__", {}))
    return {k: t for k, t in entries.items() if isinstance(t, Tensor) and t.is_floating_point() and t.ndim in (1, 2, 3)}


def result_of(output: Any) -> Tensor:
    """What a pass gives in the end: the last vectors, or the logits of a class that has no part without its head."""
    last: Tensor | None = getattr(output, "last_hidden_state", None)
    logits: Tensor | None = getattr(output, "logits", None)
    result = logits if last is None else last
    assert result is not None
    return result


def answer_keys(output: Any, tokens: int, width: int) -> tuple[Key, ...]:
    """Where the logits are in the output of one text of `tokens` tokens; start and end for extracted answers.

    By their names, else by shape: what is as wide as a hidden vector (`width`) is none. Empty where nothing or more
    than one thing fits.
    """
    parts = tensors(output)
    if "start_logits" in parts and "end_logits" in parts:
        return ("start_logits", "end_logits")
    if "logits" in parts:
        return ("logits",)
    fits = {k: tuple(t.shape) for k, t in parts.items() if t.shape[0] == 1 and t.shape[-1] != width}
    if len(fits) == 1 or (len(fits) == 2 and set(fits.values()) == {(1, tokens)}):
        return tuple(fits)
    return ()


def part_logits(
    output: Any, keys: Sequence[Key], at: Sequence[int], lengths: Sequence[int]
) -> list[tuple[Tensor, ...]] | None:
    """The logits of each text's answer: (class,), of `EVERY` position such; or start and end logits (token,) each; None
    without a head.

    The batch is taken apart once: the gradient of an index is as large as all logits, and there is one for each text.
    """
    if not keys:
        return None
    parts = tensors(output)
    if len(keys) == 2:
        starts, ends = (parts[key].unbind() for key in keys)
        return [(s[:n], e[:n]) for s, e, n in zip(starts, ends, lengths, strict=True)]
    logits = parts[keys[0]]
    if logits.ndim == 1:
        logits = logits[:, None]
    if EVERY in at:
        texts = zip(logits.unbind(), at, lengths, strict=True)
        return [z[:n].unbind() if i == EVERY else (z[i],) for z, i, n in texts]
    if logits.ndim == 3:
        logits = logits[:, 0] if logits.shape[1] == 1 else logits[range(len(at)), list(at)]
    return [(z,) for z in logits.unbind()]
