"""Every text of a data set: what stands in the folder, which rows fail, and that it is what `attribute` gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mixlens
from mixlens.dataset import engines
from mixlens.dataset import explain as module
from mixlens.errors import (
    DataError,
    MissingExtra,
    MixlensError,
    ResultFileError,
    RunChanged,
    TargetError,
    Undefined,
    UnknownMethod,
    UnknownOption,
)

WORDS = "a deep and meaningful film not bad good slow very".split()
TEXTS = [" ".join(WORDS[(i * k) % 10] for k in range(1, 3 + i % 7)) + " ." for i in range(11)]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


def test_files_hold_a_quarter_of_the_rows() -> None:
    counts = (1, 310, 1024, 1600, 3000, 16384, 10**7, None)
    assert [module.rows_a_file(count) for count in counts] == [512, 512, 512, 512, 750, 1024, 1024, 1024]
    shared = [module.rows_a_file(count, module.SHARED) for count in counts]
    assert shared == [128, 128, 256, 400, 750, 1024, 1024, 1024]


def test_stars_are_no_labels(lens: mixlens.Lens, tmp_path: Path) -> None:
    """The row with one star would be explained for the class of that number."""
    rows = [{"text": text, "label": str(1 + i % 5)} for i, text in enumerate(TEXTS)]
    with pytest.raises(TargetError, match=r"\(negative, positive\) or their numbers, got '2' in row 1; are they stars"):
        mixlens.explain_data(lens, rows, "alti", "label", tmp_path)
    assert not list(tmp_path.glob("*.parquet"))
    numbers = [{"text": text, "label": i % 2} for i, text in enumerate(TEXTS)]
    assert {text.target for text in mixlens.explain_data(lens, numbers, "alti", "label")} == {"negative", "positive"}


def test_all_classes_are_for_one_text(lens: mixlens.Lens) -> None:
    with pytest.raises(TargetError, match="expected one class for all texts, got target='all', which is for one text"):
        mixlens.explain_data(lens, TEXTS, "attcat", "all")


@pytest.fixture(scope="module")
def explained(lens: mixlens.Lens, tmp_path_factory: pytest.TempPathFactory) -> mixlens.Explained:
    """Rows of a file with every kind of fault among them."""
    folder = tmp_path_factory.mktemp("run")
    rows: list[Any] = [{"id": f"t{i}", "review": text, "stars": i % 3} for i, text in enumerate(TEXTS)]
    rows[2]["review"] = ""
    rows[5]["review"] = "good " * 40
    rows[7]["review"] = None
    rows[9]["review"] = 3.5
    return mixlens.explain_data(lens, rows, "alti", out=folder / "run", field="review", by="stars")


def same(a: mixlens.Attribution, b: mixlens.Attribution) -> None:
    """Equal but for what batches round."""
    assert (a.source, a.target, a.method, a.options) == (b.source, b.target, b.method, b.options)
    assert torch.allclose(a.scores, b.scores.float(), rtol=1e-5, atol=1e-6)
    rounding = {"call_check"}  # another one in each run, and not in its files
    assert list(a.meta) and set(a.meta) == set(b.meta) - rounding
    for name, value in b.meta.items():
        if name in rounding:
            continue
        close = isinstance(value, float) or name == "probabilities"
        assert a.meta[name] == (pytest.approx(value, rel=1e-5, abs=1e-6) if close else value), name


def test_rows_stand_in_the_data_s_order_with_those_that_failed(explained: mixlens.Explained) -> None:
    assert len(explained) == 7 and repr(explained) == "Explained(alti, 7 texts, 4 failed)"
    assert [text.row for text in explained] == [0, 1, 3, 4, 6, 8, 10]
    assert [text.text for text in explained] == [TEXTS[text.row] for text in explained]
    assert [(f.row, f.id, f.error.partition(":")[0]) for f in explained.failures] == [
        (2, "t2", "EmptyInput"),
        (5, "t5", "TooLong"),
        (7, "t7", "DataError"),
        (9, "t9", "DataError"),
    ]
    assert explained.finished and explained.method == "alti" and explained.options == {}


def test_a_text_is_what_attribute_gives(lens: mixlens.Lens, explained: mixlens.Explained) -> None:
    for text in explained:
        alone = lens.attribute(text.text, method="alti")
        same(explained.attribution(text.id), alone)
        same(explained.attribution(text.row), alone)
        assert text.scores == pytest.approx(alone.scores.tolist(), rel=1e-5, abs=1e-6)
        assert text.words is not None
        words = [word for word in alone.words() if not word.special]
        assert [word for word, _ in text.words] == [word.text for word in words]
        assert [score for _, score in text.words] == pytest.approx([word.score for word in words], rel=1e-5, abs=1e-6)
        assert (text.target, text.prediction) == (alone.target.label, alone.meta["prediction"])
        assert text.data == {"stars": text.row % 3}


def test_the_files_are_parquet_with_float32(explained: mixlens.Explained) -> None:
    (path,) = explained.folder.glob("*.parquet")
    table = pyarrow.parquet.read_table(path)
    assert table.num_rows == len(TEXTS)
    named = {field.name: str(field.type) for field in table.schema}
    assert {name: named[name] for name in ("id", "text", "target", "meta")} == dict.fromkeys(
        ("id", "text", "target", "meta"), "string"
    )
    assert named["scores"] == named["word_scores"] == "list<element: float>"
    assert named["probability"] == "double" and named["tokens"] == "list<element: string>"


def test_a_frame_has_a_row_a_text_and_the_data_s_columns(explained: mixlens.Explained) -> None:
    frame = explained.frame()
    assert frame["row"].tolist() == [0, 1, 3, 4, 6, 8, 10]
    assert frame["stars"].tolist() == [0, 1, 0, 1, 0, 2, 1]
    assert frame.attrs["method"] == "alti"
    assert np.allclose(frame["probability"], [text.probability for text in explained])


def test_columns_alone(explained: mixlens.Explained) -> None:
    assert list(explained.columns("id", "data"))[1] == {"id": "t1", "data": {"stars": 1}}
    with pytest.raises(UnknownOption, match="no column 'target_label'; did you mean 'target'"):
        next(explained.columns("target_label"))


def test_words_are_means_over_texts(explained: mixlens.Explained) -> None:
    """Against loops; `measure.vocabulary` has the rest."""
    table = explained.words(least=1)
    for word in table:
        values = []
        for text in explained:
            mine = [score for name, score in text.words or () if name.casefold() == word.word]
            if text.target == word.target and mine:
                values.append(sum(mine) / len(mine))
        assert (word.texts, word.mean) == (len(values), pytest.approx(np.mean(values), rel=1e-6))
    assert {w.target for w in table} == {text.target for text in explained}
    assert len(explained.words(1, least=1)) == len({text.target for text in explained})
    split = explained.words(by="stars", least=1)
    groups = [(w.by, w.target) for w in split]
    assert list(dict.fromkeys(groups)) == sorted(set(groups)) and {w.by for w in split} == {"0", "1", "2"}
    assert list(table.to_frame().columns) == list(table.to_dicts()[0])
    assert sum(w.texts for w in split if w.word == ".") == len(explained)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"top": 0}, "expected top of 1 or more, got 0"),
        ({"least": 1.5}, "expected least of 1 or more, got 1.5"),
        ({"level": 2.0}, "expected level between 0 and 1, got 2.0"),
        ({"by": "star"}, "expected by= a column of numbers, flags or short texts, got 'star'; did you mean 'stars'"),
    ],
)
def test_odd_words(explained: mixlens.Explained, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(UnknownOption, match=says):
        explained.words(**asked)


@pytest.mark.parametrize(
    ("id", "says"),
    [
        ("t99", "expected the id of a text .* or the number of its row, got 't99'"),
        (99, "got 99"),
        (2, "row 2 could not be explained: EmptyInput"),
        ("t5", "row 5 could not be explained: TooLong"),
        (None, "got None"),
    ],
)
def test_no_such_text(explained: mixlens.Explained, id: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        explained.attribution(id)


def test_an_id_of_two_texts_is_refused(lens: mixlens.Lens) -> None:
    twice = [{"id": "x", "text": "a film"}, {"id": "x", "text": "a good film"}]
    explained = mixlens.explain_data(lens, twice, "alti")
    with pytest.raises(DataError, match="'x' is of rows 0, 1; pass a row's number"):
        explained.attribution("x")
    assert explained.attribution(1).text == "a good film"


KINDS: list[tuple[Any, dict[str, Any]]] = [
    (["a deep film", "not bad"], {}),
    ([("a deep film", "not bad"), ("good", "slow")], {}),
    ([mixlens.Words(["a", "deep"]), [2, 5, 6, 3]], {}),
    ([{"input_ids": [2, 5, 6, 3], "token_type_ids": [0, 0, 1, 1]}, "a film"], {}),
    ([mixlens.Example("one", "a deep film", label="positive"), mixlens.Example("two", "bad", label=0)], {}),
    ([{"a": "deep film", "b": "not bad"}], {"task": "pairs", "field": {"first": "a", "second": "b"}}),
    (["a " * 40, "good"], {"truncate": True}),
    (["a deep film", "bad"], {"target": "positive", "method": "attcat"}),
    (["a deep film", "bad"], {"target": mixlens.Target("negative", foil="positive"), "method": "grad_x_input"}),
    (["a deep film"], {"method": "globenc+rollout", "receptive_field": False}),
]


@pytest.mark.parametrize(("data", "asked"), KINDS, ids=[f"{d!s:.30} {a!s:.30}" for d, a in KINDS])
def test_every_kind_of_text_comes_back_as_it_was(lens: mixlens.Lens, data: Any, asked: dict[str, Any]) -> None:
    asked = {"method": "alti", **asked}
    explained = mixlens.explain_data(lens, data, **asked)
    rest = {name: value for name, value in asked.items() if name not in ("task", "field")}
    assert explained.failures == () and len(explained) == len(data)
    for row, text in enumerate(data):
        text = text.text if isinstance(text, mixlens.Example) else text
        text = (text["a"], text["b"]) if "field" in asked else text
        same(explained.attribution(row), lens.attribute(text, **rest))


def test_gold_labels_are_named_and_explained(lens: mixlens.Lens) -> None:
    rows = [{"text": "a film", "label": 1}, {"text": "bad", "label": "negative"}, {"text": "good", "label": None}]
    explained = mixlens.explain_data(lens, rows, "attcat", "label")
    assert [(text.target, text.label) for text in explained] == [("positive",) * 2, ("negative",) * 2]
    (failure,) = explained.failures
    assert failure.row == 2 and "expected a gold label for target='label'" in failure.error
    assert "or --field label=COLUMN" in failure.error


@pytest.mark.parametrize("name", ["manifest.json", "summary.html", "part-000000.parquet"])
def test_a_file_of_no_run_is_not_written_over(name: str, lens: mixlens.Lens, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"name": "mine"}')
    with pytest.raises(RunChanged, match=rf"holds {name}, and no run that wrote it; give the run another folder"):
        mixlens.explain_data(lens, ["a film"], "alti", out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == '{"name": "mine"}'


def test_batches_windows_and_memory_change_no_number(
    lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch, explained: mixlens.Explained
) -> None:
    monkeypatch.setattr(module, "WINDOW", 3)
    rows = [{"id": f"t{text.row}", "text": text.text} for text in explained]
    one = mixlens.explain_data(lens, rows, "alti", batch_size=1, memory="200MB")
    assert len(one.parts) == 3
    for a, b in zip(one, explained, strict=True):
        assert (a.text, a.tokens, a.target) == (b.text, b.tokens, b.target)
        assert a.scores == pytest.approx(b.scores, rel=1e-5, abs=1e-6)


def test_long_texts_make_smaller_files(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 4)
    monkeypatch.setattr(module, "CHARACTERS", 10)
    explained = mixlens.explain_data(lens, ["good", "good", "a deep and meaningful film .", *["bad"] * 5], "random")
    assert [head.rows for _, head in explained.parts] == [3, 4, 1]


def test_one_bad_text_costs_no_other(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    from mixlens.dataset import window

    whole, calls = window.attributions, []

    def attributions(subject: Any, asks: Any) -> Any:
        calls.append(len(asks[0].texts))
        if any("bad" in tokens.text[0] for tokens in asks[0].texts):
            raise RuntimeError("of its own")
        return whole(subject, asks)

    monkeypatch.setattr(window, "attributions", attributions)
    explained = mixlens.explain_data(lens, ["good"] * 5 + ["bad"] + ["film"] * 10, "alti")
    assert [(f.row, f.error) for f in explained.failures] == [(5, "RuntimeError: of its own")]
    assert len(explained) == 15 and len(calls) <= 9  # by halves, not one by one


def test_scores_that_are_not_finite_are_failures(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from mixlens.dataset import window

    whole = window.attributions

    def attributions(subject: Any, asks: Any) -> Any:
        return [[replace(a, scores=a.scores / (len(a.source) - 3)) for a in whole(subject, asks)[0]]]

    monkeypatch.setattr(window, "attributions", attributions)
    explained = mixlens.explain_data(lens, ["good", "a film"], "alti")
    assert [f.row for f in explained.failures] == [0]
    assert "NotFinite: expected finite scores of alti" in explained.failures[0].error


def test_prompts_are_refused_row_by_row(lens: mixlens.Lens) -> None:
    explained = mixlens.explain_data(lens, [mixlens.Example("p", prompt="a film", answer=" good"), "good"], "alti")
    assert len(explained) == 1 and "got a prompt with its answer; trace it" in explained.failures[0].error


CALLS: list[tuple[Any, dict[str, Any], type[MixlensError], str]] = [
    (TEXTS, {"method": "alty"}, UnknownMethod, "did you mean 'alti'"),
    (TEXTS, {"method": "alti", "power": 2}, UnknownOption, "alti would ignore the option 'power'"),
    (TEXTS, {"target": "neutral"}, TargetError, "no label 'neutral'"),
    (TEXTS, {"target": ["positive"]}, TargetError, "expected one target= for all texts, got a list"),
    (TEXTS, {"top": 0}, UnknownOption, "expected top of 1 or more, got 0"),
    (TEXTS, {"seed": -1}, UnknownOption, "expected seed"),
    (TEXTS, {"by": 3}, UnknownOption, "expected by= a column's name, or None, got 3"),
    (TEXTS, {"by": "stars"}, UnknownOption, "got 'stars'; the data are texts without columns"),
    ([{"text": "good", "stars": 1}], {"by": "star"}, UnknownOption, "got 'star'; did you mean 'stars'"),
    (
        [{"text": "good", "stars": 1}],
        {"by": "text"},
        UnknownOption,
        "flags or short texts, got 'text', which is",
    ),
    ([{"text": "good", "long": "x" * 201}], {"by": "long"}, UnknownOption, "got 'long', .* more than 200 characters"),
    ([{"review": "good"}], {"field": "text"}, DataError, "expected a column 'text' for 'text', got review"),
    ([{"a": "x", "b": "y"}], {"task": "pairs", "field": "a"}, UnknownOption, r"field= \{'first': ..., 'second': ...\}"),
    ([{"a": "x"}], {"field": 3}, UnknownOption, "expected field= a column's name, or a mapping"),
    ([{"a": "x"}], {"field": {"txt": "a"}}, UnknownOption, "has no field 'txt'"),
    (TEXTS, {"task": "documents"}, Undefined, "explain_data explains texts, got the task documents"),
    ([], {}, DataError, "expected at least one row of list, got none"),
    ("nowhere.csv", {}, DataError, "got no such file"),
    ("a film", {"out": ""}, ResultFileError, "expected the path of a folder"),
]


@pytest.mark.parametrize(("data", "asked", "error", "says"), CALLS, ids=[f"{d!s:.20} {a!s:.40}" for d, a, *_ in CALLS])
def test_odd_calls(lens: mixlens.Lens, data: Any, asked: dict[str, Any], error: type[MixlensError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        mixlens.explain_data(lens, data, **{"method": "alti", **asked})
    assert type(caught.value) is error


def test_a_column_that_splits_nothing_is_refused_before_a_text_is_explained(
    lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "rows_of", None)
    with pytest.raises(UnknownOption, match="got 'text', which is the text itself"):
        mixlens.explain_data(lens, [{"text": "good", "stars": 1}], "alti", by="text")


def test_without_pyarrow_nothing_begins(lens: mixlens.Lens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"Parquet needs the package pyarrow, .* pip install \"\.\[parquet\]\""):
        mixlens.explain_data(lens, TEXTS, "alti", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "baseline",
    [torch.ones(32, dtype=torch.complex128), torch.ones(32).to_sparse(), torch.ones(32, device="meta")],
    ids=["complex", "sparse", "meta"],
)
def test_a_tensor_without_a_digest_is_refused_by_the_method(lens: mixlens.Lens, baseline: torch.Tensor) -> None:
    with pytest.raises(UnknownOption, match="expected a dense baseline of finite numbers"):
        mixlens.explain_data(lens, ["a deep film ."], "integrated_gradients", baseline=baseline)


def test_no_lens_is_refused() -> None:
    with pytest.raises(mixlens.errors.InputError, match="expected lens= what"):
        mixlens.explain_data(None, TEXTS, "alti")  # type: ignore[arg-type]


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_odd_texts_are_explained_or_named(lens: mixlens.Lens, texts: list[str]) -> None:
    """Whatever stands in them: each comes back as it was, or with the error that `attribute` raises."""
    explained = mixlens.explain_data(lens, texts, "random")
    seen = {text.row: text for text in explained}
    assert sorted([*seen, *(f.row for f in explained.failures)]) == list(range(len(texts)))
    for row, text in seen.items():
        assert text.text == texts[row]
        same(explained.attribution(row), lens.attribute(texts[row], method="random"))
    for failure in explained.failures:
        with pytest.raises(MixlensError) as caught:
            lens.attribute(texts[failure.row], method="random")
        assert failure.error.startswith(type(caught.value).__name__)


def test_halves_of_surrogates_are_written_as_signs(lens: mixlens.Lens) -> None:
    rows = [{"id": "\ud83d", "text": "a \ud83d film", "x": "\udc00"}, {"id": "b\ud83d", "text": "good", "x": "\udc00"}]
    explained = mixlens.explain_data(lens, rows, "alti", by="x")
    assert [f.id for f in explained.failures] == ["?"] and "half of a surrogate pair" in explained.failures[0].error
    assert [text.id for text in explained] == ["b?"]


def test_progress_counts_rows(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 4)
    seen: list[tuple[int, int | None]] = []
    mixlens.explain_data(lens, TEXTS, "alti", progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 11) and seen[-1] == (11, 11) and seen == sorted(seen)
    seen.clear()
    mixlens.explain_data(lens, iter(TEXTS), "alti", limit=3, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (3, 3)


def test_a_result_without_a_folder_is_gone_with_it(lens: mixlens.Lens) -> None:
    explained = mixlens.explain_data(lens, ["good"], "alti")
    folder = explained.folder
    assert (folder / "summary.html").is_file()
    del explained
    assert not folder.exists()


def test_a_file_s_columns(lens: mixlens.Lens, tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text('review,stars\n"a deep film",5\nbad,1\n', encoding="utf-8")
    (tmp_path / "reviews.jsonl").write_text(
        "".join(json.dumps({"review": t, "stars": s}) + "\n" for t, s in (("a deep film", 5), ("bad", 1)))
    )
    for name, five in (("reviews.csv", "5"), ("reviews.jsonl", 5)):
        explained = mixlens.explain_data(lens, tmp_path / name, "alti", field="review")
        assert [(text.text, text.data["stars"]) for text in explained] == [
            ("a deep film", five),
            ("bad", five.__class__(1)),
        ]


def test_a_pair_that_leaves_windows_no_room_fails_alone(lens, tmp_path):
    rows = [("a deep film " * 7, "not bad " * 12), ("a deep film", "not bad " * 12)]
    explained = mixlens.explain_data(lens, rows, "grad_x_input", out=tmp_path / "run", window=20)
    assert (len(explained), len(explained.failures)) == (1, 1)


def test_long_texts_in_windows(tiny_bert_folder, tmp_path):
    lens = mixlens.load(str(tiny_bert_folder), dtype="float64")  # what its files round, and nothing else
    long = " ".join(["a deep and meaningful film."] * 8)
    rows = ["not bad", long, "very good"]
    explained = mixlens.explain_data(lens, rows, "grad_x_input", out=tmp_path / "run", window=20, stride=10)
    assert not explained.failures
    for row, text in zip(explained, rows, strict=True):
        attr, alone = explained.attribution(row.id), lens.attribute(text, "grad_x_input", window=20, stride=10)
        torch.testing.assert_close(attr.scores, alone.scores.float(), rtol=1e-6, atol=1e-9)
        assert attr.options == {"window": 20, "stride": 10} and attr.target == alone.target
        assert len(attr.meta.get("windows", ())) == (4 if text is long else 0)
    with pytest.raises(RunChanged, match="windows"):
        mixlens.explain_data(lens, rows, "grad_x_input", out=tmp_path / "run", window=20)
    with pytest.raises(UnknownOption, match="got it alone"):
        mixlens.explain_data(lens, rows, "grad_x_input", stride=10)
    assert len(mixlens.explain_data(lens, rows, "grad_x_input").failures) == 1
