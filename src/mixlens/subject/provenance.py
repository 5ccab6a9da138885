"""Where a result comes from: model, versions, how far the self-check was off, and what a reader should know."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from mixlens.capture.stream import Stream
from mixlens.subject.subject import Subject
from mixlens.version import __version__


@cache
def _version(package: str) -> str:
    """Read from a file of hundreds of lines: once, not for every text."""
    return version(package)


def provenance(subject: Subject, tokens: Stream, off: float | None = None) -> dict[str, Any]:
    """The `meta` that every result of a text has; `off`: how far this very call was off, where it decomposed layers."""
    warned = warnings(subject, tokens)
    return {
        "model": subject.name,
        "architecture": subject.whole.config.model_type,
        "dtype": str(subject.model.dtype).removeprefix("torch."),
        "mixlens": __version__,
        "transformers": _version("transformers"),
        "torch": _version("torch"),
        "self_check": subject.residual,
        **({} if off is None else {"call_check": off}),
        **({} if subject.origin == "hand-written" else {"spec": subject.origin}),
        **({"dropped": tokens.dropped} if tokens.dropped else {}),
        **({"warnings": warned} if warned else {}),
    }


def warnings(subject: Subject, tokens: Stream) -> tuple[str, ...]:
    """What a reader of a result should know about the model and the text before believing it."""
    texts = []
    if subject.head.unread is not None:
        texts.append(f"the model's answer is not explained: it has {subject.head.in_words}")
    if tokens.padded:
        texts.append(
            f"{tokens.padded} padding tokens at an end are explained as text, since the ids came without a mask: pass "
            "{'input_ids': ..., 'attention_mask': ...}"
        )
    return tuple(texts)
