"""Files as people have them: quotes that are characters, other separators and encodings, nested and damaged ones."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mixlens.errors import DataError, UnknownOption
from mixlens.tasks import TASKS, digest, example, source
from mixlens.tasks.classes import gold, named
from mixlens.tasks.formats import DEPTH


def rows(path: Path, encoding: str | None = None) -> list[Any]:
    found = source(path, encoding)
    out = list(found.rows())
    assert found.count == len(out)
    return out


# ---- tables


def test_quotes_in_a_tsv_are_characters(tmp_path: Path) -> None:
    """GLUE's: with quotes as marks a quote that is not closed on its line swallows the lines that follow."""
    lines = ['"I am here , " he said .', "no quotes", '"Open', 'shut"', 'a "word" within', '"All of it."', '""']
    (tmp_path / "d.tsv").write_text("sentence\tlabel\n" + "".join(f"{line}\t0\n" for line in lines), "utf-8")
    assert [row["sentence"] for row in rows(tmp_path / "d.tsv")] == lines


@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC, csv.QUOTE_MINIMAL])
def test_quotes_in_a_tsv_are_marks_where_every_line_says_so(quoting: Any, tmp_path: Path) -> None:
    table = [["text", "label"], ['he said "no"', 1], ["a\tb", 2], ["plain", 0]]
    with open(tmp_path / "d.tsv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter="\t", quoting=quoting).writerows(table)
    assert [(row["text"], row["label"]) for row in rows(tmp_path / "d.tsv")] == [(t, str(n)) for t, n in table[1:]]


def test_one_quoted_line_of_a_tsv_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "d.tsv").write_text('text\tlabel\n"A title"\t1\nplain\t0\n', "utf-8")
    assert [row["text"] for row in rows(tmp_path / "d.tsv")] == ['"A title"', "plain"]


