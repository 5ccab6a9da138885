"""The real library `datasets`: features with names, folders on disk, Parquet files that it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mixlens
from mixlens.errors import DataError, TargetError
from mixlens.tasks import source

datasets = pytest.importorskip("datasets")

TEXTS = ["a deep and meaningful film .", "not good , very slow .", "a film ."]
HOW: dict[str, Any] = {"methods": ["alti"], "measures": ["spearman"], "target": "label", "resamples": 10}


@pytest.fixture(autouse=True)
def quiet() -> None:
    datasets.disable_progress_bars()


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


def data(*names: str) -> Any:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=list(names))})
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, (0, 1, -1), strict=True)]
    return datasets.Dataset.from_list(rows, features=features)


def explained(lens: mixlens.Lens, given: Any, out: Path | None = None) -> list[Any]:
    table = mixlens.evaluate(lens, given, out=out, **HOW)
    found = list(table.examples())
    assert "has none" in found[-1]["error"]  # the text without a label
    return [line["target"] for line in found[:-1]]


def test_the_label_is_its_name(lens: mixlens.Lens, tmp_path: Path) -> None:
    given = data("positive", "negative")
    assert explained(lens, given) == explained(lens, given.to_iterable_dataset()) == ["positive", "negative"]
    assert explained(lens, given.with_format("torch")) == ["positive", "negative"]
    given.to_parquet(str(tmp_path / "d.parquet"))
    assert explained(lens, tmp_path / "d.parquet") == ["positive", "negative"]
    assert explained(lens, given.data.table) == ["positive", "negative"]


def test_the_error_says_what_helps(lens: mixlens.Lens) -> None:
    given = data("pos", "neg")
    with pytest.raises(TargetError, match=r"\(negative, positive\), the data's column 'label' has pos, neg"):
        mixlens.evaluate(lens, given, **HOW)
    mapped = given.cast_column("label", datasets.ClassLabel(names=["positive", "negative"]))
    assert explained(lens, mapped) == ["positive", "negative"]
    table = mixlens.evaluate(lens, given, **{**HOW, "target": None})
    assert [line["label"] for line in table.examples()] == ["pos", "neg", None]


def test_by_hub_name(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda *name, split: data("positive", "negative"))
    assert explained(lens, "org/name:test") == ["positive", "negative"]
    monkeypatch.undo()
    with pytest.raises(DataError, match=r"expected a data set of the hub, got: \w+: .*; name a file\?$"):
        source("no-such-org/no-such-name:test")  # offline


def test_a_folder_of_save_to_disk(lens: mixlens.Lens, tmp_path: Path) -> None:
    given = data("positive", "negative")
    given.save_to_disk(str(tmp_path / "one"))
    assert explained(lens, tmp_path / "one") == ["positive", "negative"]
    assert source(str(tmp_path / "one")).name == "one"
    datasets.DatasetDict({"train": given, "test": given}).save_to_disk(str(tmp_path / "two"))
    with pytest.raises(DataError, match=r"expected one split, got train, test; name the folder of one: .*train$"):
        source(tmp_path / "two")
    assert source(tmp_path / "two" / "train").count == 3
    (tmp_path / "one" / "state.json").unlink()
    with pytest.raises(DataError, match="expected a folder of save_to_disk, got: FileNotFoundError"):
        source(tmp_path / "one")


def test_a_run_goes_on_with_a_copy(lens: mixlens.Lens, tmp_path: Path) -> None:
    given = data("positive", "negative")
    assert source(given).fingerprint == source(data("positive", "negative")).fingerprint
    assert source(given).fingerprint != source(data("negative", "positive")).fingerprint
    explained(lens, given, tmp_path / "run")
    assert explained(lens, data("positive", "negative"), tmp_path / "run") == ["positive", "negative"]


def test_squad_rows() -> None:
    rows = [{"question": "who?", "context": "it was she", "answers": {"text": ["she"], "answer_start": [7]}}]
    (row,) = source(datasets.Dataset.from_list(rows)).rows()
    assert mixlens.task("question").read(row, 0).answer == (7, 10)
