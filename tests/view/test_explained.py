"""The page of an explained data set: what it says, and that nothing in it acts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch

import mixlens
from mixlens.capture.text import Tokens
from mixlens.results import Attribution, Explained, shards
from mixlens.results.explained import KIND
from mixlens.results.vocabulary import WordScore
from mixlens.target import Target
from mixlens.view.explained import _chosen, place
from mixlens.view.kit import spelling
from pages import data, still

NASTY = "</script><img src=x onerror=alert(1)>\x1b[31m"
META = {"model": "m", "self_check": 1e-7, "readout": 0, "prediction": "positive"}


class Read(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.said: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.said.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.said).split())


def attribution(words: list[str], scores: list[float], label: str, p: float, specific: bool) -> Attribution:
    spans, at = [], 0
    for word in words:
        spans.append((0, at, at + len(word)))
        at += len(word) + 1
    tokens = Tokens(
        ids=tuple(range(len(words))),
        pieces=tuple(words),
        special=(False,) * len(words),
        text=(" ".join(words),),
        spans=tuple(spans),
    )
    meta = {**META, "probability": p, "target_probability": p, "class_specific": specific}
    return Attribution(tokens, torch.tensor(scores), "m", {}, meta, Target(index=1, label=label))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "run", specific=True)


def written(folder: Path, specific: bool, nasty: str = NASTY) -> Path:
    """A finished run of 30 texts in two classes and two failures, without a model."""
    import json

    folder.mkdir()
    rows = []
    for i in range(30):
        label, strong = ("positive", "fine") if i % 2 else ("negative", "dull")
        words = ["a", strong, "film", f"w{i}"]
        scores = [0.01 * (i % 3), 0.5 + 0.01 * i, -0.02 * (i % 5), 0.03]
        attr = attribution(words, scores, label, 0.5 + i / 61, specific)
        rows.append(shards.row_of(i, f"t{i}", "positive", {"stars": i % 3, nasty: nasty}, attr))
    rows += [shards.failed_row(30 + i, nasty, nasty, None, {}, f"EmptyInput: {nasty}") for i in range(2)]
    shards.write(folder / shards.name_of(0), rows, "m", {})
    manifest = {
        "kind": KIND,
        "method": "m",
        "options": {},
        "target": None,
        "classes": ["negative", "positive"],
        "data": {"name": nasty},
        "model": {"name": nasty, "class": "Bert", "dtype": "float32", "device": "cpu", "weights": "0" * 64},
        "versions": {"mixlens": "0.1.0"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (folder / "results.jsonl").write_text('{"end": {"window": -1, "rows": 32}}\n', encoding="utf-8")
    return folder


def test_the_words_of_each_class_with_texts(folder: Path) -> None:
    page = Read(Explained(folder).to_html())
    assert "Which words speak for which class?" in page.text
    assert "Speak for “ positive ”: 15 texts" in page.text.replace("“positive”", "“ positive ”")
    rows = [attrs["aria-label"] for tag, attrs in page.tags if tag == "div" and "aria-label" in attrs]
    assert len(rows) == 6 and rows[0].startswith("mean ")  # three words of each class in three texts
    assert page.text.count("▲") >= 2 and "the highest score of “dull”" in page.text
    assert "15 of 15" in page.text and "0 of 15" in page.text  # gold labels
    assert page.text.count("EmptyInput") == 2 and "2 more rows could not be explained" in page.text


def test_a_method_that_knows_no_class_and_a_run_that_goes_on_say_so(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", specific=False)
    (folder / "results.jsonl").write_text('{"end": {"window": 0}}\n', encoding="utf-8")
    text = Read(Explained(folder).to_html()).text
    assert "Which words go into which answer?" in text and "not specific to a class" in text
    assert "the run has not come to its end" in text


def test_numbers_below_each_other_have_as_many_places() -> None:
    number = spelling.column([0.2461, -9.12e-5, 0.01])
    assert [number(0.2461), number(-9.12e-5), number(1.83e-4)] == ["0.246", "-0.000", "0.000"]
    assert [spelling.column([1234.5])(v) for v in (1234.5, 0.4)] == ["1234", "0"]
    assert spelling.column([3e-7])(3e-7) == "3.00e-07" and spelling.column([])(0.0) == "0.000"


def test_words_that_do_not_stand_out_have_their_texts_too() -> None:
    def word(name: str, null: float, example: int, out: bool) -> WordScore:
        return WordScore("positive", name, 3, 0.5, 0.4, 0.6, null, 0.0, 0.2, 0.5, out, example)

    table = [word("a", 0.1, 4, True), word("b", 0.6, 5, False), word("c", 0.1, 4, False), word("d", 0.1, 9, False)]
    table += [word("e", 0.1, 7, False), word("f", 0.1, 8, False)]
    assert _chosen(table, 2) == [(4, "a"), (9, "d"), (7, "e")]  # b has less than chance gives, c has a's text
    assert _chosen(table[1:2], 2) == [(2, None)]


def test_an_id_is_not_cut_to_letters_and_rows_say_where_they_count_from(folder: Path) -> None:
    source = Explained(folder).to_html()
    assert '<td class="id">' in source and ".errors td.id { overflow-wrap: break-word;" in source
    failed = source.split('id="failures"')[1]
    assert failed.index("Rows count from 0, a header is none.") < failed.index("<table")


def test_a_column_splits_the_tables(folder: Path) -> None:
    page = Read(Explained(folder).to_html(by="stars"))
    assert [f"stars = {k}: 10 texts" in page.text for k in range(3)] == [True] * 3
    assert "By stars" in page.text
    assert f"By {NASTY[:20]}" in Read(Explained(folder).to_html(by=NASTY)).text


def test_nothing_in_it_acts(folder: Path) -> None:
    for by in (None, NASTY):
        source = Explained(folder).to_html(by=by)
        page = Read(still(source))
        assert "</script><img src=x onerror=alert(1)>" in page.text and "\x1b" not in source
        kinds = [attrs["type"] for tag, attrs in Read(source).tags if tag == "script"]
        assert kinds.count("module") == 1 and {*kinds} == {"module", "application/octet-stream"}
        assert not [tag for tag, _ in page.tags if tag in ("script", "img", "iframe", "link", "object", "form")]
        assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
        assert not [1 for bad in ("http://", "https://", "url(", "@import") if bad in still(source)]
        assert {attrs["href"] for tag, attrs in page.tags if tag == "a"} == {"#failures"}


def test_its_texts_answer(folder: Path) -> None:
    """A text's view has the scores that the folder holds."""
    explained = Explained(folder)
    source = explained.to_html()
    count = source.count('class="view"')
    assert count == source.count("Ask this text") == 2
    rows = [int(row) for row in re.findall(r"Row (\d+)", Read(source).text)]
    for i, row in enumerate(rows):
        head, arrays = data(source, i)
        assert head["kind"] == "attribution"
        np.testing.assert_array_equal(arrays["scores"], explained.attribution(row).scores.numpy())


