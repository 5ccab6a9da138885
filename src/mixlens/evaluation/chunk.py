"""A chunk of examples to the lines of a run: what the models' passes give, then a `Record` a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mixlens.evaluation.cells import marked, numbers
from mixlens.evaluation.design import MODEL, Design
from mixlens.evaluation.explain import Failure, Item
from mixlens.evaluation.kinds import items
from mixlens.evaluation.log import Record
from mixlens.evaluation.scored import Read, Scored, Setting, Tick, scored
from mixlens.evaluation.traced import TracedItem
from mixlens.evaluation.vectors import collect


def records(setting: Setting, examples: Sequence[Read], tick: Tick) -> list[Record]:
    """A Record an example, in order. `tick(share done)`."""
    if not setting.design.methods:
        lines = [Record(n, e.id, facts={"tokens": len(t), "label": e.label}) for n, e, t in examples]
        return _with_vectors(setting, examples, lines)
    read = items(setting.lens, examples, setting.target, setting.batch_size, setting.exclude)
    chunk = scored(setting, [item for item in read if isinstance(item, Item)], tick)
    evaluated = (_record(setting.design, chunk, at) for at in range(len(chunk.items)))
    lines = [
        Record(number, example.id, error=item.text) if isinstance(item, Failure) else next(evaluated)
        for (number, example, _), item in zip(examples, read, strict=True)
    ]
    return _with_vectors(setting, examples, lines)


def _record(design: Design, chunk: Scored, at: int) -> Record:
    """All columns of one text, in the design's order; what fails is NaN and named."""
    values: list[float] = []
    errors: dict[str, str] = {}
    item = chunk.items[at]
    for y in design.yardsticks:
        marks = marked(y, item)
        for label in design.methods:
            cell = numbers(design, chunk, y, label, at, marks)
            if isinstance(cell, Failure):
                errors[f"{y.name} {label}"] = cell.text
                cell = [float("nan")] * design.width(label, y)
            values += cell
    target = item.answer.target
    facts = {
        "tokens": len(item.tokens),
        "label": item.example.label,
        "target": target.label if target.label is not None else target.index,
        "prediction": item.answer.reported.get("prediction"),
        "log_p": item.log_p,
    }
    if isinstance(item, TracedItem):
        facts |= {"answer": item.reply.text[0] if item.reply.text else list(item.reply.ids), "right": not item.wrong}
    return Record(item.number, item.example.id, values, errors, None, facts)


def _with_vectors(setting: Setting, examples: Sequence[Read], lines: Sequence[Record]) -> list[Record]:
    """The same with what the measures of a corpus keep of each text."""
    out = list(lines)
    for y in setting.design.corpora:
        chosen = [i for i, record in enumerate(out) if record.error is None]
        texts = [examples[i][1:] for i in chosen]
        vectors = collect(setting.lens, y, texts, setting.target, setting.batch_size)
        for i, kept in zip(chosen, vectors, strict=True):
            if isinstance(kept, Failure):
                out[i] = replace(out[i], errors={**out[i].errors, f"{y.name} {MODEL}": kept.text})
            else:
                out[i] = replace(out[i], kept={**out[i].kept, y.name: kept})
    return out
