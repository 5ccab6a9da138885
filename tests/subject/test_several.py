"""Several texts in one call: which of them fails, and what becomes of the others; how they are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import mixlens
from mixlens.cli import app
from mixlens.errors import (
    EmptyInput,
    InputError,
    NotConverged,
    NotFinite,
    TargetError,
    TooLong,
    Undefined,
    UnknownMethod,
    UnknownOption,
)
from mixlens.results import Attribution, LayerMaps, Results
from mixlens.subject import several
from pages import still

GOOD = ["a deep film .", "not bad", "a slow film", "very good ."]
BAD = {1: float("nan"), 3: "", 4: "\U0001f600", 6: "film " * 40}
ROWS: list[Any] = [GOOD[0], BAD[1], GOOD[1], BAD[3], BAD[4], GOOD[2], BAD[6], GOOD[3]]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder), dtype=torch.float64)


@pytest.mark.parametrize("verb", ["attribute", "mixing"])
@pytest.mark.parametrize(
    ("row", "error"), [(BAD[1], InputError), (BAD[3], EmptyInput), (BAD[4], InputError), (BAD[6], TooLong)]
)
def test_the_error_names_the_text(lens: mixlens.Lens, verb: str, row: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^text 2: ") as caught:
        getattr(lens, verb)([*GOOD[:2], row, GOOD[2]])
    assert type(caught.value) is error
    for errors in ("raise", "skip"):
        with pytest.raises(error, match=r"^(?!text)"):
            getattr(lens, verb)(row, errors=errors)


@pytest.mark.parametrize("verb", ["attribute", "mixing"])
def test_skipped_texts_leave_a_gap(lens: mixlens.Lens, verb: str) -> None:
    ask: Callable[..., Any] = getattr(lens, verb)
    with pytest.warns(
        UserWarning, match=r"^4 of 8 texts are skipped, .* \(1, 3, 4, 6\); the first: .*text 1: "
    ) as seen:
        found = ask(ROWS, errors="skip")
    assert seen[0].filename == __file__
    assert [one is None for one in found] == [i in BAD for i in range(8)]
    assert list(found.skipped) == list(BAD)
    assert found.skipped[6].startswith("TooLong: text 6: expected at most 32 tokens")
    for one, alone in zip([one for one in found if one is not None], ask(GOOD), strict=True):
        assert torch.allclose(one.scores, alone.scores, rtol=0, atol=1e-12)


def test_nothing_is_said_where_nothing_is_skipped(lens: mixlens.Lens) -> None:
    found = lens.attribute(GOOD, errors="skip")
    assert not found.skipped and len(found) == len(GOOD)  # type: ignore[union-attr, arg-type]


def test_a_wrong_target_of_one_text(lens: mixlens.Lens) -> None:
    with pytest.raises(TargetError, match=r"^text 3: no label 'so-so'"):
        lens.attribute(GOOD, target=["positive", "negative", 0, "so-so"])
    with pytest.warns(UserWarning, match=r"^1 of 4 .*TargetError: text 3: no label"):
        found = lens.attribute(GOOD, target=["positive", "negative", 0, "so-so"], errors="skip")
    assert [one and one.target.label for one in found] == ["positive", "negative", "negative", None]  # type: ignore[union-attr]


def failing(bad: dict[int, Exception]) -> tuple[list[list[int]], Callable[[Any], list[int]]]:
    """What was run, and a run that fails with the first of `bad` that is among its texts."""
    asked: list[list[int]] = []

    def run(some: Any) -> list[int]:
        asked.append(list(some))
        for i in some:
            if i in bad:
                raise bad[i]
        return [10 * i for i in some]

    return asked, run


@pytest.mark.parametrize("at", [0, 1, 4, 8])
def test_a_text_that_fails_at_work_is_found(at: int) -> None:
    asked, run = failing({at: NotFinite("NaN scores")})
    with pytest.raises(NotFinite, match=f"^text {at}: NaN scores"):
        several.explained(run, [None] * 9, False, False)  # type: ignore[list-item]
    assert sum(map(len, asked)) <= 9 + 9 + 2
    with pytest.warns(UserWarning, match=f"1 of 9 .*NotFinite: text {at}: NaN scores"):
        found = several.explained(run, [None] * 9, False, True)  # type: ignore[list-item]
    assert found == [None if i == at else 10 * i for i in range(9)]


def test_what_every_text_has_is_no_texts_fault() -> None:
    _, run = failing(dict.fromkeys(range(5), Undefined("means nothing")))
    for skip in (False, True):
        with pytest.raises(Undefined, match=r"means nothing"):
            several.explained(run, [None] * 5, False, skip)  # type: ignore[list-item]
    with pytest.raises(Undefined, match=r"^means nothing"):
        several.explained(run, [None] * 5, False, False)  # type: ignore[list-item]
    _, run = failing({2: UnknownMethod("no such"), 3: NotConverged("far off")})
    with pytest.raises(UnknownMethod, match=r"^no such"):
        several.explained(run, [None] * 5, False, True)  # type: ignore[list-item]


def test_texts_without_one_that_is_any_good(lens: mixlens.Lens) -> None:
    with pytest.warns(UserWarning, match="2 of 2"):
        assert lens.attribute(["", "  "], errors="skip") == [None, None]


@pytest.mark.parametrize("errors", ["ignore", None, True, ["raise"]])
def test_errors_is_one_of_two(lens: mixlens.Lens, errors: Any) -> None:
    with pytest.raises(UnknownOption, match="expected errors= 'raise' or 'skip', got"):
        lens.attribute(GOOD, errors=errors)


def test_results_are_a_list(lens: mixlens.Lens) -> None:
    found = lens.attribute(GOOD)
    assert isinstance(found, list) and isinstance(found, Results)
    assert found == list(found) and found[1:] == list(found)[1:]
    assert all(isinstance(one, Attribution) for one in found)
    assert all(isinstance(one, LayerMaps) for one in lens.mixing(GOOD))  # type: ignore[union-attr]


def test_results_are_shown(lens: mixlens.Lens, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    with pytest.warns(UserWarning, match="1 of 3"):
        found: Any = lens.attribute([GOOD[0], "", "a < film"], errors="skip")
    frame = found.to_frame()
    assert list(frame.columns[:3]) == ["text", "token", "score"]
    assert frame[frame["text"] == 2]["score"].tolist() == pytest.approx(found[2].scores.tolist())
    assert sorted(set(frame["text"])) == [0, 2]
    whole = found.to_html(tmp_path / "all.html")
    page = still(whole)
    assert (tmp_path / "all.html").read_text("utf-8") == whole
    for shown in (page, found._repr_html_()):
        assert "deep" in shown and "text 1" in shown.lower() and "EmptyInput" in shown
        assert "&lt;" in shown and "<script" not in shown
    many = Results([found[0]] * 30)
    assert "and 10 more" in many._repr_html_() and "Text 29" in many.to_html()
    assert "Text 0" in lens.mixing(GOOD).to_html()  # type: ignore[union-attr]
    assert list(Results([None]).to_frame()) == ["text"]


def test_command_line(tiny_bert_folder: Path, tmp_path: Path) -> None:
    words = ["explain", GOOD[0], "", GOOD[1], "-m", str(tiny_bert_folder)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1 and "error: text 1: expected a text with at least one token" in done.stderr
    done = CliRunner().invoke(app, [*words, "--skip", "--json", "-", "--html", str(tmp_path / "a.html")])
    assert done.exit_code == 0, done.output
    assert [one and one["text"] for one in json.loads(done.stdout)] == [GOOD[0], None, GOOD[1]]
    assert "skipped: EmptyInput: text 1: " in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"a-1.html", "a-3.html"}
