"""The verbs for one score a token: `attribute`, over windows of a text where that is asked for, and `plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mixlens.answer import answer, every_class, targets_of
from mixlens.arguments import checked
from mixlens.attribute.calls import attribution_method, attributions, demand, readings, request, room_for
from mixlens.attribute.classified import Question, classified
from mixlens.attribute.defaults import default_method
from mixlens.attribute.over_windows import classes_over, of_windows, over_windows
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.budget import Plan, planned
from mixlens.capture.stream import Stream
from mixlens.errors import TargetError, Undefined, UnknownOption
from mixlens.mixing import MIXING, calls
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter
from mixlens.results import Attribution, Results
from mixlens.subject import EncoderDecoder, Subject
from mixlens.subject.several import explained
from mixlens.target import Target


def of_each(
    subject: Subject,
    name: str,
    options: Mapping[str, Any],
    goals: Sequence[Target],
    stream: Stream,
    settings: Mapping[str, Any],
) -> Results[Attribution]:
    """What one text's classes are explained by, an Attribution each. Raises as `request`.

    Scores that depend on the class are those of copies of the text, a target each; others are made once.
    """
    chosen = attribution_method(subject, name, options)
    if chosen.class_specific:
        ask = request(subject, name, options, goals, [stream] * len(goals), **settings)
        (results,) = attributions(subject, [ask])
    else:
        ((result,),) = attributions(subject, [request(subject, name, options, goals[:1], [stream], **settings)])
        reads = readings(subject, chosen, [stream] * len(goals), goals, options)
        (text_pass,) = subject.through([stream], answers=[reads[0].at])
        answers = [answer(subject.head, read, text_pass.logits) for read in reads]
        results = [replace(result, target=each.target, meta={**result.meta, **each.reported}) for each in answers]
    return Results(results, names=[str(result.target and result.target.label) for result in results])


@settled
@barred
@checked
def attribute(
    subject: Subject,
    /,
    text: Any,
    method: str | None = None,
    target: Any = None,
    *,
    batch_size: int = 32,
    memory: int | str | None = None,
    truncate: bool = False,
    window: int | None = None,
    stride: int | None = None,
    progress: Progress | bool | None = None,
    errors: str = "raise",
    **options: Any,
) -> Attribution | Results[Any]:
    """One score a token of one text (or a list of texts): which tokens went into the answer.

    `target`: a label, index, token or `mixlens.Target` (with several texts, one for all or a list of one each); the
    prediction by default. Of a classifier of texts "all" (unless a class is called so) gives a list of Attributions,
    one a class in the order of the labels. `method`: a name of `mixlens.methods()`, or `"M+rollout"`, `"M+flow"`,
    `"M+layer:k"`, `"M+mean"`, `"M+sum"` for any mixing method M; None: cp_lrp for classifiers of texts, alti for other
    encoders, for a causal language model path_logit, for other causal models saliency. Options of all methods:
    `normalize=` (scores without sign sum to 1, the default); of those that read a row `readout=` (it, "mean", "max");
    of those that read maps: `receptive_field=` (causal models; the method's card says whether by default); the rest are
    the method's own. `batch_size`, `memory`, `truncate`, `progress`, `errors`: as in `mixing` (changed texts count as
    texts; of a path's points, as many as 32 tokens hold count as one). `window`: a text of more tokens (special
    ones counted) is explained in overlapping parts, each `stride` tokens behind the one before (None: half), about the
    class of the largest mean probability; a token's score is the mean over the windows that hold it, and
    `meta["windows"]` has each window's answer (docs/windows.md).
    Raises InputError, MethodError, ModelError, OverBudget.

    Examples:
        >>> attr = lens.attribute("a deep and meaningful film.", method="alti")
        >>> attr.target.label, max(attr.words(), key=lambda word: word.score).text
        ('positive', 'meaningful')
        >>> lens.attribute("a deep film.", method="attcat", target="negative").target.label
        'negative'
        >>> classes = lens.attribute("a deep film.", method="grad_x_input", target="all")
        >>> classes.names
        ('negative', 'positive')
        >>> lens.attribute(["a deep film.", "so bad"], method="globenc+rollout")  # doctest: +ELLIPSIS
        [Attribution(globenc+rollout, 6 tokens, ...), Attribution(globenc+rollout, 4 tokens, ...)]
    """
    name = default_method(subject, options) if method is None else method
    chosen_method = attribution_method(subject, name, options)
    windows = None if window is stride is None else of_windows(subject, window, stride, truncate, options)
    if isinstance(subject, EncoderDecoder) and subject.classifies:
        if windows is not None:
            raise Undefined("windows are not built for classifiers of an encoder and a decoder; leave window= out")

        def room(n: int) -> int:
            return room_for(subject, name, chosen_method, options, [n], memory, batch_size)[0]

        ask = Question(name, chosen_method, options, room, reporter(progress))
        return classified(subject, text, target, truncate, errors == "skip", ask)
    texts = subject.read(text, truncate, windows=windows is not None)
    goals = every_class(subject.head, target)
    if goals is not None:
        if not texts.single:
            raise TargetError(f"expected one text for target='all', got {len(texts.each)}; ask for each of them")
        (stream,) = texts.require()
        settings: dict[str, Any] = {"batch_size": batch_size, "progress": reporter(progress), "memory": memory}
        if windows is not None:
            return classes_over(subject, name, options, goals, stream, windows, settings)
        return of_each(subject, name, options, goals, stream, settings)
    targets = targets_of(target, len(texts.each), texts.single)

    def run(numbers: Sequence[int]) -> list[Attribution]:
        goals, chosen = [targets[i] for i in numbers], texts.of(numbers)
        if windows is not None:
            told = reporter(progress)
            return over_windows(subject, name, options, goals, chosen, windows, batch_size, told, memory)
        ask = request(subject, name, options, goals, chosen, batch_size, reporter(progress), memory)
        (results,) = attributions(subject, [ask])
        return results

    return explained(run, texts.each, texts.single, errors == "skip")


@settled
@checked
def plan(
    subject: Subject,
    /,
    text: Any,
    method: str | None = None,
    *,
    batch_size: int = 32,
    memory: int | str | None = None,
    truncate: bool = False,
    window: int | None = None,
    stride: int | None = None,
    maps: bool = False,
    **options: Any,
) -> Plan:
    """What `attribute` would take, without doing it; with `maps`, or a name that is a map's alone, `mixing`.

    `method`: None for the default of either. Time class, forward passes a text, batch size and peak bytes;
    `plan.fits` says whether it stays inside `memory`. `window`, `stride`: as in `attribute`; each window counts as a
    text. Estimates from above. Raises InputError, MethodError.

    Examples:
        >>> lens.plan("a deep and meaningful film.", method="blank_out").passes
        8
        >>> lens.plan("a deep and meaningful film.", method="alti", memory="1GB").fits
        True
    """
    subject = subject.encoder if maps else subject
    if maps and (window is not None or stride is not None):
        raise UnknownOption("expected no window= for maps: those of several windows are not joined; leave it out")
    windows = None if window is stride is None else of_windows(subject, window, stride, truncate, options)
    streams = subject.read(text, truncate, windows=windows is not None).require()
    parts = [[len(stream)] if windows is None else windows.lengths(subject, stream) for stream in streams]
    lengths = [n for each in parts for n in each]
    name = method if method is not None else "globenc" if maps else default_method(subject, options)
    if maps or (name in MIXING and name not in ATTRIBUTIONS):
        needed = calls.demand(subject, calls.mixing_method(subject, name, options), options)
    else:
        needed = demand(subject, attribution_method(subject, name, options), options)
    return planned(name, needed, lengths, memory, batch_size)
