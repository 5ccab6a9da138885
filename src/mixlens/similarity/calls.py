"""One call for the similarity of two texts, or of one with many: what was asked is checked, the vectors are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mixlens.architectures import TEXT
from mixlens.arguments import checked, refuse_unknown
from mixlens.capture.fed import kind
from mixlens.capture.stream import Stream
from mixlens.errors import InputError, UnknownMethod, UnknownOption, did_you_mean
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter
from mixlens.results import Results, Similarity
from mixlens.similarity.encoder import Encoder, encoder_of
from mixlens.similarity.method import Passes
from mixlens.similarity.method import Similarity as Method
from mixlens.similarity.table import SIMILARITIES
from mixlens.similarity.vectors import TextVectors, products, towards
from mixlens.subject import Subject, TwoTowers
from mixlens.subject.pictures import is_picture
from mixlens.subject.provenance import provenance
from mixlens.subject.several import explained

DEFAULT = "leave_out"  # docs/similarity.md


def similarity_method(name: Any) -> Method:
    """The table's line. Raises UnknownMethod."""
    if not isinstance(name, str) or name not in SIMILARITIES:
        raise UnknownMethod(f"no similarity method {name!r}{did_you_mean(name, SIMILARITIES)}")
    return SIMILARITIES[name]


def known(name: Any, options: Mapping[str, Any]) -> Method:
    """The table's line of a method that has these options, a value for each side apart. Raises UnknownMethod,
    UnknownOption.
    """
    method = similarity_method(name)
    sided = {option for option, value in options.items() if isinstance(value, Mapping) and option in method.options()}
    refuse_unknown(method.name, {k: v for k, v in options.items() if k not in sided}, method.options())
    return method


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

    `first` and `second` are what the model reads, texts or pictures; of two towers (CLIP) each may be either: a str is
    a text, a PIL image, an array of pixels or a `pathlib.Path` a picture. `second`: also a list that `first` is held
    against. `pooling`: which rows of the last layer a vector is made of, "mean", "first" or "last"; None: as the
    SentenceTransformer says, or as the towers do. `method`: a name of
    `mixlens.methods()` of the stage "similarity"; None: leave_out; an option of it may be {"text": ..., "picture":
    ...}, a value for each side. `batch_size`, `memory`, `truncate`, `progress` and
    `errors`: as in `attribute`. Raises InputError, MethodError, ModelError, OverBudget.

    Examples:
        >>> alike = lens.similarity("a good film.", "a bad film.", pooling="mean")
        >>> f"{alike.value:.2f}", tuple(alike.scores.shape)
        ('-0.35', (6, 6))
    """
    chosen = similarity_method(DEFAULT if method is None else method)
    towers = isinstance(subject, TwoTowers)
    if towers and truncate and is_picture(first) and is_picture(second):
        raise UnknownOption("truncate=True cuts texts, and both are pictures; leave it out")
    encoders = encoder_of(subject, pooling, first), encoder_of(subject, pooling, second)
    settings = [of_side(encoder, chosen, options) for encoder in encoders]
    left_text, others = (
        encoder.read(data, truncate and encoder.subject.head.fed == TEXT if towers else truncate)
        for encoder, data in zip(encoders, (first, second), strict=True)
    )
    if not left_text.single:
        raise InputError(f"expected one text first, got a list of {len(left_text.each)}; pass the list second")
    passes = Passes(batch_size, memory, reporter(progress))

    def vectors(side: int, texts: Sequence[Stream]) -> list[TextVectors]:
        for tokens in texts:
            if isinstance(tokens.raw, tuple):
                raise InputError("expected a text on each side, got a pair; pass its texts as first and second")
        return chosen.vectors(encoders[side], texts, settings[side], passes)

    (left,) = vectors(0, left_text.require())

    def run(numbers: Sequence[int]) -> list[Similarity]:
        return [compared(subject, chosen, options, left, right) for right in vectors(1, others.of(numbers))]

    return explained(run, others.each, others.single, errors == "skip")


def of_side(encoder: Encoder, method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for what an encoder reads: of two towers a value may be a mapping of one for each.

    Raises UnknownOption.
    """
    out: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Mapping) and name in method.options() and hasattr(encoder.subject.model, "whole"):
            if not value or not set(value) <= {"text", "picture"}:
                raise UnknownOption(f"expected {name}= a value or {{'text': ..., 'picture': ...}}, got {value!r:.80}")
            if (side := kind(encoder.subject.head.fed)) in value:
                out[name] = value[side]
        else:
            out[name] = value
    refuse_unknown(method.name, out, method.options())
    return out


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
