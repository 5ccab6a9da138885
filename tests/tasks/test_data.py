"""Rows from every kind of file and object; what is wrong with one comes out as its error."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mixlens
from mixlens.errors import DataError, MissingExtra
from mixlens.tasks import SAMPLE, TASKS, digest, example, source

ROWS = [{"text": "a film", "label": 1}, {"text": "not, bad", "label": 0}]


def rows(data: Any) -> list[Any]:
    found = source(data)
    out = list(found.rows())
    assert list(map(str, found.rows())) == list(map(str, out))  # again from the start
    assert found.count in (None, len(out))
    return out


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "D.JSONL", "d.json"])
def test_json(name: str, tmp_path: Path) -> None:
    text = json.dumps(ROWS) if name == "d.json" else "".join(json.dumps(r) + "\n\n" for r in ROWS)
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert rows(tmp_path / name) == rows(str(tmp_path / name)) == ROWS


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.csv.gz"])
def test_csv(name: str, tmp_path: Path) -> None:
    opener: Any = gzip.open if name.endswith("gz") else open
    with opener(tmp_path / name, "wt", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["text", "label"], delimiter="\t" if "tsv" in name else ",")
        table.writeheader()
        table.writerows(ROWS)
    assert rows(tmp_path / name) == [{**row, "label": str(row["label"])} for row in ROWS]


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "d.parquet")
    assert rows(tmp_path / "d.parquet") == ROWS
    assert source(tmp_path / "d.parquet").names == {}  # nobody wrote the names of classes into it
    (tmp_path / "no.parquet").write_text("no")
    with pytest.raises(DataError, match="expected a Parquet file"):
        source(tmp_path / "no.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r'pip install "\.\[parquet\]" in the clone'):
        source(tmp_path / "d.parquet")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text,label,text,,\na,1,b,,\n")
    (tmp_path / "d.tsv").write_text("text\ttext\na\tb\n")
    given: list[Any] = [tmp_path / "d.csv", tmp_path / "d.tsv"]
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    given.append(pandas.DataFrame([["a", "b"]], columns=["text", "text"]))
    given.append(pyarrow.table([["a"], ["b"]], names=["text", "text"]))
    pytest.importorskip("pyarrow.parquet").write_table(given[-1], tmp_path / "d.parquet")
    for data in (*given, tmp_path / "d.parquet"):
        with pytest.raises(DataError, match="expected columns of different names, got 'text' 2 times; rename them"):
            source(data)
    (tmp_path / "d.csv").write_text("text,label,,\na,1,,\n")  # columns without a name, as spreadsheets leave them
    assert rows(tmp_path / "d.csv") == [{"text": "a", "label": "1", "": ""}]


def test_bad_rows_are_errors_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"text": "a"}\n{"text":\n{"text": "b"}\n')
    first, bad, last = rows(tmp_path / "d.jsonl")
    assert (first, last) == ({"text": "a"}, {"text": "b"})
    assert "expected JSON in line 2" in str(bad)
    (tmp_path / "d.csv").write_text("text,label\na,1\nb\nc,2,3\nd,4\n")
    good = [r for r in rows(tmp_path / "d.csv") if isinstance(r, dict)]
    assert [r["text"] for r in good] == ["a", "d"]
    assert ["expected 2 values in line" in str(r) for r in rows(tmp_path / "d.csv")] == [False, True, True, False]


def test_the_fingerprint_is_the_content(tmp_path: Path) -> None:
    a, b = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    a.write_text('{"text": "a"}\n')
    b.write_text('{"text": "a"}\n')
    assert source(a).fingerprint == source(b).fingerprint
    b.write_text('{"text": "b"}\n')
    assert source(a).fingerprint != source(b).fingerprint


def test_iterables() -> None:
    assert rows(ROWS) == ROWS
    assert source(iter(ROWS)).count is None
    kinds = [
        "a film",
        ("one", "two"),
        mixlens.Words(["a", "film"]),
        [5, 6],
        {"input_ids": [5]},
        mixlens.Example("e", "a"),
    ]
    found = [example(row, i, TASKS["classification"], None) for i, row in enumerate(kinds)]
    assert [e.text for e in found] == [*kinds[:5], "a"]
    assert [e.id for e in found] == ["0", "1", "2", "3", "4", "e"]
    assert len({digest(row) for row in kinds}) == 6
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    alike = [({"a": None}, {"a": "None"}), ({"a": np.arange(3)}, {"a": np.arange(1, 4)}), ({"a": 1}, {"a": 1.5})]
    assert all(digest(one) != digest(other) for one, other in alike)
    assert digest({"a": np.arange(3)}) == digest({"a": [0, 1, 2]}) and digest(np.float64(2)) == digest(2.0)


def test_a_pandas_table_is_its_rows() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a film", None], "label": [1, None], "spans": [[[0, 1]], None]}, index=[7, 7])
    assert rows(frame) == [{"text": "a film", "label": 1, "spans": [[0, 1]]}, dict.fromkeys(("text", "label", "spans"))]
    many = pandas.DataFrame({"text": [str(i) for i in range(2500)]})
    assert [row["text"] for row in rows(many)] == [str(i) for i in range(2500)]
    assert (source(many).name, source(many).count, source(many).fingerprint) == ("DataFrame", 2500, None)


def test_other_tables_are_their_rows() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.Table.from_pylist(ROWS * 600)
    assert rows(table) == rows(table.to_batches()[0]) == ROWS * 600

    class Polars:  # what is asked of it
        columns = ("text", "label")

        def __init__(self, held: list[Any]) -> None:
            self.held = held

        def __len__(self) -> int:
            return len(self.held)

        def slice(self, start: int, count: int) -> Polars:
            return Polars(self.held[start : start + count])

        def to_dicts(self) -> list[Any]:
            return self.held

    assert rows(Polars(ROWS * 600)) == ROWS * 600


def test_an_open_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text('{"text": "a"}\n')
    with (
        open(tmp_path / "d.jsonl") as file,
        NamedTemporaryFile("w") as wrapped,
        pytest.raises(
            DataError, match=r"expected the path of a file, got an open one \(TextIOWrapper\); pass the path"
        ),
    ):
        with pytest.raises(DataError, match="pass the path"):
            source(wrapped)
        source(file)


def test_a_dataset_has_its_own_fingerprint() -> None:
    class Dataset(list[Any]):
        _fingerprint = "abc"

    found = source(Dataset(ROWS))
    assert (found.fingerprint, found.count, list(found.rows())) == ("abc", 2, ROWS)


def test_hub_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r'pip install "\.\[hub\]" in the clone'):
        source("glue/sst2:validation")
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(MissingExtra, match="which save_to_disk wrote, needs the package datasets"):
        source(tmp_path)
    asked: list[Any] = []
    hub = ModuleType("datasets")

    def load_dataset(name: str, config: str | None, split: str | None) -> Any:
        asked.append((name, config, split))
        if name == "no/such":
            raise FileNotFoundError("not on the hub")
        return ROWS if split else {"train": ROWS, "test": ROWS}

    hub.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", hub)
    assert rows("nyu-mll/glue/sst2:validation") == ROWS
    assert asked == [("nyu-mll/glue", "sst2", "validation")]
    with pytest.raises(DataError, match="expected one split, got train, test; name one: 'org/name:train'"):
        source("org/name")
    with pytest.raises(DataError, match="FileNotFoundError: not on the hub"):
        source("no/such:test")


def test_the_sample() -> None:
    found = rows(SAMPLE)
    assert len(found) == 40
    assert sum(row["label"] for row in found) == 20
    assert len({row["text"] for row in found}) == 40


def test_what_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        source(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="got the folder"):
        source(tmp_path)
    (tmp_path / "d.xml").write_text("a")
    with pytest.raises(DataError, match=r"ends in \.jsonl, \.json, \.csv, \.tsv, \.txt, \.parquet"):
        source(tmp_path / "d.xml")
    for thing in (3, {"text": "a"}, b"a"):
        with pytest.raises(DataError, match="put one text in a list"):
            source(thing)
    (tmp_path / "d.json").write_text('{"text": "a"}')
    with pytest.raises(DataError, match="a list of rows"):
        rows(tmp_path / "d.json")
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 99)[:-9])
    with pytest.raises(DataError, match="expected a whole file"):
        source(tmp_path / "d.jsonl.gz")
    with pytest.raises(DataError, match="got a text alone"):
        example("a film", 0, TASKS["pairs"], None)
    with pytest.raises(DataError, match="expected a row, a text or a mixlens"):
        example(3, 0, TASKS["classification"], None)
