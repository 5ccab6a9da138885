"""One call for the scores of texts: what was asked is checked and planned, and the methods that share a pass run."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mixlens.answer import answer, every_class, reading, targets_of
from mixlens.arguments import checked, refuse_unknown
from mixlens.attribute.classified import Question, classified
from mixlens.attribute.defaults import default_method
from mixlens.attribute.method import Method
from mixlens.attribute.names import method
from mixlens.attribute.request import Request
from mixlens.attribute.table import ATTRIBUTIONS
from mixlens.budget import Demand, Plan, planned, sizes_of, within
from mixlens.capture.batch import BatchSize
from mixlens.capture.stream import Stream
from mixlens.cost import Cost
from mixlens.errors import NotFinite, TargetError
from mixlens.mixing import MIXING, calls
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter
from mixlens.results import Attribution, Results
from mixlens.subject import Subject
from mixlens.subject.finite import bad_weights, not_finite
from mixlens.subject.several import explained
from mixlens.target import Target

COMMON = {"readout": None, "normalize": True}  # what every attribution may be asked


def attribution_method(subject: Subject, name: str, options: Mapping[str, Any]) -> Method:
    """The table's line of an attribution method. Raises UnknownMethod, UnknownOption, Undefined."""
    chosen = method(name).for_spec(subject.spec).for_head(subject.head)
    refuse_unknown(name, options, {**chosen.options(), **COMMON})
    return chosen


def demand(subject: Subject, chosen: Method, options: Mapping[str, Any], together: int = 1) -> Demand:
    """What the method asks of memory, beside `together - 1` others that share its pass."""
    return Demand(chosen.cost(options), sizes_of(subject), together)


def room_for(
    subject: Subject,
    name: str,
    chosen: Method,
    options: Mapping[str, Any],
    lengths: Sequence[int],
    memory: Any,
    batch_size: int,
    together: int = 1,
    beside: int = 0,
) -> tuple[int, BatchSize]:
    """The batch sizes that stay inside `memory`: of the longest texts, and of each length; `beside`: bytes that a text
    holds beside the method's. Raises OverBudget.
    """
    wanted = replace(demand(subject, chosen, options, together), beside=beside)
    return within(name, wanted, lengths, memory, batch_size, _costs)


def request(
    subject: Subject,
    name: str,
    options: Mapping[str, Any],
    targets: Sequence[Target],
    texts: Sequence[Stream],
    batch_size: int,
    progress: Progress | None,
    memory: Any = None,
    together: int = 1,
) -> Request[Method]:
    """A checked Request; `together`: how many share its pass.

    Raises UnknownMethod, UnknownOption, Undefined, TargetError, OverBudget.
    """
    chosen = attribution_method(subject, name, options)
    defaults = chosen.options()
    lengths = [len(tokens) for tokens in texts]
    size, sizes = room_for(subject, name, chosen, options, lengths, memory, batch_size, together)
    return Request(
        name=name,
        method=chosen,
        options={k: v for k, v in options.items() if k in defaults},
        texts=texts,
        reads=[
            reading(subject.head, tokens, target, options.get("readout"))
            for tokens, target in zip(texts, targets, strict=True)
        ],
        normalize=bool(options.get("normalize", True)),
        batch_size=size,
        sizes=sizes,
        progress=progress,
        written=dict(options),
    )


def together(methods: Sequence[tuple[Method, Mapping[str, Any]]]) -> list[list[int]]:
    """The numbers of the methods, asked for with these options, that share a pass; each in one list."""
    groups: dict[Hashable, list[int]] = {}
    for number, (chosen, options) in enumerate(methods):
        shared = chosen.shares(options)
        groups.setdefault((None, number) if shared is None else shared, []).append(number)
    return list(groups.values())


def attributions(subject: Subject, asks: Sequence[Request[Method]]) -> list[list[Attribution]]:
    """What each of several requests that share a pass asks for, a list a request; NaN weights are named.

    Results are tensors that can be differentiated: whoever calls this is `settled`.
    """
    try:
        return asks[0].method.run(subject, asks)
    except NotFinite:
        if bad_weights(subject.model):
            raise not_finite(subject.model, "a weight") from None
        raise


def _costs() -> dict[str, Cost]:
    return {name: line.cost({}) for name, line in ATTRIBUTIONS.items() if not line.baseline}


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
    if attribution_method(subject, name, options).class_specific:
        ask = request(subject, name, options, goals, [stream] * len(goals), **settings)
        (results,) = attributions(subject, [ask])
    else:
        ((result,),) = attributions(subject, [request(subject, name, options, goals[:1], [stream], **settings)])
        reads = [reading(subject.head, stream, goal, options.get("readout")) for goal in goals]
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
    `readout=` (a row, "mean", "max") and `normalize=` (scores without sign sum to 1, the default);
    of those that read maps: `receptive_field=` (causal models; the method's card says whether by default); the rest are
    the method's own. `batch_size`, `memory`, `truncate`, `progress`, `errors`: as in `mixing` (changed texts count as
    texts; of a path's points, as many as 32 tokens hold count as one).
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
    chosen = attribution_method(subject, name, options)
    if subject.classifies:

        def room(n: int) -> int:
            return room_for(subject, name, chosen, options, [n], memory, batch_size)[0]

        ask = Question(name, chosen, options, room, reporter(progress))
        return classified(subject, text, target, truncate, errors == "skip", ask)
    texts = subject.read(text, truncate)
    goals = every_class(subject.head, target)
    if goals is not None:
        if not texts.single:
            raise TargetError(f"expected one text for target='all', got {len(texts.each)}; ask for each of them")
        (stream,) = texts.require()
        settings: dict[str, Any] = {"batch_size": batch_size, "progress": reporter(progress), "memory": memory}
        return of_each(subject, name, options, goals, stream, settings)
    targets = targets_of(target, len(texts.each), texts.single)

    def run(numbers: Sequence[int]) -> list[Attribution]:
        goals = [targets[i] for i in numbers]
        ask = request(subject, name, options, goals, texts.of(numbers), batch_size, reporter(progress), memory)
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
    maps: bool = False,
    **options: Any,
) -> Plan:
    """What `attribute` would take, without doing it; with `maps`, or a name that is a map's alone, `mixing`.

    `method`: None for the default of either. Time class, forward passes a text, batch size and peak bytes;
    `plan.fits` says whether it stays inside `memory`. Estimates from above. Raises InputError, MethodError.

    Examples:
        >>> lens.plan("a deep and meaningful film.", method="blank_out").passes
        8
        >>> lens.plan("a deep and meaningful film.", method="alti", memory="1GB").fits
        True
    """
    subject = subject.encoder if maps else subject
    lengths = [len(tokens) for tokens in subject.read(text, truncate).require()]
    name = method if method is not None else "globenc" if maps else default_method(subject, options)
    if maps or (name in MIXING and name not in ATTRIBUTIONS):
        needed = calls.demand(subject, calls.mixing_method(subject, name, options), options)
    else:
        needed = demand(subject, attribution_method(subject, name, options), options)
    return planned(name, needed, lengths, memory, batch_size)
