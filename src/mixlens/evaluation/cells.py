"""One measure of one method on one text: the numbers of its columns, or the `Failure` that says why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mixlens.capture.text import text_of
from mixlens.errors import DataError, Undefined, UnknownMethod, UnknownOption
from mixlens.evaluation.design import Design, Yardstick, levels
from mixlens.evaluation.explain import Failure, Item, failure
from mixlens.evaluation.scored import Scored, may_weaken, removed
from mixlens.measure import Case, Curve
from mixlens.measure.confidence import need_classes
from mixlens.tasks.example import gold_mask, token_mask

Marks = Mapping[str, Any]  # a field of `Case` -> (token,)


def numbers(
    design: Design, chunk: Scored, y: Yardstick, label: str, at: int, marks: Marks | Failure
) -> list[float] | Failure:
    """The measure of the whole model and of each layer, then its curve's probabilities."""
    if isinstance(marks, Failure):
        return marks
    out: list[float] = []
    curve: list[float] = []
    for layer in design.layers(label, y):
        case = _case(design, chunk, y, label, layer, at, marks)
        if isinstance(case, Failure):
            return case
        value = _value(y, case)
        if isinstance(value, Failure):
            return value
        out.append(value)
        curve = curve or _curve(case, levels(y) if isinstance(y.measure, Curve) else 0)
    return out + curve


def marked(y: Yardstick, item: Item) -> Marks | Failure:
    """The tokens that the example marks for this measure. Raises UnknownOption."""
    needs, example, tokens = y.measure.needs, item.example, item.tokens
    pieces: Any = y.spans.get("pieces")
    try:
        if needs == "cue":
            if y.spans["spans"] not in ("cue", "phrase"):
                raise UnknownOption(f"expected spans='cue' or 'phrase', got {y.spans['spans']!r}")
            return {"cue": token_mask(text_of(tokens), getattr(example, y.spans["spans"]), pieces=pieces) > 0}
        if needs == "rationale":
            if example.rationale is None:
                raise DataError(f"{y.measure.name} needs a rationale, example {example.id!r} has none")
            return {"rationale": token_mask(text_of(tokens), example.rationale, pieces=pieces)}
        if needs == "answer":
            if example.answer is None:
                raise DataError(f"{y.measure.name} needs an answer, example {example.id!r} has none")
            text = text_of(tokens)
            last = len(text.text) - 1
            return {"answer": token_mask(text, [example.answer], segment=last, pieces=pieces) > 0}
        if needs == "gold":
            if example.gold is None:
                raise DataError(
                    f"{y.measure.name} needs gold, example {example.id!r} has none: where is its answer from?"
                )
            return {"gold": gold_mask(tokens, example.gold, item.documents)}
    except DataError as error:
        return failure(error)
    return {}


def _case(
    design: Design, chunk: Scored, y: Yardstick, label: str, layer: int | None, at: int, marks: Marks
) -> Case | Failure:
    """What the measure may look at."""
    key, item = design.methods[label], chunk.items[at]
    rows = chunk.scores[key][at]
    if isinstance(rows, Failure):
        return rows
    special = np.array(item.tokens.special, dtype=bool)
    about: Any = {"pieces": item.tokens.names, "keep": chunk.keep[at], "units": item.units, "wrong": item.wrong}
    case = Case(scores=rows[layer], special=special, **about, **marks)
    if y.reference_key is not None:
        reference = chunk.scores[y.reference_key][at]
        if isinstance(reference, Failure):
            return reference
        case = replace(case, reference=reference[None])
    if y.measure.needs == "classes":
        try:
            need_classes(label, True, item.answer.target.foil_index is not None)
        except Undefined as error:
            return failure(error)
        others = []
        for class_rows in chunk.others[key][at]:
            if isinstance(class_rows, Failure):
                return class_rows
            others.append(class_rows[layer])
        case = replace(case, others=tuple(others))
    if y.measure.needs == "second":
        second = chunk.second[key][at]
        if isinstance(second, Failure):
            return second
        case = replace(case, second=None if second is None else second[layer])
    if isinstance(y.measure, Curve):
        if not may_weaken(y, item):
            says = (
                f"{y.measure.name} changes the embeddings of an answer's prompt, example {item.example.id!r} is a text"
            )
            return failure(Undefined(says))
        curve = chunk.curves.curve(at, removed(y, case), y.options["replace"], y.options["mask_pad"])
        case = replace(case, curve=curve)
    return case


def _value(y: Yardstick, case: Case) -> float | Failure:
    if not y.measure.given(case) and y.measure.needs == "second":
        return float("nan")  # the two models call the text by other labels
    try:
        return float(y.measure(case, **y.options))
    except (UnknownOption, UnknownMethod):
        raise
    except Exception as error:
        return failure(error)


def _curve(case: Case, count: int) -> list[float]:
    """The probabilities of the curve, where texts have as many levels; NaN where no token is removable."""
    if not count:
        return []
    assert case.curve is not None
    if len(case.curve) != count:
        return [float("nan")] * count
    return [float(p) for p in np.exp(case.curve)]
