"""A table of a few texts, which distinguishes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import mixlens
from mixlens.view import evaluation, evaluation_cells


@pytest.mark.parametrize("chance", [True, False])
def test_too_few_texts_are_said_to_be(tiny_bert_folder: Path, monkeypatch: pytest.MonkeyPatch, chance: bool) -> None:
    lens = mixlens.load(str(tiny_bert_folder))
    table = mixlens.evaluate(lens, ["a deep film ."], ["alti", "globenc"], ["aopc"], resamples=20)
    monkeypatch.setattr(
        evaluation_cells, "_cell", lambda table, row, best=False: evaluation_cells.Cell(row, True, chance)
    )
    assert all(c.best is not chance and not c.chance for line in evaluation.grid(table) for c in line)
    for text in (str(table), table.to_html(), table.to_latex()):
        said = " ".join(text.replace("%", " ").split())
        assert ("1 texts are too few to distinguish anything" in said) is chance
