"""Bars, pictures in notebooks, and that loading is quiet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

import mixlens
from mixlens import progress
from mixlens.errors import UnknownOption
from mixlens.reproduce import reproduce

TEXT = "a deep film ."


class Bar:
    """What stands for tqdm."""

    made: ClassVar[list[Bar]] = []

    def __init__(self, desc: str, total: int | None, leave: bool) -> None:
        self.desc, self.total, self.n, self.open = f"{desc}: ", total, 0, True
        self.made.append(self)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: Any) -> None:
        self.open = False

    def set_description(self, desc: str, refresh: bool) -> None:
        self.desc = f"{desc}: "

    def reset(self, total: int | None) -> None:
        self.n, self.total = 0, total

    def update(self, n: int) -> None:
        assert self.open and n >= 0
        self.n += n


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Bar]:
    monkeypatch.setattr("tqdm.auto.tqdm", Bar)
    monkeypatch.setattr(Bar, "made", [])
    return Bar.made


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


CALLS = {
    "attribute": lambda lens, how: lens.attribute(TEXT, progress=how),
    "mixing": lambda lens, how: lens.mixing([TEXT, "film"], progress=how),
    "compare": lambda lens, how: lens.compare(TEXT, ["alti", "random"], faithfulness=False, progress=how),
    "evaluate": lambda lens, how: mixlens.evaluate(lens, [{"text": TEXT}], ["alti"], ["spearman"], progress=how),
    "flow": lambda lens, how: lens.mixing(TEXT, "attention").flow(progress=how),
}


@pytest.mark.parametrize("name", CALLS)
def test_progress_is_a_bar_nothing_or_a_function(lens: mixlens.Lens, bars: list[Bar], name: str) -> None:
    call, seen = CALLS[name], []
    call(lens, lambda done, total: seen.append((done, total)))
    call(lens, None)
    call(lens, False)
    assert seen and seen[-1][0] == seen[-1][1] and not bars
    call(lens, True)
    (bar,) = bars
    assert (bar.desc, bar.n, bar.total, bar.open) == (f"{name}: ", *seen[-1], False)
    for odd in (5, "yes", [1]):
        with pytest.raises(UnknownOption, match=r"expected progress= True \(a bar\), None, or a function"):
            call(lens, odd)


def test_a_bar_is_closed_by_an_error(lens: mixlens.Lens, bars: list[Bar]) -> None:
    with pytest.raises(mixlens.errors.InputError):
        lens.attribute("", progress=True)
    assert [bar.open for bar in bars] == [False]


def test_parts_have_their_names(bars: list[Bar], tmp_path: Path) -> None:
    with progress.bar("reproduce") as report:
        for part in ("first", "second"):
            for done in range(4):
                report(part, done, 3)
    assert [(bar.desc, bar.n, bar.total) for bar in bars] == [("second: ", 3, 3)]
    with pytest.raises(UnknownOption, match="expected progress= True"):
        reproduce("alti-table2", tmp_path, progress=5)  # type: ignore[arg-type]


def test_a_real_bar(lens: mixlens.Lens, capsys: pytest.CaptureFixture[str]) -> None:
    lens.attribute(TEXT, progress=True)
    assert "attribute: 100%" in capsys.readouterr().err


def test_loading_is_quiet_and_leaves_transformers_bars_as_they_were(
    tiny_bert_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    before = logging.is_progress_bar_enabled()
    try:
        for active in (True, False):
            logging._tqdm_active = active
            mixlens.load(str(tiny_bert_folder))
            assert logging.is_progress_bar_enabled() is active
    finally:
        logging._tqdm_active = before
    assert capsys.readouterr().err == ""


def test_a_figure_is_shown_by_a_notebook(lens: mixlens.Lens) -> None:
    figures = [
        lens.attribute(TEXT).plot(),  # type: ignore[union-attr]
        lens.mixing(TEXT).plot(),  # type: ignore[union-attr]
        lens.compare(TEXT, ["alti"], faithfulness=False).plot(),
        mixlens.evaluate(lens, [{"text": TEXT}] * 3, ["alti", "globenc"], ["spearman"]).plot(),
    ]
    for figure in figures:
        assert figure._repr_png_()[:4] == b"\x89PNG"
