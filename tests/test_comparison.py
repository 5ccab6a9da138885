"""Several methods on one text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mixlens
from mixlens.attribute import ATTRIBUTIONS
from mixlens.cli import app
from mixlens.errors import InputError, Undefined, UnknownMethod
from mixlens.view.terminal import as_text
from models.families import lens as family_lens

TEXT = "a deep and meaningful film."
METHODS = ["globenc", "grad_x_input", "random"]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder))


def test_each_method_is_what_attribute_gives(lens: mixlens.Lens) -> None:
    found = lens.compare(TEXT, METHODS, target="negative")
    assert list(found.attributions) == METHODS
    assert not found.skipped
    for name in METHODS:
        alone = lens.attribute(TEXT, name, target="negative")
        assert found[name].scores.equal(alone.scores)
        assert found[name].target == alone.target


def test_all_methods_by_default_and_reasons_for_the_rest() -> None:
    found = family_lens("gpt2", "sequence").compare([7, 30, 12])
    assert set(found.attributions) | set(found.skipped) == set(ATTRIBUTIONS)
    assert "post-LN" in found.skipped["trans_att"]


def test_refusals(lens: mixlens.Lens) -> None:
    with pytest.raises(InputError, match="one text"):
        lens.compare([TEXT, TEXT], ["random"])
    with pytest.raises(UnknownMethod, match="did you mean 'globenc'"):
        lens.compare(TEXT, ["globencc"])
    with pytest.raises(Undefined, match="none of the methods"):
        family_lens("gpt2", "sequence").compare([7, 30, 12], ["trans_att"])


def test_shown_everywhere(lens: mixlens.Lens, tmp_path: Path) -> None:
    found = lens.compare("a deep </script> film", METHODS)
    shown = as_text(found.__rich__())
    page = found.to_html(tmp_path / "c.html")
    assert (tmp_path / "c.html").read_text(encoding="utf-8") == page
    for name in METHODS:
        assert name in shown
        assert name in page
        assert name in found._repr_html_()
    assert "</script" not in page.replace("&lt;/script", "")
    assert "meaningful" not in shown
    found.plot(tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    frame = found.to_frame()
    assert list(frame.columns[-3:]) == METHODS
    assert frame["globenc"].tolist() == pytest.approx(found["globenc"].scores.tolist())


def test_command_line(tiny_bert_folder: Path, tmp_path: Path) -> None:
    args = ["compare", TEXT, "--model", str(tiny_bert_folder), "--method", "globenc", "--method", "saliency"]
    done = CliRunner().invoke(app, [*args, "--json", "-", "--html", str(tmp_path / "c.html")])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert list(data["methods"]) == ["globenc", "saliency"]
    assert len(data["methods"]["globenc"]["scores"]) == len(data["tokens"])
    assert (tmp_path / "c.html").is_file()