def test_the_page_is_written_and_small(folder: Path, tmp_path: Path) -> None:
    source = Explained(folder).to_html(tmp_path / "page.html", top=1)
    assert (tmp_path / "page.html").read_text("utf-8") == source and len(source) < 140_000
    assert len([1 for tag, attrs in Read(source).tags if tag == "div" and "aria-label" in attrs]) == 2


def test_many_failures_are_counted(folder: Path) -> None:
    rows = [shards.failed_row(i, str(i), "x", None, {}, "DataError: y") for i in range(130)]
    shards.write(folder / shards.name_of(0), rows, "m", {})
    (folder / "results.jsonl").write_text('{"end": {"window": -1, "rows": 130}}\n', encoding="utf-8")
    explained = Explained(folder)
    text = Read(explained.to_html()).text
    assert "30 more: explained.failures has all" in text and len(explained.failures) == 130
    assert repr(explained) == "Explained(m, 0 texts, 130 failed)" and explained.frame().empty


def test_a_terminal_shows_what_stands_out(folder: Path) -> None:
    from rich.console import Console

    console = Console(width=100, file=StringIO())
    console.print(Explained(folder))
    text = console.file.getvalue()
    assert "dull (0." in text and "fine (0." in text and "\x1b" not in text


def test_words_and_frames_are_tables(folder: Path, tmp_path: Path) -> None:
    table = Explained(folder).words()
    assert [w.word for w in table if w.stands_out and w.excess > 0] == ["dull", "fine"]
    table.to_csv(tmp_path / "words.csv")
    assert (tmp_path / "words.csv").read_text("utf-8").startswith("by,target,word,texts,mean,")
    table.to_parquet(tmp_path / "words.parquet")
    frame = Explained(folder).frame()
    assert frame["stars"].tolist()[:4] == [0, 1, 2, 0] and frame[NASTY].nunique() == 1


def test_mixlens_read_knows_the_folder(folder: Path) -> None:
    assert isinstance(mixlens.read(folder), Explained)


def test_values_of_a_column_stand_in_their_order() -> None:
    values = ["none", "10", "b", "2", "-1", "nan", "2.5", "a"]
    assert sorted(values, key=place) == ["-1", "2", "2.5", "10", "a", "b", "nan", "none"]
