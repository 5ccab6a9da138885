"""What a row of a data set means: the table `TASKS`, and `task()`, which fits a line of it to one's own columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from mixlens.arguments import checked
from mixlens.errors import UnknownOption, did_you_mean
from mixlens.tasks import rows
from mixlens.tasks.example import Example
from mixlens.tasks.fields import DataRow, Fields


@dataclass(frozen=True)
class Task:
    """A kind of labelled text. `names`: field -> columns. `read(fields, id, mask)`: a row to an Example.

    `measures`: those that mean something for it beside the ones that need a text alone. `optional`: fields that are
    read where a column is named for them, and only there.
    """

    name: str
    summary: str
    names: Mapping[str, tuple[str, ...]]
    function: Callable[[Fields, str, str | None], Example]
    measures: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def read(self, row: DataRow, number: int, mask: str | None = None) -> Example:
        """The Example of a row; its id is the row's, else its number. `mask`: the mask token. Raises DataError."""
        fields = Fields(row, self.names)
        value = fields.find("id")
        return self.function(fields, str(number if value is None else value), mask)


_TEXT = ("text", "sentence", "review", "content")
_LABEL = ("label", "labels", "gold")


def _table(*tasks: Task) -> dict[str, Task]:
    return {t.name: replace(t, names=MappingProxyType({"id": ("id", "uid", "idx"), **t.names})) for t in tasks}


TASKS: dict[str, Task] = _table(
    Task(
        "classification",
        "one text and its class (SST-2, IMDB, Yelp)",
        {"text": _TEXT, "label": _LABEL},
        rows.classification,
    ),
    Task(
        "pairs",
        "two texts and the class of the pair (SNLI, MNLI, MRPC, QQP)",
        {
            "first": ("premise", "text_a", "sentence1", "question1", "first"),
            "second": ("hypothesis", "text_b", "sentence2", "question2", "second"),
            "label": _LABEL,
        },
        rows.pairs,
    ),
    Task(
        "agreement",
        "a sentence whose target word is masked, a foil, and the cue that decides between them (BLiMP, SVA)",
        {
            "text": _TEXT,
            "target": ("target",),
            "foil": ("foil",),
            "target_span": ("target_span",),
            "cue": ("cue", "cue_spans"),
            "phrase": ("phrase", "phrase_spans"),
        },
        rows.agreement,
        ("cue_dot", "cue_ap", "probes_needed"),
        optional=("label",),
    ),
    Task(
        "question",
        "a question, a context and the answer's place in it (SQuAD, XQuAD)",
        {
            "question": ("question",),
            "context": ("context",),
            "answer": ("answer",),
            "answer_start": ("answer_start",),
        },
        rows.question,
        ("precision_at_k",),
    ),
    Task(
        "rationales",
        "a text and what people marked in it (HateXplain: words and marks; toxic spans: characters)",
        {"text": ("tokens", *_TEXT), "label": _LABEL, "rationale": ("rationales", "rationale", "spans")},
        rows.rationales,
        ("token_f1", "auprc", "iou"),
    ),
    Task(
        "documents",
        "a prompt, documents by name, a language model's answer, and the documents or words it is from",
        {
            "prompt": ("prompt", "question", "query"),
            "documents": ("documents", "contexts"),
            "answer": ("answer", "response"),
            "gold": ("gold", "sources"),
        },
        rows.documents,
        ("recovery", "mrr", "gold_mass"),
    ),
)


@checked
def task(name: str, **columns: str | Sequence[str]) -> Task:
    """A task with one's own columns: `mixlens.task("classification", text="sentence", label="gold")`.

    Raises UnknownOption for a task or a field that does not exist.

    Examples:
        >>> stars = mixlens.task("classification", text="review", label="stars")
        >>> example = stars.read({"review": "a fine film", "stars": 4}, number=0)
        >>> example.text, example.label
        ('a fine film', 4)
    """
    if name not in TASKS:
        raise UnknownOption(f"no task {name!r}{did_you_mean(name, TASKS)}")
    line = TASKS[name]
    for field in columns:
        known = (*line.names, *line.optional)
        if field not in known:
            raise UnknownOption(f"the task {name} has no field {field!r}{did_you_mean(field, known)}")
    for field, value in columns.items():
        names = (value,) if isinstance(value, str) else value
        if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
            raise UnknownOption(f"expected {field}= a column's name, or several, got {value!r}")
    named = {field: (value,) if isinstance(value, str) else tuple(value) for field, value in columns.items()}
    return replace(line, names=MappingProxyType({**line.names, **named}))
