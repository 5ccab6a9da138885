"""Several methods on one text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import mixlens
from mixlens import compare
from mixlens.attribute import ATTRIBUTIONS
from mixlens.attribute.path import family as path
from mixlens.cli import app
from mixlens.errors import (
    InputError,
    NotConverged,
    NotFinite,
    OverBudget,
    TargetError,
    Undefined,
    UnknownMethod,
    UnknownOption,
)
from mixlens.measure.faithfulness import Bounds
from mixlens.results import Comparison
from mixlens.view.kit.terminal import as_text
from models.families import lens as family_lens
from models.families import make
from models.words import tokenizer
from pages import still

TEXT = "a deep and meaningful film."
METHODS = ["globenc", "grad_x_input", "random"]


@pytest.fixture(scope="module")
def lens(tiny_bert_folder: Path) -> mixlens.Lens:
    return mixlens.load(str(tiny_bert_folder), dtype=torch.float64)


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


class Fails:
    """`function`, which raises for the methods of these names."""

    def __init__(self, function: Callable[..., Any], error: Exception, *names: str) -> None:
        self.function, self.error, self.names = function, error, names

    def __call__(self, lens: Any, asks: Any, *rest: Any, **how: Any) -> Any:
        asked = [asks] if rest else [ask.name for ask in asks]
        if set(asked) & set(self.names):
            raise self.error
        return self.function(lens, asks, *rest, **how)


@pytest.mark.parametrize("error", [NotConverged("too far off"), OverBudget("too large"), NotFinite("NaN scores")])
def test_a_method_that_fails_costs_no_other(
    lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    names = ["grads", "att_grads", "globenc", "random"]  # the first two share a pass
    whole = lens.compare(TEXT, names)
    fails = Fails(compare.attributions, error, "att_grads", "globenc")
    monkeypatch.setattr(compare, "attributions", fails)
    found = lens.compare(TEXT, names)
    assert found.skipped == {n: f"{type(error).__name__}: {error}" for n in ("att_grads", "globenc")}
    assert list(found.attributions) == list(found.faithfulness) == ["grads", "random"]
    assert found["grads"].scores.equal(whole["grads"].scores)
    shown = " ".join(as_text(found.__rich__(), 200).split())
    assert f"globenc: {type(error).__name__}: {error}" in shown
    assert str(error) in found.to_html() and str(error) in found.to_latex()
    assert "\\begin{table}\n\\centering\n\\caption{Two}\n{\\setlength" in found.to_latex(caption="Two")
    with pytest.raises(type(error), match=str(error)):
        lens.compare(TEXT, ["globenc", "att_grads"])


def test_integrated_gradients_that_do_not_converge(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path, "integrated_gradients", partial(path.integrated_gradients, steps=1))
    found = lens.compare(TEXT, ["integrated_gradients", "saliency"])
    assert list(found.attributions) == ["saliency"]
    assert found.skipped["integrated_gradients"].startswith("NotConverged: ")


def test_maps_and_numbers_that_fail_cost_no_scores(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "maps_of", lambda *a, **k: (_ for _ in ()).throw(OverBudget("too large")))
    monkeypatch.setattr(compare, "left", lambda *a: (_ for _ in ()).throw(NotFinite("NaN logits")))
    found = lens.compare(TEXT, ["globenc", "saliency"], maps=True)
    assert list(found.attributions) == ["globenc", "saliency"]
    assert found.skipped == {"maps of globenc": "OverBudget: too large", "faithfulness": "NotFinite: NaN logits"}
    assert not found.maps and not found.faithfulness


def test_a_wrong_target_fails_before_the_work(lens: mixlens.Lens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "attributions", lambda *a: pytest.fail("ran"))
    with pytest.raises(TargetError, match="no label 'neutral'"):
        lens.compare(TEXT, METHODS, target="neutral")


def test_one_method_is_one(lens: mixlens.Lens) -> None:
    for methods, said in ((["random"], "1 method ·"), (["random", "globenc"], "2 methods ·")):
        assert said in as_text(lens.compare(TEXT, methods, faithfulness=False).__rich__(), 200)


def test_shown_everywhere(lens: mixlens.Lens, tmp_path: Path) -> None:
    found = lens.compare("a deep </script> film", METHODS)
    shown = as_text(found.__rich__())
    whole = found.to_html(tmp_path / "c.html")
    page = still(whole)
    assert (tmp_path / "c.html").read_text(encoding="utf-8") == whole
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


def test_faithfulness_is_that_of_the_model_itself(lens: mixlens.Lens) -> None:
    found = lens.compare(TEXT, METHODS)
    ids = list(found.first.source.ids)
    label = found.first.target.index  # type: ignore[union-attr]

    def probability(sets: Sequence[tuple[int, ...]]) -> np.ndarray:
        kept = [[t for i, t in enumerate(ids) if i not in gone] for gone in sets]
        with torch.no_grad():
            logits = [lens.model(input_ids=torch.tensor([some])).logits[0].double() for some in kept]
        return np.array([float(z.softmax(-1)[label]) for z in logits])

    bounds = Bounds(probability, ~np.array(found.first.special))
    rated = bounds.rated({name: found[name].scores.double().numpy() for name in METHODS})
    for name, expected in rated.items():
        assert vars(found.faithfulness[name]) == pytest.approx(vars(expected), abs=1e-9)
        assert f"{expected.value:.2f}" in as_text(found.__rich__())
        assert f"{expected.value:.2f}" in found.to_html()
    data = json.loads(json.dumps(found.to_dict()))
    assert data["methods"]["random"]["faithfulness"]["value"] == pytest.approx(found.faithfulness["random"].value)
    assert not lens.compare(TEXT, METHODS, faithfulness=False).faithfulness
    assert "faithful" not in still(lens.compare(TEXT, METHODS, faithfulness=False).to_html())


def test_no_faithfulness_without_a_probability() -> None:
    headless = mixlens.load(make("bert"), tokenizer())
    assert not headless.compare("w7 w30 w12", ["globenc"]).faithfulness


def test_the_masked_word_is_never_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    removable: list[list[bool]] = []
    made = Bounds.__init__

    def watched(self: Bounds, probability: Any, mask: Any, **more: Any) -> None:
        removable.append(mask.tolist())
        made(self, probability, mask, **more)

    monkeypatch.setattr(Bounds, "__init__", watched)
    masked = mixlens.load(make("bert", "masked"), tokenizer())
    compared = masked.compare("w7 w30 [MASK] w12", ["globenc", "saliency"])
    assert removable == [[False, True, True, False, True, False]]  # [CLS] w7 w30 [MASK] w12 [SEP]
    assert set(compared.faithfulness) == {"globenc", "saliency"}
    assert all(0 <= number.p <= 1 for number in compared.faithfulness.values())


def test_maps_side_by_side(lens: mixlens.Lens, tmp_path: Path) -> None:
    found = lens.compare(TEXT, ["globenc", "attention_rollout", "saliency"], maps=True)
    assert list(found.maps) == ["globenc", "attention_rollout"]
    assert found.maps["attention_rollout"].scores.equal(lens.mixing(TEXT, "attention").scores)  # type: ignore[union-attr]
    found.plot(tmp_path / "maps.png", kind="maps")
    assert (tmp_path / "maps.png").read_bytes()[:4] == b"\x89PNG"
    assert "layer by layer" in still(found.to_html())
    bare = lens.compare(TEXT, ["saliency"], faithfulness=False)
    assert "layer by layer" not in still(bare.to_html())
    with pytest.raises(UnknownOption, match="maps=True"):
        bare.plot(kind="maps")
    with pytest.raises(UnknownOption, match="'words' or 'maps'"):
        bare.plot(kind="map")


def test_command_line(tiny_bert_folder: Path, tmp_path: Path) -> None:
    args = ["compare", TEXT, "--model", str(tiny_bert_folder), "--method", "globenc", "--method", "saliency"]
    done = CliRunner().invoke(app, [*args, "--maps", "--json", "-", "--html", str(tmp_path / "c.html")])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert list(data["methods"]) == ["globenc", "saliency"]
    assert len(data["methods"]["globenc"]["scores"]) == len(data["tokens"])
    assert (tmp_path / "c.html").is_file()


@pytest.fixture
def cli(tiny_bert_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(
        app, ["compare", TEXT, "-m", str(tiny_bert_folder), "--no-faithfulness", *words]
    )


def methods(*names: str) -> list[str]:
    return [word for name in names for word in ("--method", name)]


def test_every_file(cli: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    done = cli(*methods("globenc", "saliency"), "--csv", "c.csv", "--parquet", "c.parquet", "--latex", "c.tex")
    assert done.exit_code == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"c.csv", "c.parquet", "c.tex"}
    assert len((tmp_path / "c.csv").read_text("utf-8").splitlines()) == 1 + 2 * 8


def test_a_missing_extra_is_said_before_the_work(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("mixlens.cli.commands.load", lambda model: pytest.fail("loaded"))
    done = cli("--parquet", "c.parquet")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "pip install" in done.stderr


@pytest.mark.parametrize(
    ("words", "drawn", "mapped"),
    [
        (["--png", "m.png"], "words", False),
        (["--png", "m.png", "--maps"], "maps", True),
        (["--png", "m.png", "--kind", "maps"], "maps", True),
        (["--png", "m.png", "--kind", "words", "--maps", "--html", "m.html"], "words", True),
    ],
)
def test_maps_that_are_asked_for_are_drawn(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, words: list[str], drawn: str, mapped: bool
) -> None:
    seen: list[tuple[str, bool]] = []

    def plot(self: Comparison, path: Path, *, kind: str = "words") -> None:
        seen.append((kind, bool(self.maps)))

    monkeypatch.setattr(Comparison, "plot", plot)
    done = cli(*methods("globenc", "saliency"), *words)
    assert done.exit_code == 0, done.stderr
    assert seen == [(drawn, mapped)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--kind", "maps"], "add --png FILE"),
        (["--kind", "map", "--png", "m.png"], "one of words, maps"),
        (["--maps"], "--html, --png or --save"),
        (["--maps", "--json", "-"], "--html, --png or --save"),
        (["--maps", "--kind", "words", "--png", "m.png"], "--html, --png or --save"),
    ],
)
def test_what_would_be_dropped_is_refused(
    cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, words: list[str], says: str
) -> None:
    monkeypatch.setattr("mixlens.cli.commands.load", lambda model: pytest.fail("loaded"))
    done = cli(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in " ".join(done.stderr.replace("│", " ").split())


def test_methods_without_maps_are_refused(cli: Callable[..., Any], tiny_bert_folder: Path) -> None:
    done = cli(*methods("saliency"), "--kind", "maps", "--png", "m.png")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "saliency" in done.stderr and "no layer maps" in done.stderr
    with pytest.raises(UnknownOption, match="no layer maps"):
        mixlens.load(tiny_bert_folder).compare(TEXT, ["saliency"], maps=True)
