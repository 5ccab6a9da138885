"""One call for the similarity of two texts, or of one with many: what was asked is checked, the vectors are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from mixlens.arguments import checked, refuse_unknown
from mixlens.capture.stream import Stream
from mixlens.errors import InputError, ModelError, Undefined, UnknownMethod, UnknownOption, did_you_mean
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter
from mixlens.results import Results, Similarity
from mixlens.similarity.method import Passes
from mixlens.similarity.method import Similarity as Method
from mixlens.similarity.table import SIMILARITIES
from mixlens.similarity.vectors import TextVectors, products, towards
from mixlens.subject import Subject
from mixlens.subject.head import Pooled
from mixlens.subject.provenance import provenance
from mixlens.subject.several import explained

DEFAULT = "leave_out"  # docs/similarity.md


def similarity_method(name: Any, options: Any) -> Method:
    """The table's line. Raises UnknownMethod, UnknownOption."""
    if not isinstance(name, str) or name not in SIMILARITIES:
        raise UnknownMethod(f"no similarity method {name!r}{did_you_mean(name, SIMILARITIES)}")
    method = SIMILARITIES[name]
    refuse_unknown(name, options, method.options())
    return method


def pooling_of(subject: Subject, pooling: Any) -> Pooled:
    """The rows that a text's vector is made of: as asked, else as a sentence encoder says. Raises UnknownOption,
    ModelError, Undefined.
    """
    if pooling is not None and pooling not in get_args(Pooled):
        raise UnknownOption(f"expected pooling='first', 'last' or 'mean', got {pooling!r}")
    head = subject.head
    if head.behind:
        raise Undefined(
            f"expected an encoder whose vectors are its pooled rows, this one has {', '.join(head.behind)} behind "
            "them, which no method here goes through; load the encoder in it alone, if its pooled rows are what you use"
        )
    if pooling is not None:
        chosen: Pooled = pooling
        return chosen
    if head.pooled is None or head.task != "none":
        raise ModelError(
            f"expected a sentence encoder, got {head.in_words}, which does not say which rows a text's vector is made "
            "of; load the SentenceTransformer, or pass pooling='mean', 'first' or 'last', as its vectors are made"
        )
    return head.pooled


@settled
@barred
@checked
def similarity(
    subject: Subject,
    /,
    first: Any,
    second: Any,
    method: str | None = None,
    *,
    pooling: str | None = None,
    batch_size: int = 32,
    memory: int | str | None = None,
    truncate: bool = False,
    progress: Progress | bool | None = None,
    errors: str = "raise",
    **options: Any,
) -> Similarity | Results[Any]:
    """Which words of two texts made their vectors alike: the share of each pair of tokens in the cosine.

    `second`: a text, or a list of texts that `first` is held against. `pooling`: which rows of the last layer a text's
    vector is made of, "mean", "first" or "last"; None: as the SentenceTransformer says. `method`: a name of
    `mixlens.methods()` of the stage "similarity"; None: leave_out. `batch_size`, `memory`, `truncate`, `progress` and
    `errors`: as in `attribute`. Raises InputError, MethodError, ModelError, OverBudget.

    Examples:
        >>> alike = lens.similarity("a good film.", "a bad film.", pooling="mean")
        >>> f"{alike.value:.2f}", tuple(alike.scores.shape)
        ('-0.35', (6, 6))
    """
    chosen = similarity_method(DEFAULT if method is None else method, options)
    rows = pooling_of(subject, pooling)
    left_text = subject.read(first, truncate)
    if not left_text.single:
        raise InputError(f"expected one text first, got a list of {len(left_text.each)}; pass the list second")
    others = subject.read(second, truncate)
    passes = Passes(batch_size, memory, reporter(progress))

    def vectors(texts: Sequence[Stream]) -> list[TextVectors]:
        for tokens in texts:
            if isinstance(tokens.raw, tuple):
                raise InputError("expected a text on each side, got a pair; pass its texts as first and second")
        return chosen.vectors(subject, texts, rows, options, passes)

    (left,) = vectors(left_text.require())

    def run(numbers: Sequence[int]) -> list[Similarity]:
        return [compared(subject, chosen, options, left, right) for right in vectors(others.of(numbers))]

    return explained(run, others.each, others.single, errors == "skip")


def compared(subject: Subject, method: Method, options: Any, first: TextVectors, second: TextVectors) -> Similarity:
    """Two texts' vectors as a result."""
    return Similarity(
        source=second.tokens,
        into=first.tokens,
        scores=products(first, second).float(),
        first_scores=towards(first, second).float(),
        second_scores=towards(second, first).float(),
        value=float(first.unit @ second.unit),
        method=method.name,
        options=dict(options),
        meta={**provenance(subject, second.tokens), "complete": method.complete},
    )