@pytest.mark.parametrize("sign", [";", "\t", ","])
def test_the_separator_of_a_csv_is_its_headers(sign: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text(f'text{sign}label\n"a; b, c\td"{sign}1\n', "utf-8")
    assert rows(tmp_path / "d.csv") == [{"text": "a; b, c\td", "label": "1"}]


def test_a_comma_in_the_header_decides(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text,a;b\nx;y,1\n", "utf-8")
    assert rows(tmp_path / "d.csv") == [{"text": "x;y", "a;b": "1"}]


def test_a_text_a_line(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_bytes(b'a "film"\r\n\r\n not, bad\r\n')
    found = rows(tmp_path / "d.txt")
    assert found == ['a "film"', " not, bad"]
    assert example(found[0], 0, TASKS["classification"], None).text == 'a "film"'


# ---- encodings


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.jsonl", "d.json", "d.txt", "d.csv.gz"])
def test_the_byte_order_mark_says_the_encoding(name: str, codec: str, tmp_path: Path) -> None:
    line = {"c": "text\nnaïve\n", "t": "text\nnaïve\n", "jl": '{"text": "naïve"}\n', "j": '[{"text": "naïve"}]'}
    content = line["jl" if "jsonl" in name else "j" if "json" in name else "c"]
    content = "naïve\n" if name == "d.txt" else content
    data = ("\ufeff" + content).encode(codec) if codec[-2:] in ("le", "be") else content.encode(codec)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    wanted: Any = "naïve" if name == "d.txt" else {"text": "naïve"}
    assert rows(tmp_path / name) == [wanted]
    if codec in ("utf-8-sig", "utf-16", "utf-32"):  # named beside its mark
        assert rows(tmp_path / name, codec.removesuffix("-sig")) == [wanted]


def test_other_encodings_are_asked_for(tmp_path: Path) -> None:
    for codec in ("latin-1", "cp1252", "utf-16-le"):
        (tmp_path / "d.csv").write_bytes("text,label\ncafé,1\n".encode(codec))
        assert rows(tmp_path / "d.csv", codec) == [{"text": "café", "label": "1"}]
        with pytest.raises(DataError, match=r"pass (its )?encoding="):
            source(tmp_path / "d.csv")


def test_an_encoding_that_would_be_ignored(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("text\na\n")
    for name in ("latin-111", "rot13", "hex", 3, ""):
        with pytest.raises(UnknownOption, match="expected encoding= the name of a text encoding"):
            source(tmp_path / "d.csv", name)  # type: ignore[arg-type]
    for data in (["a film"], "sst2:train"):
        with pytest.raises(UnknownOption, match="would be ignored"):
            source(data, "utf-8")


# ---- names and labels


def test_columns_in_capitals() -> None:
    row = {"Text": "a film", " LABEL ": 1}
    found = example(row, 0, TASKS["classification"], None)
    assert (found.text, found.label) == ("a film", 1)
    both = example({"TEXT": "no", "text": "yes"}, 0, TASKS["classification"], None)
    assert both.text == "yes"  # its very name comes first
    with pytest.raises(DataError, match="expected one column 'text', got 'Text', 'TEXT'; rename"):
        example({"Text": "a", "TEXT": "b"}, 0, TASKS["classification"], None)
    with pytest.raises(DataError, match="expected a value in 'Text'"):
        example({"Text": None}, 0, TASKS["classification"], None)
    squad = {"Question": "who?", "Context": "she did", "Answers": {"text": ["she"], "answer_start": [0]}}
    assert example(squad, 0, TASKS["question"], None).answer == (0, 3)
    read = named({"Label": ("neg", "pos")}, TASKS["classification"], ["neg", "pos"], True)
    assert list(read(iter([{"Label": 1}]))) == [{"Label": "pos"}]


def test_numbers_that_a_table_made_fractions() -> None:
    assert [gold(label, ["negative", "positive"]) for label in ("1.0", "0.", " 1.0 ", "1", 1)] == [1, 0, 1, "1", 1]
    assert gold("1.0", ["1.0", "2.0"]) == "1.0"
    assert gold("1.5", []) == "1.5"


# ---- nested


SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Normans",
            "paragraphs": [
                {
                    "context": "The Normans came.",
                    "qas": [
                        {"id": "q1", "question": "Who?", "answers": [{"text": "Normans", "answer_start": 4}]},
                        {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}


def test_squads_own_file(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(json.dumps(SQUAD))
    found = [example(row, i, TASKS["question"], None) for i, row in enumerate(rows(tmp_path / "d.json"))]
    assert [(e.id, e.text, e.answer) for e in found] == [
        ("q1", ("Who?", "The Normans came."), (4, 11)),
        ("q2", ("Why?", "The Normans came."), None),
    ]


@pytest.mark.parametrize("article", [{"paragraphs": 3}, {"paragraphs": [3]}, {"paragraphs": [{"context": "a"}]}])
def test_a_damaged_article_is_an_error_of_its_own(article: Any, tmp_path: Path) -> None:
    (tmp_path / "d.json").write_text(json.dumps({"data": [article, {"text": "a"}]}))
    bad, good = rows(tmp_path / "d.json")
    assert isinstance(bad, DataError)
    assert good == {"text": "a"}


# ---- damaged


def test_the_ending_in_capitals_and_gzip_in_pieces(tmp_path: Path) -> None:
    data = gzip.compress(b"text\n" + b"".join(b"a film %d\n" % i for i in range(3000)))
    (tmp_path / "d.csv.GZ").write_bytes(data)
    assert len(rows(tmp_path / "d.csv.GZ")) == 3000
    for change in (slice(40, 60), slice(0, 8), slice(len(data) - 8, len(data) - 4)):
        bad = bytearray(data)
        bad[change] = bytes(255 - b for b in bad[change])
        (tmp_path / "d.csv.GZ").write_bytes(bytes(bad))
        with pytest.raises(DataError):
            source(tmp_path / "d.csv.GZ")


def test_parquet_pages_in_pieces(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    path = tmp_path / "d.parquet"
    table = arrow.Table.from_pylist([{"text": f"a film {i}"} for i in range(3000)])
    pytest.importorskip("pyarrow.parquet").write_table(table, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 400 + whole[404:])
    found = source(path)
    with pytest.raises(DataError, match="expected a whole Parquet file"):
        list(found.rows())


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"text":' + "[" * 3000 + "]" * 3000 + "}", '[{"a":' * 100_000])
def test_json_that_is_nested_deeply(deep: str, tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text(deep + '\n{"text": "' + "[" * 500 + '"}\n')
    bad, good = rows(tmp_path / "d.jsonl")
    assert f"nested deeper than {DEPTH}" in str(bad)
    assert good == {"text": "[" * 500}  # signs of a text
    (tmp_path / "d.json").write_text(deep)
    with pytest.raises(DataError, match=f"nested deeper than {DEPTH}"):
        source(tmp_path / "d.json")
    row = {"text": "a", "rationale": deep}
    with pytest.raises(DataError):
        example(row, 0, TASKS["rationales"], None)


def test_how_deep_rows_may_be(tmp_path: Path) -> None:
    """As deep as is said, whatever brackets the texts hold."""
    strings = json.dumps("[" * 2 * DEPTH)
    deep = "[" * (DEPTH - 1) + "]" * (DEPTH - 1)
    (tmp_path / "d.jsonl").write_text(f'{{"a": {deep}, "text": {strings}}}\n{{"a": [{deep}], "text": {strings}}}\n')
    good, bad = source(tmp_path / "d.jsonl").rows()
    assert good["text"] == "[" * 2 * DEPTH
    assert f"nested deeper than {DEPTH}" in str(bad)


def test_rows_of_ones_own_that_are_nested_deeply() -> None:
    row: Any = "a"
    for _ in range(5000):
        row = [row]
    with pytest.raises(DataError, match="nested too deep"):
        digest({"text": "a", "more": row})


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "a\0b.csv", "x" * 300])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(DataError, match=r"expected .* file, got"):
        source(name)


# ---- datasets


@pytest.mark.parametrize("form", ["pandas", "numpy", "torch", "arrow"])
def test_a_dataset_of_whatever_format_has_plain_rows(form: str) -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list([{"text": "a film", "label": 1}, {"text": "not bad", "label": 0}])
    plain = list(source(data).rows())
    data.set_format(form)
    assert list(source(data).rows()) == plain == [{"text": "a film", "label": 1}, {"text": "not bad", "label": 0}]
    assert data.format["type"] == form  # its owner's setting
    stream = data.with_format(None).to_iterable_dataset().with_format(form)
    assert list(source(stream).rows()) == plain


def test_a_transform_of_ones_own_stays() -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_list([{"text": "a film"}])
    data.set_transform(lambda rows: {"text": [text.upper() for text in rows["text"]]})
    assert list(source(data).rows()) == [{"text": "A FILM"}]
