"""`target="all"`: an Attribution for each class, the same as each alone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

import mixlens
from mixlens.answer import every_class
from mixlens.cli import app
from mixlens.errors import TargetError
from mixlens.subject.head import Head
from models import families


@pytest.fixture(scope="module")
def lens() -> mixlens.Lens:
    return families.lens("bert", "sequence", num_labels=3)


@pytest.mark.parametrize("method", ["grad_x_input", "attcat", "alti", "blank_out", "random"])
def test_each_is_what_it_is_alone(lens, method):
    text = families.text()
    options = {"replace": "delete"} if method == "blank_out" else {}
    every = lens.attribute(text, method, "all", **options)
    assert every.names == tuple(lens.head.labels.values()) and len(every) > 2
    for index, attr in enumerate(every):
        alone = lens.attribute(text, method, index, **options)
        torch.testing.assert_close(attr.scores, alone.scores, rtol=1e-12, atol=1e-15)
        assert attr.target == alone.target and attr.method == method and attr.options == alone.options
        assert attr.meta["target_probability"] == pytest.approx(alone.meta["target_probability"], rel=1e-12)
    specific = method not in ("alti", "random")
    assert torch.equal(every[0].scores, every[1].scores) is not specific


def test_maps_are_made_once(lens, monkeypatch):
    from mixlens.mixing import MIXING

    count, function = [], MIXING["alti"].function

    def counted(*arguments, **options):
        count.append(1)
        return function(*arguments, **options)

    monkeypatch.setitem(MIXING, "alti", replace(MIXING["alti"], function=counted))
    lens.attribute(families.text(), "alti", "all")
    assert len(count) == lens.subject.layers


def test_it_is_shown_as_classes(lens):
    every = lens.attribute(families.text(), "grad_x_input", mixlens.Target("all", of="prob"))
    assert [attr.meta["of"] for attr in every] == ["prob"] * len(every)
    page = every.to_html()
    assert f"<h1>{len(every)} classes</h1>" in page
    for name in every.names:
        assert f"<h2><bdi>{name}</bdi></h2>" in page and f"{name}</div>" in every._repr_html_()
    frame = every.to_frame()
    assert frame.columns[0] == "target" and list(dict.fromkeys(frame["target"])) == list(every.names)


def test_what_is_refused(lens):
    text = families.text()
    with pytest.raises(TargetError, match="expected one text for target='all', got 2; ask for each of them"):
        lens.attribute([text, text], "alti", "all")
    with pytest.raises(TargetError, match="expected no foil beside target='all', got 0; name a target for it"):
        lens.attribute(text, "alti", mixlens.Target("all", foil=0))
    with pytest.raises(TargetError, match="target='all' is of classifiers of whole texts, a token head has classes at"):
        families.lens("bert", "token").attribute(text, "alti", "all")


def test_a_class_or_a_token_of_that_name_is_meant_by_it():
    named, model = Head("sequence", {0: "none", 1: "All"}), Head("causal", {})
    assert every_class(named, "all") is None and every_class(model, "all") is None
    assert every_class(Head("sequence", {0: "no", 1: "yes"}), "ALL") is None  # which names nothing


def test_on_the_command_line(tiny_bert_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["explain", "a deep film", "-m", str(tiny_bert_folder), "--method", "saliency", "--target", "all"]
    result = CliRunner().invoke(app, [*words, "--html", "film.html", "--json", "-"])
    assert result.exit_code == 0, result.output
    assert [row["target"]["label"] for row in json.loads(result.stdout)] == ["negative", "positive"]
    assert "<h1>2 classes</h1>" in (tmp_path / "film.html").read_text("utf-8")
    assert [path.name for path in tmp_path.glob("*.html")] == ["film.html"]
