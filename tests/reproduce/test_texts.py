"""Pages of single texts: their scores by a method's largest, their pictures, and what was explained."""

from __future__ import annotations

import numpy as np
import pytest

from mixlens.reproduce.study import Study
from mixlens.reproduce.texts import Map, Text, page
from mixlens.view.reproduction import panel as draw


@pytest.fixture(scope="module")
def found(tiny_bert_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    study = Study("name", None, folder, folder, models={"*": str(tiny_bert_folder)})
    text = Text(
        "sst2",
        "a film",
        scores=(("ALTI", "alti", {}), ("signed", "grad_x_input", {})),
        maps={"whole": Map("norm", last=True), "row": Map("attention", "flow", row="cls")},
        marked=(("marked", "alti", {}),),
    )
    return page(text, notes=("so",))(study), study.lens("sst2")


def test_scores_are_divided_by_the_largest(found):
    findings, lens = found
    (panel,) = findings.panels
    scores = lens.attribute("a film", method="grad_x_input").scores.double().numpy()
    got = [panel.values["signed", column].mean for column in panel.columns]
    np.testing.assert_allclose(got, scores / np.abs(scores).max(), rtol=1e-6)
    assert [column.partition(" ")[0] for column in panel.columns] == [str(k) for k in range(len(scores))]


def test_pictures_are_drawn_and_the_answer_is_said(found, tmp_path):
    findings, _ = found
    assert list(findings.pictures) == ["marked, text 1", "whole, text 1", "row, text 1"]
    for number, picture in enumerate(findings.pictures.values()):
        picture(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 3000
    assert findings.notes[0].startswith("Text 1: 'a film', explained: ") and findings.notes[1] == "so"


def test_a_text_is_drawn_with_its_sign(found):
    """A cell a score, the method's largest in full colour, what speaks against in the other."""
    (panel,) = found[0].panels
    axes = draw(panel).axes[0]
    shown = np.asarray(axes.images[0].get_array())
    assert shown.shape == (2, len(panel.columns)) and list(np.abs(shown).max(1)) == pytest.approx([1, 1])
    signs = np.sign([[panel.values[row, column].mean for column in panel.columns] for row in panel.rows])
    assert (np.sign(shown) == signs).all()
    assert [label.get_text() for label in axes.get_xticklabels()] == [c.partition(" ")[2] for c in panel.columns]
