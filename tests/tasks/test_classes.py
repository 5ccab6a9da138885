"""Names for the numbers of a label column: the data's own, where the model knows them."""

from __future__ import annotations

from typing import Any

import pytest

from mixlens.errors import TargetError
from mixlens.tasks import TASKS, source, task
from mixlens.tasks.classes import class_names, named

MODEL = ("Negative", "positive")
GENERIC = ("LABEL_0", "LABEL_1")


class Feature:
    def __init__(self, *names: str) -> None:
        self.names = list(names)


def labels(names: tuple[str, ...], known: tuple[str, ...] = MODEL, asked: bool = True, of: str = "label") -> list[Any]:
    kind = task("classification", label=of)
    rows = [{"text": "a", of: number} for number in (0, 1, -1, None)]
    return [row[of] for row in named({of: names}, kind, known, asked)(iter(rows))]


def test_the_names_are_those_of_the_features() -> None:
    features = {"label": Feature("b", "a"), "text": object(), "raw": {"names": ["c"], "_type": "ClassLabel"}}
    assert class_names(features) == {"label": ("b", "a"), "raw": ("c",)}
    assert class_names(None) == class_names({"names": [{"dtype": "string"}]}) == {}


def test_names_that_the_model_knows_stand_for_the_numbers() -> None:
    assert labels(("positive", "negative")) == ["positive", "negative", None, None]
    assert labels(("positive", "other"), of="gold") == ["positive", "other", None, None]
    assert labels(("one", "two"), known=()) == ["one", "two", None, None]  # a probe's labels, a model without classes


def test_a_model_without_names_takes_the_numbers() -> None:
    assert labels(("positive", "negative"), known=GENERIC) == [0, 1, None, None]
    assert labels(("0", "1")) == [0, 1, None, None]


@pytest.mark.parametrize(("names", "known"), [(("neg", "pos"), MODEL), (("1", "2"), MODEL), (("a", "b", "c"), GENERIC)])
def test_names_that_the_model_does_not_know_are_refused(names: tuple[str, ...], known: tuple[str, ...]) -> None:
    says = (
        rf"expected labels of the model \({', '.join(known)}\), the data's column 'label' has {', '.join(names)}; "
        r"give its classes the model's names, in their order: "
        r"data.cast_column\('label', datasets.ClassLabel\(names=\[...\]\)\)"
    )
    with pytest.raises(TargetError, match=says):
        labels(names, known)
    assert labels(names, known, asked=False) == [*names[:2], None, None]  # nothing depends on it


def test_many_names_are_cut() -> None:
    with pytest.raises(TargetError, match="has n0, n1, n2, n3, n4, n5 and 94 more; give"):
        labels(tuple(f"n{i}" for i in range(100)))


def test_only_rows_with_the_column_change() -> None:
    read = named({"label": ("positive",), "text": ("a",)}, TASKS["classification"], MODEL, True)
    given: list[Any] = ["a text", {"text": 0}, {"text": 0, "label": "positive"}, ValueError("no row")]
    assert list(read(iter(given))) == given


def test_a_set_of_splits_is_not_one() -> None:
    class Split(list[Any]):
        features = None

    with pytest.raises(Exception, match=r"expected one split, got train, test; pass data\['train'\]"):
        source({"train": Split(), "test": Split()})
