"""Several methods on one text, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from torch import Tensor

from mixlens.answer import Answer, Reading, answer, reading, targets_of
from mixlens.arguments import checked, shown
from mixlens.attribute import ATTRIBUTIONS, Method, Preset, method
from mixlens.attribute.calls import attribution_method, attributions, request, together
from mixlens.attribute.removal import asked_about, changed, left, log_probability
from mixlens.attribute.variants import removal_default
from mixlens.capture.stream import Stream
from mixlens.errors import InputError, MixlensError, Undefined, UnknownMethod, UnknownOption
from mixlens.measure.faithfulness import Bounds, Faithfulness
from mixlens.mixing.calls import maps_of
from mixlens.process import settled
from mixlens.progress import Progress, barred, reporter
from mixlens.results import Attribution, Comparison, LayerMaps
from mixlens.subject import Subject
from mixlens.target import Target


@settled
@barred
@checked
def compare(
    subject: Subject,
    /,
    text: Any,
    methods: str | Sequence[str] | None = None,
    target: Any = None,
    *,
    faithfulness: bool = True,
    maps: bool = False,
    truncate: bool = False,
    progress: Progress | bool | None = None,
) -> Comparison:
    """One text explained by several methods side by side; by all that are defined for this model if none is named.

    A method that fails costs the others nothing: `Comparison.skipped` says why it is missing.

    `faithfulness`: with a number each, 0 for what chance reaches and 1 for the best order found; it takes
    about n^2 + 200 passes for n tokens. `maps`: with the layer maps behind each. Raises InputError, MethodError,
    ModelError.

    Examples:
        >>> compared = lens.compare("a deep film.", ["alti", "saliency"])
        >>> list(compared.attributions), sorted(compared.faithfulness)
        (['alti', 'saliency'], ['alti', 'saliency'])
    """
    names = [methods] if isinstance(methods, str) else list(ATTRIBUTIONS if methods is None else methods)
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise UnknownMethod(f"expected names of methods, got {shown(odd[0])} among them; see mixlens.methods()")
    if not names:
        raise UnknownOption("expected at least one method to compare, got none; see mixlens.methods()")
    if maps and not any(isinstance(kind, Preset) for kind in _kinds(subject, names).values()):
        raise UnknownOption(
            f"expected a method that is made of layer maps (alti, globenc, ...), got {', '.join(names)}: "
            "there are no layer maps to show"
        )
    given = subject.read(text, truncate)
    texts = given.require()
    if not given.single:
        raise InputError(f"expected one text to compare methods on, got {len(texts)}; compare them one by one")
    goals = targets_of(target, 1, True)
    read, goal = _answer(subject, texts[0], goals[0])
    attributed, skipped, first = _attributions(subject, texts, names, goals, reporter(progress))
    if not attributed:
        raise first or Undefined(f"none of the methods is defined for this model: {skipped}")
    numbers: dict[str, Faithfulness] = {}
    if faithfulness and goal is not None:
        with _or_why(skipped, "faithfulness"):
            numbers = _faithfulness(subject, attributed, read, goal)
    layers = _maps(subject, texts, attributed, skipped, reporter(progress)) if maps else {}
    return Comparison(attributed, skipped, numbers, layers)


@contextmanager
def _or_why(skipped: dict[str, str], part: str) -> Iterator[None]:
    """Put down why one part has failed, so that it costs the others nothing."""
    try:
        yield
    except MixlensError as error:
        skipped[part] = f"{type(error).__name__}: {error}"


def _answer(
    subject: Subject, tokens: Stream, target: Target
) -> tuple[Reading, tuple[Answer, tuple[Tensor, ...]] | None]:
    """Where the answer is read, and what the model says there (with its logits); a wrong target fails before the work.

    Raises TargetError, NotFinite.
    """
    read = reading(subject.head, tokens, target, rowed=False)
    if not read.answered:
        answer(subject.head, read, None)
        return read, None
    (text_pass,) = subject.through([tokens], answers=[read.at])
    assert text_pass.logits is not None
    return read, (answer(subject.head, read, text_pass.logits), text_pass.logits)


def _attributions(
    subject: Subject,
    texts: Sequence[Stream],
    names: Sequence[str],
    targets: Sequence[Target],
    progress: Progress | None,
) -> tuple[dict[str, Attribution], dict[str, str], MixlensError | None]:
    """Each method's Attribution in the order of the names, those that share a pass together; and who has none, why.

    And what the first of those that failed at work failed with.
    """
    able: dict[str, Method] = {}
    results: dict[str, Attribution] = {}
    skipped: dict[str, str] = {}
    first: MixlensError | None = None

    def run(group: Sequence[str]) -> None:
        here = [request(subject, name, {}, targets, texts, 32, progress, together=len(group)) for name in group]
        results.update(zip(group, (attr for (attr,) in attributions(subject, here)), strict=True))

    for name in names:
        try:
            able[name] = attribution_method(subject, name, {})
        except Undefined as error:
            skipped[name] = str(error)
    for numbers in together([(kind, {}) for kind in able.values()]):
        group = [list(able)[i] for i in numbers]
        if len(group) > 1:
            with suppress(MixlensError):  # of one of them, or of all maps at once: each alone says it
                run(group)
                continue
        for name in group:
            try:
                run([name])
            except Undefined as error:
                skipped[name] = str(error)
            except MixlensError as error:
                first, skipped[name] = first or error, f"{type(error).__name__}: {error}"
    order = {n: skipped[n] for n in names if n in skipped}
    return {name: results[name] for name in names if name in results}, order, first


def _faithfulness(
    subject: Subject, attributed: Mapping[str, Attribution], read: Reading, answered: tuple[Answer, tuple[Tensor, ...]]
) -> dict[str, Faithfulness]:
    """Each method's number; none where the model has no probability to lose."""
    tokens = next(iter(attributed.values())).source
    goal, logits = answered
    if np.isnan(log_probability(goal, logits)):
        return {}
    removable = ~np.array(tokens.special, dtype=bool)
    kept = asked_about(subject.head.task, read.at, goal, len(tokens))
    if kept is not None:
        removable &= ~kept

    by = removal_default(subject.head)

    def probability(sets: Sequence[tuple[int, ...]]) -> np.ndarray:
        return np.exp(left(subject, [changed(subject, tokens, read.at, goal, gone, by) for gone in sets], 32))

    bounds = Bounds(probability, removable)
    return bounds.rated({name: a.scores.detach().cpu().double().numpy() for name, a in attributed.items()})


def _maps(
    subject: Subject,
    texts: Sequence[Stream],
    attributed: Mapping[str, Attribution],
    skipped: dict[str, str],
    progress: Progress | None,
) -> dict[str, LayerMaps]:
    """The layer maps of the methods that are made of some; whose cannot be made, why."""
    out = {}
    for name, kind in _kinds(subject, attributed).items():
        if isinstance(kind, Preset):
            with _or_why(skipped, f"maps of {name}"):
                (out[name],) = maps_of(subject, texts, kind.mixing, {}, progress=progress)
    return out


def _kinds(subject: Subject, names: Iterable[str]) -> dict[str, Method]:
    """What each method is for this model. Raises UnknownMethod."""
    return {name: method(name).for_spec(subject.spec) for name in names}
