"""Files by their address: what pyarrow's file systems hold is read as a file that is there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from mixlens.errors import DataError, UnknownOption
from mixlens.tasks import source

ROWS = [{"text": "é, a film", "label": 1}, {"text": "so dull", "label": 0}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    text = "\n".join(map(json.dumps, ROWS))
    (folder / "a.jsonl").write_text(text)
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "c.csv").write_text('text,label\n"é, a film",1\nso dull,0\n', "utf-16")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), folder / "d.parquet")
    return folder


@pytest.mark.parametrize("name", ["a.jsonl", "b.jsonl.gz", "c.csv", "d.parquet"])
def test_an_address_is_read_as_the_file(folder: Path, name: str) -> None:
    there, here = source((folder / name).as_uri()), source(folder / name)
    assert list(there.rows()) == list(there.rows()) == list(here.rows())
    assert [row["text"] for row in there.rows()] == [row["text"] for row in ROWS]
    assert there.name == name and there.names == here.names
    assert there.fingerprint is None  # it would be read once more for it


def test_no_address(folder: Path) -> None:
    for address, says in (
        (folder.as_uri(), "got the folder file://"),
        ((folder / "x.csv").as_uri(), "got no such file: file://.*x.csv"),
        ("nope://a/b.csv", "expected the address of a file, got 'nope://a/b.csv': .*nope"),
    ):
        with pytest.raises(DataError, match=says):
            source(address)
    (folder / "e.doc").write_text("a film")
    with pytest.raises(DataError, match=r"expected a file that ends in .*e\.doc"):
        source((folder / "e.doc").as_uri())
    with pytest.raises(UnknownOption, match="would be ignored"):
        source((folder / "d.parquet").as_uri(), "latin-1")
