"""Several methods on one text, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from mixlens.attribute import ATTRIBUTIONS, Method, Preset, method
from mixlens.attribute.readout import answer, check_target, reading, targets_of
from mixlens.attribute.target import Target
from mixlens.capture.text import Tokens
from mixlens.errors import InputError, OverBudget, Undefined, UnknownOption
from mixlens.measure.faithfulness import Bounds, Faithfulness
from mixlens.results import Attribution, Comparison, LayerMaps
from mixlens.runners import attributions, together
from mixlens.runners.passes import Progress
from mixlens.runners.removal import asked_about, changed, left, log_probability
from mixlens.runners.request import checked, request


def compare(
    lens: Any,
    text: Any,
    methods: str | Sequence[str] | None,
    target: Any,
    *,
    faithfulness: bool = True,
    maps: bool = False,
    truncate: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Explain `text` by each method. A method that is not defined for this model is skipped, with the reason.

    `faithfulness`: a number each, for which the text is passed without some of its tokens, about n^2 + 200 times.
    `maps`: the layer maps behind each method too.

    Raises InputError for a list of texts, Undefined when no method is left, UnknownOption for `maps` of methods that
    have none; unknown names raise.
    """
    names = [methods] if isinstance(methods, str) else list(ATTRIBUTIONS if methods is None else methods)
    if not names:
        raise UnknownOption("expected at least one method to compare, got none; see mixlens.methods()")
    if maps and not any(isinstance(kind, Preset) for kind in _kinds(lens, names).values()):
        raise UnknownOption(
            f"expected a method that is made of layer maps (alti, globenc, ...), got {', '.join(names)}: "
            "there are no layer maps to show"
        )
    texts, single = lens._encode(text, truncate)
    if not single:
        raise InputError(f"expected one text to compare methods on, got {len(texts)}; compare them one by one")
    found, skipped = _attributions(lens, texts, names, targets_of(target, 1, True), progress)
    if not found:
        raise Undefined(f"none of the methods is defined for this model: {skipped}")
    numbers = _faithfulness(lens, found, target) if faithfulness else {}
    layers = _maps(lens, text, found, {"truncate": truncate, "progress": progress}) if maps else {}
    return Comparison(found, skipped, numbers, layers)


def _attributions(
    lens: Any, texts: Sequence[Tokens], names: Sequence[str], targets: Sequence[Target], progress: Progress | None
) -> tuple[dict[str, Attribution], dict[str, str]]:
    """Each method's Attribution in the order of the names, those that share a pass together; and who has none, why."""
    able: dict[str, Method] = {}
    found: dict[str, Attribution] = {}
    skipped: dict[str, str] = {}

    def run(some: Sequence[str]) -> None:
        here = [request(lens, name, {}, targets, texts, 32, progress, together=len(some)) for name in some]
        found.update(zip(some, (one for (one,) in attributions(lens, here)), strict=True))

    for name in names:
        try:
            able[name] = checked(lens, name, {})
        except Undefined as error:
            skipped[name] = str(error)
    for numbers in together([(one, {}) for one in able.values()]):
        some = [list(able)[i] for i in numbers]
        with suppress(Undefined, OverBudget):  # of one of them, or of all maps at once: each alone says it
            run(some)
            continue
        for name in some:
            try:
                run([name])
            except Undefined as error:
                skipped[name] = str(error)
    return ({name: found[name] for name in names if name in found}, {n: skipped[n] for n in names if n in skipped})


def _faithfulness(lens: Any, found: Mapping[str, Attribution], target: Any) -> dict[str, Faithfulness]:
    """Each method's number; none where the model has no probability to lose."""
    tokens = next(iter(found.values())).source
    read = reading(lens.head, tokens, check_target(target))
    if not read.answered:
        return {}
    (one,) = lens.through([tokens], None, answers=[read.at])
    said = answer(lens.head, read, one.logits)
    if np.isnan(log_probability(said, one.logits)):
        return {}
    removable = ~np.array(tokens.special, dtype=bool)
    kept = asked_about(lens.head.task, read.at, said, len(tokens))
    if kept is not None:
        removable &= ~kept

    def probability(sets: Sequence[tuple[int, ...]]) -> np.ndarray:
        return np.exp(left(lens, [changed(lens, tokens, read.at, said, gone, "delete") for gone in sets], 32))

    bounds = Bounds(probability, removable)
    return bounds.rated({name: a.scores.detach().cpu().double().numpy() for name, a in found.items()})


def _maps(lens: Any, text: Any, found: Mapping[str, Attribution], how: Mapping[str, Any]) -> dict[str, LayerMaps]:
    """The layer maps of the methods that are made of some."""
    kinds = _kinds(lens, found)
    return {n: lens.mixing(text, kind.mixing, **how) for n, kind in kinds.items() if isinstance(kind, Preset)}


def _kinds(lens: Any, names: Iterable[str]) -> dict[str, Method]:
    """What each method is for this model. Raises UnknownMethod."""
    return {name: method(name).for_spec(lens.spec) for name in names}
